// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

// A stream can be ended while it watches, while it is refused, and before all that; what was read before is delivered.
func TestReader_ends_when_it_is_asked_to_with_everything_delivered(t *testing.T) {
	for name, c := range map[string]struct {
		away bool
		done func(*recorder) bool
		want string
	}{
		"while it watches": {
			done: func(r *recorder) bool { return slices.Contains(r.seen(), "updated a@35 watch") },
			want: "updated a@35 watch",
		},
		"at once":        {done: func(*recorder) bool { return true }},
		"while it fails": {away: true, done: func(r *recorder) bool { return r.counted("not-found") > 3 }},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 40, kubetest.Write{Rev: 10, Name: "a", UID: "ua"},
				kubetest.Write{Rev: 35, Name: "a", UID: "ua"})
			server.Oldest = 20
			if c.away {
				server.Fault = func(int, url.Values) *kubetest.Step { return &kubetest.Step{Status: http.StatusNotFound} }
			}
			r := &recorder{resume: "30", known: []source.Ident{{
				Namespace: "default", Name: "a", UID: "ua",
				ResourceVersion: "10",
			}}}
			end, ended := make(chan struct{}), false
			got, err := runReader(t, Reader{Client: clientOf(t, server.Script), Stream: kubetest.ConfigMaps, End: end}, r,
				func() bool {
					r.mu.Lock()
					over := r.over
					r.mu.Unlock()
					if !ended && c.done(r) {
						ended = true
						close(end)
					}
					return over
				})
			assert.ErrorIs(t, err, ErrEnded, "it ended")
			assert.True(t, c.want == "" || slices.Contains(got, c.want), "got %v", got)
			assert.Empty(t, r.open, "tickets are open")
		})
	}
}
