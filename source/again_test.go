// SPDX-License-Identifier: Apache-2.0

package source

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
)

func TestReader_lists_anew_when_it_is_asked_to(t *testing.T) {
	writes := []write{{rev: 3, name: "a", uid: "u-a"}, {rev: 20, name: "a", uid: "u-a"}}
	want := []string{"updated a@20 watch", "gap 20", "added a@20 relist", "listed 20"}
	for name, c := range map[string]struct {
		fault  func(*cluster) func(int, url.Values) *step
		noRoom time.Duration
	}{
		"while it watches": {},
		"while a watch fails again and again": {fault: func(server *cluster) func(int, url.Values) *step {
			return func(_ int, q url.Values) *step {
				if q.Get("watch") != "" && server.watches() > 1 {
					return &step{status: http.StatusServiceUnavailable, after: "300"}
				}
				if q.Get("watch") != "" {
					return &step{body: frameOf("MODIFIED", cm("a", "u-a", "20")), cut: true}
				}
				return nil
			}
		}},
		"while nobody says whether a watch may go on": {fault: func(server *cluster) func(int, url.Values) *step {
			hung := false
			return func(_ int, q url.Values) *step {
				switch {
				case q.Get("watch") != "" && server.watches() == 1:
					return &step{body: frameOf("MODIFIED", cm("a", "u-a", "20")), cut: true}
				case server.watches() == 1 && q.Get("watch") == "" && !hung:
					hung = true
					return &step{mute: true, body: " "}
				}
				return nil
			}
		}},
		"while there is no room": {noRoom: 20 * time.Minute},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := newCluster(t, 40, writes...)
			server.oldest = 1
			if c.fault != nil {
				server.fault = c.fault(server)
			}
			r := &recorder{resume: "5", known: []Ident{known("a", "u-a", 3)}}
			r.onCall = func(call string, _ <-chan struct{}) {
				if call == "admit 20" {
					<-time.After(c.noRoom)
				}
			}
			again := make(chan Why)
			timer := time.AfterFunc(10*time.Second, func() { again <- Why{CauseAudit, "the audit found a difference"} })
			defer timer.Stop()
			begin := time.Now()
			got, err := runReader(t, Reader{Client: clientOf(t, server.script), Stream: configMaps, Recovery: enough, Again: again},
				r, until(r, "listed 20"))
			check(t, got, want...)
			if p := r.gap(); err != nil || p.Why != (Why{CauseAudit, "the audit found a difference"}) ||
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
		server := newCluster(t, 40, write{rev: 3, name: "a", uid: "u-a"}, write{rev: 20, name: "a", uid: "u-a"},
			write{rev: 30, name: "a", uid: "u-a"}, write{rev: 35, name: "a", uid: "u-a"})
		server.oldest = 1
		server.fault = func(_ int, q url.Values) *step {
			if q.Get("watch") == "" || server.watches() > 1 {
				return nil
			}
			return &step{body: frameOf("MODIFIED", cm("a", "u-a", "20")), hold: true}
		}
		again := make(chan Why)
		timer := time.AfterFunc(10*time.Second, func() { again <- Why{CauseAudit, "the audit found a difference"} })
		defer timer.Stop()
		r := &recorder{resume: "5", known: []Ident{known("a", "u-a", 3)}, remember: true}
		got, err := runReader(t, Reader{Client: clientOf(t, server.script), Stream: configMaps, Recovery: enough, Again: again},
			r, until(r, "updated a@35 watch"))
		check(t, got, "updated a@20 watch", "gap 20", "added a@20 relist", "listed 20", "updated a@30 watch",
			"updated a@35 watch")
		assert.NoError(t, err)
	})
}

func TestWatch_that_has_expired_is_not_taken_for_one_that_was_cut_off(t *testing.T) {
	asked := askedError{Why{CauseAudit, "the audit found a difference"}}
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
		server := newCluster(t, 40, write{rev: 20, name: "a", uid: "u-a"})
		server.oldest = 1
		again := make(chan Why)
		close(again)
		r := &recorder{resume: "5"}
		got, err := runReader(t, Reader{Client: clientOf(t, server.script), Stream: configMaps, Again: again}, r, minutes(3))
		check(t, got, "added a@20 watch")
		require.NoError(t, err)
		assert.Equal(t, 1, server.watches(), "watches")
	})
}
