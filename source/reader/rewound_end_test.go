// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

// mustEndRewound checks that everything that was read has been delivered, in n lines.
func mustEndRewound(t *testing.T, r *recorder, err error, n int) {
	t.Helper()
	var rewound *source.RewoundError
	require.True(t, errors.As(err, &rewound), "error is %v, want that the server was rewound", err)
	if got := r.seen(); len(got) != n || len(r.open) > 0 {
		t.Errorf("%d of %d tickets are open, seen %d lines, want %d:\n  %s", len(r.open), r.tickets, len(got), n,
			strings.Join(got, "\n  "))
	}
}

// Whoever begins a new history waits for what was admitted to the old one.
func TestReader_ends_behind_what_it_has_read(t *testing.T) {
	const n = 300 // more than wait for the reflector
	var writes []kubetest.Write
	var frames strings.Builder
	for i := range n {
		writes = append(writes, kubetest.Write{Rev: 10 + i, Name: "a", UID: "u-a"})
		frames.WriteString(kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-a", fmt.Sprint(10+i))))
	}
	for name, end := range map[string]kubetest.Step{
		"of a watch that ended in order": {Body: frames.String()},
		"of a watch that was cut off":    {Body: frames.String(), Cut: true},
	} {
		for by, restore := range map[string]func(*kubetest.Cluster){
			"its version": func(c *kubetest.Cluster) { c.Now = 3 },
			"what it has": func(c *kubetest.Cluster) { c.Writes = nil },
		} {
			must.RunInBubble(t, name+", by "+by, func(t *testing.T) {
				server := kubetest.NewCluster(t, 10+n, writes...)
				server.Oldest = 1
				r := &recorder{resume: "10", known: []source.Ident{known("a", "u-a", 10)}}
				server.Fault = func(_ int, q url.Values) *kubetest.Step {
					if q.Get("watch") == "" || server.Watches() > 1 {
						return nil
					}
					server.Mu.Lock()
					defer server.Mu.Unlock()
					restore(server)
					return &end
				}
				r.onCall = func(call string, _ <-chan struct{}) {
					if call == "deliver" {
						<-time.After(3 * time.Second) // longer than a watch may last, in all
					}
				}
				_, err := runAt(server, r, enough, minutes(50))
				mustEndRewound(t, r, err, n)
			})
		}
	}
	must.RunInBubble(t, "by what the far side says of a bookmark", func(t *testing.T) {
		s := kubetest.NewScript(t, kubetest.Step{
			Want: "watch=true", Body: frames.String() + kubetest.Bookmark("1000"),
			Hold: true,
		})
		r := &recorder{resume: "9", refuse: func(source.Progress) error { return &source.RewoundError{} }}
		r.onCall = func(call string, _ <-chan struct{}) {
			if call == "deliver" {
				<-time.After(100 * time.Millisecond)
			}
		}
		_, err := runUntil(t, s, r, minutes(10))
		mustEndRewound(t, r, err, n+1)
	})
}

func TestReader_ends_at_once_where_the_far_side_finds_another_history_behind_what_was_recovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 60, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 8, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 9, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 20, Name: "a", UID: "u-a"})
		server.Oldest = 40
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
		r.refuse = func(p source.Progress) error {
			if p.Kind == source.Gap {
				return fmt.Errorf("the log knows better: %w", &source.RewoundError{})
			}
			return nil
		}
		got, err := runAt(server, r, enough, minutes(10))
		check(t, got, "updated a@8 recovered", "updated a@9 recovered", "gap 40")
		mustEndRewound(t, r, err, 3)
		assert.Equal(t, 1, server.Watches(), "watches, states are %v", r.states)
		assert.EqualValues(t, 0, r.told("waiting"), "watches, states are %v", r.states)
	})
}

// What was published can be checked only where the API server answers soon. Otherwise a watch is worth more.
func TestReader_does_not_stay_without_a_watch_to_check_what_was_published(t *testing.T) {
	for name, c := range map[string]struct {
		fault kubetest.Step
		most  time.Duration
	}{
		"because it hangs":        {kubetest.Step{Mute: true, Body: " "}, checkTime},
		"because it asks to wait": {kubetest.Step{Status: http.StatusTooManyRequests, After: "420"}, checkTime},
		"because it asks to wait for a moment": {
			kubetest.Step{Status: http.StatusTooManyRequests, After: "1"},
			3 * time.Second,
		},
		"because it fails":                {kubetest.Step{Status: http.StatusInternalServerError}, time.Second},
		"because it may not be asked":     {kubetest.Step{Status: http.StatusForbidden}, time.Second},
		"because every connection breaks": {kubetest.Step{Cut: true}, 3 * time.Second},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 60, kubetest.Write{Rev: 18, Name: "b", UID: "u-b"},
				kubetest.Write{Rev: 20, Name: "a", UID: "u-a"})
			server.Oldest = 1
			var mu sync.Mutex
			var watches []time.Time
			var lasts []time.Duration
			server.Fault = func(_ int, q url.Values) *kubetest.Step {
				if q.Get("resourceVersionMatch") != "" {
					return &c.fault
				}
				if q.Get("watch") != "" {
					mu.Lock()
					defer mu.Unlock()
					watches = append(watches, time.Now())
					asked, _ := time.ParseDuration(q.Get("timeoutSeconds") + "s")
					lasts = append(lasts, asked+30*time.Second)
				}
				return nil
			}
			r := &recorder{resume: "21", known: []source.Ident{known("a", "u-a", 20), known("b", "u-b", 18)}}
			begin := time.Now()
			_, err := runAt(server, r, enough, func() bool {
				mu.Lock()
				defer mu.Unlock()
				return len(watches) >= 4
			})
			require.True(t, err == nil && len(watches) >= 4, "error %v after %d watches", err, len(watches))
			assert.LessOrEqual(t, watches[0].Sub(begin), c.most, "the first watch began after")
			for i := range 3 {
				// A watch that shows nothing lasts as long as it was asked to, and some time more; the wait after it is
				// short.
				took := watches[i+1].Sub(watches[i]) - lasts[i]
				assert.True(t, took >= 0 && took <= c.most+2*time.Second,
					"watch %d began %v after the one before was over, want at most %v", i+2, took, c.most)
			}
		})
	}
}
