// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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

// An etcd that is restored while the bridge runs: nothing that the server says of versions it has not reached yet can
// be trusted.
func TestReader_ends_where_the_API_server_goes_back_in_time(t *testing.T) {
	watched := kubetest.Step{
		Want: "resourceVersion=7",
		Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "8")) + kubetest.Bookmark("9"),
	}
	for name, c := range map[string]struct {
		steps []kubetest.Step
		now   string
	}{
		"between two watches": {[]kubetest.Step{{Want: "limit=1", Body: kubetest.ListOf("7", "")}, watched}, "5"},
		"and has no history": {[]kubetest.Step{
			{Want: "limit=1", Body: kubetest.ListOf("7", "")},
			{Want: "resourceVersion=7", Body: watched.Body + kubetest.FrameOf("ERROR", kubetest.ExpiredStatus)},
			{Want: "limit=1", Body: kubetest.ListOf("5", "", kubetest.ConfigMap("a", "u-a", "4"))},
		}, "5"},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			s, r := kubetest.NewScript(t, c.steps...), &recorder{}
			s.Now = c.now
			got, err := runUntil(t, s, r, minutes(10))
			var rewound *source.RewoundError
			assert.True(t, errors.As(err, &rewound) && rewound.Position == "9" && rewound.Server == "5",
				"error is %v, want that the server went from 9 to 5", err)
			slices.Sort(got)
			check(t, got, "added a@8 watch", "bookmark 9", "listed 7", "snapshot 7")
		})
	}
}

func TestReader_lists_with_a_gap_where_the_position_is_too_old(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.NewScript(t, kubetest.Step{
			Want: "resourceVersion=5",
			Body: kubetest.FrameOf("ERROR", kubetest.ExpiredStatus),
		},
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("30", "", kubetest.ConfigMap("a", "u-a", "25"))})
		r := &recorder{resume: "5", known: []source.Ident{{
			Namespace: "default", Name: "b", UID: "u-b",
			ResourceVersion: "4",
		}}}
		got, _ := runUntil(t, s, r, lines(r, 3))
		// What the informer concludes about b, a tombstone, does not concern the feed.
		check(t, got, "gap 30", "added a@25 relist", "listed 30")
		assert.Equal(t, 1, r.counted("expired"), "counted %v", r.reasons)
	})
}

func TestReader_lists_with_a_gap_again_where_a_token_of_the_relist_expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.NewScript(t, kubetest.Step{
			Want: "resourceVersion=5", Status: http.StatusGone,
			Body: kubetest.ExpiredStatus,
		},
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("30", "t1", kubetest.ConfigMap("a", "u-a", "25"))},
			kubetest.Step{Want: "continue=t1", Status: http.StatusGone, Body: kubetest.ExpiredStatus},
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("40", "", kubetest.ConfigMap("a", "u-a", "25"))})
		r := &recorder{resume: "5"}
		got, _ := runUntil(t, s, r, lines(r, 5))
		check(t, got, "gap 30", "added a@25 relist", "gap 40", "added a@25 relist", "listed 40")
	})
}

// The items of a list go past the informer, in which changes may still be on their way.
func TestReader_passes_on_everything_of_a_watch_before_the_list_that_follows_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 300
		var body strings.Builder
		for v := 8; v < 8+n; v++ {
			body.WriteString(kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-a", fmt.Sprint(v))))
		}
		s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")},
			kubetest.Step{Want: "watch", Body: body.String() + kubetest.FrameOf("ERROR", kubetest.ExpiredStatus)},
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("500", "", kubetest.ConfigMap("a", "u-a", "400"))})
		r := &recorder{onCall: func(call string, _ <-chan struct{}) {
			if call == "deliver" {
				<-time.After(10 * time.Millisecond)
			}
		}}
		got, _ := runUntil(t, s, r, lines(r, n+5))
		if len(got) != n+5 || got[n+1] != fmt.Sprintf("updated a@%d watch", 7+n) || got[n+2] != "gap 500" ||
			len(r.open) != 0 {
			t.Errorf("%d lines, the last of them %v, and %d open tickets", len(got), got[max(0, len(got)-5):], len(r.open))
		}
	})
}

// Deletions of one lease share a version; a watch can break off between two of them.
func TestReader_shows_all_changes_of_one_version(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")},
			kubetest.Step{Want: "resourceVersion=7", Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "8")) +
				kubetest.FrameOf("DELETED", kubetest.ConfigMap("b", "u-b", "9")), Cut: true},
			kubetest.Step{Want: "resourceVersion=8", Body: kubetest.FrameOf("DELETED", kubetest.ConfigMap("b", "u-b", "9")) +
				kubetest.FrameOf("DELETED", kubetest.ConfigMap("c", "u-c", "9")), Cut: true},
			kubetest.Step{
				Want: "resourceVersion=8", Body: kubetest.FrameOf("DELETED", kubetest.ConfigMap("b", "u-b", "9")) +
					kubetest.FrameOf("DELETED", kubetest.ConfigMap("c", "u-c", "9")) +
					kubetest.Bookmark("9"),
				Cut: true,
			},
			kubetest.Step{
				Want: "resourceVersion=9", Hold: true,
				Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("d", "u-d", "10")),
			})
		r := &recorder{}
		got, _ := runUntil(t, s, r, func() bool { return slices.Contains(r.seen(), "added d@10 watch") })
		at := slices.Index(got, "bookmark 9")
		require.GreaterOrEqual(t, at, 0, "no bookmark in %v", got)
		check(t, slices.Delete(got, at, at+1), "snapshot 7", "listed 7", "added a@8 watch", "deleted b@9 watch",
			"deleted b@9 watch", "deleted c@9 watch", "deleted b@9 watch", "deleted c@9 watch", "added d@10 watch")
	})
}

