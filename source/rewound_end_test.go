// SPDX-License-Identifier: Apache-2.0

package source

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
)

// mustEndRewound checks that everything that was read has been delivered, in n lines.
func mustEndRewound(t *testing.T, r *recorder, err error, n int) {
	t.Helper()
	var rewound *RewoundError
	require.True(t, errors.As(err, &rewound), "error is %v, want that the server was rewound", err)
	if got := r.seen(); len(got) != n || len(r.open) > 0 {
		t.Errorf("%d of %d tickets are open, seen %d lines, want %d:\n  %s", len(r.open), r.tickets, len(got), n,
			strings.Join(got, "\n  "))
	}
}

// Whoever begins a new history waits for what was admitted to the old one.
func TestReader_ends_behind_what_it_has_read(t *testing.T) {
	const n = 300 // more than wait for the reflector
	var writes []write
	var frames strings.Builder
	for i := range n {
		writes = append(writes, write{rev: 10 + i, name: "a", uid: "u-a"})
		frames.WriteString(frameOf("MODIFIED", cm("a", "u-a", fmt.Sprint(10+i))))
	}
	for name, end := range map[string]step{
		"of a watch that ended in order": {body: frames.String()},
		"of a watch that was cut off":    {body: frames.String(), cut: true},
	} {
		for by, restore := range map[string]func(*cluster){
			"its version": func(c *cluster) { c.now = 3 },
			"what it has": func(c *cluster) { c.writes = nil },
		} {
			must.RunInBubble(t, name+", by "+by, func(t *testing.T) {
				server := newCluster(t, 10+n, writes...)
				server.oldest = 1
				r := &recorder{resume: "10", known: []Ident{known("a", "u-a", 10)}}
				server.fault = func(_ int, q url.Values) *step {
					if q.Get("watch") == "" || server.watches() > 1 {
						return nil
					}
					server.mu.Lock()
					defer server.mu.Unlock()
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
		s := newScript(t, step{want: "watch=true", body: frames.String() + bookmark("1000"), hold: true})
		r := &recorder{resume: "9", refuse: func(Progress) error { return &RewoundError{} }}
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
		server := newCluster(t, 60, write{rev: 3, name: "a", uid: "u-a"}, write{rev: 8, name: "a", uid: "u-a"},
			write{rev: 9, name: "a", uid: "u-a"},
			write{rev: 20, name: "a", uid: "u-a"})
		server.oldest = 40
		r := &recorder{resume: "5", known: []Ident{known("a", "u-a", 3)}}
		r.refuse = func(p Progress) error {
			if p.Kind == Gap {
				return fmt.Errorf("the log knows better: %w", &RewoundError{})
			}
			return nil
		}
		got, err := runAt(server, r, enough, minutes(10))
		check(t, got, "updated a@8 recovered", "updated a@9 recovered", "gap 40")
		mustEndRewound(t, r, err, 3)
		assert.Equal(t, 1, server.watches(), "watches, states are %v", r.states)
		assert.EqualValues(t, 0, r.told("waiting"), "watches, states are %v", r.states)
	})
}

// What was published can be checked only where the API server answers soon. Otherwise a watch is worth more.
func TestReader_does_not_stay_without_a_watch_to_check_what_was_published(t *testing.T) {
	for name, c := range map[string]struct {
		fault step
		most  time.Duration
	}{
		"because it hangs":                     {step{mute: true, body: " "}, checkTime},
		"because it asks to wait":              {step{status: http.StatusTooManyRequests, after: "420"}, checkTime},
		"because it asks to wait for a moment": {step{status: http.StatusTooManyRequests, after: "1"}, 3 * time.Second},
		"because it fails":                     {step{status: http.StatusInternalServerError}, time.Second},
		"because it may not be asked":          {step{status: http.StatusForbidden}, time.Second},
		"because every connection breaks":      {step{cut: true}, 3 * time.Second},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := newCluster(t, 60, write{rev: 18, name: "b", uid: "u-b"}, write{rev: 20, name: "a", uid: "u-a"})
			server.oldest = 1
			var mu sync.Mutex
			var watches []time.Time
			var lasts []time.Duration
			server.fault = func(_ int, q url.Values) *step {
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
			r := &recorder{resume: "21", known: []Ident{known("a", "u-a", 20), known("b", "u-b", 18)}}
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
