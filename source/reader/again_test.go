// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

func TestReader_lists_anew_when_it_is_asked_to(t *testing.T) {
	writes := []kubetest.Write{{Rev: 3, Name: "a", UID: "u-a"}, {Rev: 20, Name: "a", UID: "u-a"}}
	want := []string{"updated a@20 watch", "gap 20", "added a@20 relist", "listed 20"}
	for name, c := range map[string]struct {
		fault  func(*kubetest.Cluster) func(int, url.Values) *kubetest.Step
		noRoom time.Duration
	}{
		"while it watches": {},
		"while a watch fails again and again": {fault: func(server *kubetest.Cluster) func(int, url.Values) *kubetest.Step {
			return func(_ int, q url.Values) *kubetest.Step {
				if q.Get("watch") != "" && server.Watches() > 1 {
					return &kubetest.Step{Status: http.StatusServiceUnavailable, After: "300"}
				}
				if q.Get("watch") != "" {
					return &kubetest.Step{Body: kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-a", "20")), Cut: true}
				}
				return nil
			}
		}},
		"while no answer says whether a watch may go on": {fault: func(server *kubetest.Cluster) func(int,
			url.Values) *kubetest.Step {
			hung := false
			return func(_ int, q url.Values) *kubetest.Step {
				switch {
				case q.Get("watch") != "" && server.Watches() == 1:
					return &kubetest.Step{Body: kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-a", "20")), Cut: true}
				case server.Watches() == 1 && q.Get("watch") == "" && !hung:
					hung = true
					return &kubetest.Step{Mute: true, Body: " "}
				}
				return nil
			}
		}},
		"while there is no room": {noRoom: 20 * time.Minute},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 40, writes...)
			server.Oldest = 1
			if c.fault != nil {
				server.Fault = c.fault(server)
			}
			r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
			r.onCall = func(call string, _ <-chan struct{}) {
				if call == "admit 20" {
					<-time.After(c.noRoom)
				}
			}
			again := make(chan source.Why)
			timer := time.AfterFunc(10*time.Second, func() {
				again <- source.Why{
					Cause:   source.CauseAudit,
					Message: "the audit found a difference",
				}
			})
			defer timer.Stop()
			begin := time.Now()
			got, err := runReader(t, Reader{
				Client: clientOf(t, server.Script), Stream: kubetest.ConfigMaps, Recovery: enough,
				Again: again,
			},
				r, until(r, "listed 20"))
			check(t, got, want...)
			if p := r.gap(); err != nil || p.Why != (source.Why{
				Cause:   source.CauseAudit,
				Message: "the audit found a difference",
			}) ||
				r.counted("asked") != 1 || len(r.open) > 0 {
				t.Errorf("error %v, gap %+v, counted %v, %d tickets open", err, p, r.reasons, len(r.open))
			}
			assert.LessOrEqual(t, time.Since(begin), c.noRoom+15*time.Second, "it took")
		})
	}
}

// The list is asked for while the watch is behind: what that has not shown yet, it shows behind the list.
func TestReader_passes_over_nothing_when_it_is_asked_to_list(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 40, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 20, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 30, Name: "a", UID: "u-a"}, kubetest.Write{Rev: 35, Name: "a", UID: "u-a"})
		server.Oldest = 1
		server.Fault = func(_ int, q url.Values) *kubetest.Step {
			if q.Get("watch") == "" || server.Watches() > 1 {
				return nil
			}
			return &kubetest.Step{Body: kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-a", "20")), Hold: true}
		}
		again := make(chan source.Why)
		timer := time.AfterFunc(10*time.Second, func() {
			again <- source.Why{
				Cause:   source.CauseAudit,
				Message: "the audit found a difference",
			}
		})
		defer timer.Stop()
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}, remember: true}
		got, err := runReader(t, Reader{
			Client: clientOf(t, server.Script), Stream: kubetest.ConfigMaps, Recovery: enough,
			Again: again,
		},
			r, until(r, "updated a@35 watch"))
		check(t, got, "updated a@20 watch", "gap 20", "added a@20 relist", "listed 20", "updated a@30 watch",
			"updated a@35 watch")
		assert.NoError(t, err)
	})
}

func TestWatch_that_has_expired_is_not_taken_for_one_that_was_cut_off(t *testing.T) {
	asked := askedError{source.Why{Cause: source.CauseAudit, Message: "the audit found a difference"}}
	for _, c := range []struct{ err, cut, want error }{
		{io.EOF, asked, asked},
		{nil, asked, asked},
		{io.EOF, context.Canceled, io.EOF},
		{gone(), nil, gone()},
		{gone(), asked, gone()},
	} {
		if got := outcome(c.err, c.cut); got == nil || got.Error() != c.want.Error() {
			t.Errorf("%v, cut off because of %v: %v, want %v", c.err, c.cut, got, c.want)
		}
	}
}

func TestReader_that_is_asked_no_more_goes_on(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 40, kubetest.Write{Rev: 20, Name: "a", UID: "u-a"})
		server.Oldest = 1
		again := make(chan source.Why)
		close(again)
		r := &recorder{resume: "5"}
		got, err := runReader(t, Reader{Client: clientOf(t, server.Script), Stream: kubetest.ConfigMaps, Again: again}, r,
			minutes(3))
		check(t, got, "added a@20 watch")
		require.NoError(t, err)
		assert.Equal(t, 1, server.Watches(), "watches")
	})
}