func TestReader_passes_on_the_end_and_the_successor_of_an_object(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.NewScript(t, kubetest.Step{
			Want: "limit=1",
			Body: kubetest.ListOf("7", "", kubetest.ConfigMap("a", "u-1", "3")),
		},
			kubetest.Step{Want: "watch", Hold: true, Body: kubetest.FrameOf("DELETED", kubetest.ConfigMap("a", "u-1", "8")) +
				kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-2", "9")) +
				kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-3", "10")) +
				kubetest.FrameOf("DELETED", kubetest.ConfigMap("never-seen", "u-4", "11"))})
		r := &recorder{}
		got, _ := runUntil(t, s, r, lines(r, 7))
		check(t, got, "snapshot 7", "added a@3 snapshot", "listed 7", "deleted a@8 watch", "added a@9 watch",
			"updated a@10 watch",
			"deleted never-seen@11 watch")
	})
}

// Whatever the reader is about when its context ends, it ends too, without an error, and leaves the far side alone.
func TestReader_ends_with_its_context_wherever_it_is(t *testing.T) {
	steps := func() []kubetest.Step {
		return []kubetest.Step{
			{Want: "limit=1", Body: kubetest.ListOf("7", "t1", kubetest.ConfigMap("a", "u-a", "3"))},
			{Want: "continue=t1", Status: http.StatusServiceUnavailable},
			{Want: "continue=t1", Body: kubetest.ListOf("7", "", kubetest.ConfigMap("b", "u-b", "4"))},
			{Want: "resourceVersion=7", Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("c", "u-c", "8")) +
				kubetest.Bookmark("9")},
			{Want: "resourceVersion=9", Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("d", "u-d", "10")) +
				kubetest.FrameOf("ERROR", kubetest.ExpiredStatus)},
			{Want: "limit=1", Body: kubetest.ListOf("20", "", kubetest.ConfigMap("a", "u-a", "15"))},
			{Want: "resourceVersion=20", Hold: true, Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("e", "u-e", "21"))},
		}
	}
	calls := 0
	for at := 0; at <= calls; at++ { // the first time nothing ends it: that tells the number of calls
		must.RunInBubble(t, fmt.Sprint("call ", at), func(t *testing.T) {
			s := kubetest.NewScript(t, steps()...)
			var mu sync.Mutex
			n, stop := 0, make(chan struct{})
			r := &recorder{onCall: func(_ string, done <-chan struct{}) {
				mu.Lock()
				n++
				mine := n == at
				mu.Unlock()
				if mine {
					close(stop)
					if done != nil {
						// As one that waits for room, or for a marker's acknowledgement.
						<-done
						<-time.After(time.Second)
					}
				}
			}}
			got, err := runUntil(t, s, r, func() bool {
				select {
				case <-stop:
					return true
				default:
					return slices.Contains(r.seen(), "added e@21 watch")
				}
			})
			assert.NoError(t, err, "error")
			for _, line := range got {
				assert.False(t, strings.HasPrefix(line, "BUG"), line)
			}
			calls = max(calls, n)
		})
	}
	assert.GreaterOrEqual(t, calls, 20, "only %d calls were tried", calls)
}

// A broker that is away for long stops the reading, longer than a connection lasts.
func TestReader_loses_nothing_where_there_is_no_room_for_long(t *testing.T) {
	noRoomAt := func(at int) *recorder {
		n := 0
		return &recorder{onCall: func(call string, _ <-chan struct{}) {
			if strings.HasPrefix(call, "admit") {
				if n++; n == at {
					<-time.After(30 * time.Minute)
				}
			}
		}}
	}
	must.RunInBubble(t, "for a watch", func(t *testing.T) {
		s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")},
			kubetest.Step{
				Want: "resourceVersion=7", Hold: true,
				Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "8")) +
					kubetest.FrameOf("ADDED", kubetest.ConfigMap("b", "u-b", "9")) +
					kubetest.FrameOf("ADDED", kubetest.ConfigMap("c", "u-c", "10")),
			},
			kubetest.Step{
				Want: "resourceVersion=9", Hold: true,
				Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("c", "u-c", "10")) +
					kubetest.FrameOf("ADDED", kubetest.ConfigMap("d", "u-d", "11")),
			})
		r := noRoomAt(2)
		got, _ := runUntil(t, s, r, lines(r, 7))
		check(t, got, "snapshot 7", "listed 7", "added a@8 watch", "added b@9 watch", "added c@10 watch",
			"added c@10 watch", "added d@11 watch")
		assert.Equal(t, 1, r.counted("silent"), "counted %v, want that the watch was broken off", r.reasons)
	})
	must.RunInBubble(t, "for a list", func(t *testing.T) {
		big := strings.Replace(kubetest.ConfigMap("c", "u-c", "5"), `"v"`, `"`+strings.Repeat("v", 1<<20)+`"`, 1)
		page := kubetest.ListOf("7", "", kubetest.ConfigMap("b", "u-b", "4"), big, kubetest.ConfigMap("d", "u-d", "6"))
		s := kubetest.NewScript(t, kubetest.Step{
			Want: "limit=1",
			Body: kubetest.ListOf("7", "t1", kubetest.ConfigMap("a", "u-a", "3")),
		},
			kubetest.Step{Want: "continue=t1", Body: page},
			kubetest.Step{Want: "continue=t1", Body: page})
		r := noRoomAt(2)
		got, _ := runUntil(t, s, r, lines(r, 6))
		check(t, got, "snapshot 7", "added a@3 snapshot", "added b@4 snapshot", "added c@5 snapshot", "added d@6 snapshot",
			"listed 7")
		assert.Equal(t, 1, r.counted("silent"),
			"counted %v, want that the page was broken off and read on: %v", r.reasons, r.states)
	})
}
