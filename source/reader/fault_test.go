// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

// told is how often a state with all of the words was reported.
func (r *recorder) told(words ...string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, state := range r.states {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(state, w) }) {
			n++
		}
	}
	return n
}

func (r *recorder) counted(reason string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, counted := range r.reasons {
		if counted == reason {
			n++
		}
	}
	return n
}

// mustBackOff checks that requests came less and less often, and not never.
func mustBackOff(t *testing.T, waits []time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, len(waits), 10, "only %d repetitions", len(waits))
	for i, wait := range waits {
		least := min(100*time.Millisecond<<min(i, 9), 30*time.Second) * 3 / 4
		assert.True(t, wait >= least && wait <= 30*time.Second*5/4+time.Second,
			"repetition %d came after %v, want at least %v and at most half a minute or so", i, wait, least)
	}
}

func TestReader_waits_in_sight_at_a_watched_object_without_identity(t *testing.T) {
	for missing, object := range kubetest.Nameless {
		must.RunInBubble(t, missing, func(t *testing.T) {
			s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")},
				kubetest.Step{
					Want: "watch=true", Repeats: true,
					Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "8")) + kubetest.FrameOf("ADDED", object),
				})
			r := &recorder{}
			got, err := runUntil(t, s, r, minutes(10))
			assert.True(t, err == nil && slices.Contains(got, "added a@8 watch"), "error %v, seen %v", err, got)
			mustBackOff(t, s.Waits()[1:])
			n := r.counted("unreadable")
			assert.True(t, n >= 10 && r.told("waiting: watch configmaps.v1", "metadata."+missing) == n,
				"counted %d times, told %v", n, r.states)
			assert.Equal(t, 1, r.told("watching"),
				"states are %v: a watch that gets no further must not look like one that works", r.states)
		})
	}
}

func TestReader_goes_on_when_an_object_has_an_identity_again(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := kubetest.Step{Want: "resourceVersion=7", Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "8")) +
			kubetest.FrameOf("ADDED", kubetest.Nameless["uid"])}
		s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")}, bad, bad, bad,
			kubetest.Step{
				Want: "resourceVersion=7", Hold: true,
				Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "8")) +
					kubetest.FrameOf("ADDED", kubetest.ConfigMap("x", "u-x", "9")),
			})
		r := &recorder{}
		got, _ := runUntil(t, s, r, lines(r, 7))
		check(t, got, "snapshot 7", "listed 7", "added a@8 watch", "added a@8 watch", "added a@8 watch", "added a@8 watch",
			"added x@9 watch")
		assert.Equal(t, "watching", r.states[len(r.states)-1], "the last state")
	})
}

func TestReader_waits_in_sight_at_a_listed_object_without_identity(t *testing.T) {
	for missing, object := range kubetest.Nameless {
		must.RunInBubble(t, missing, func(t *testing.T) {
			s := kubetest.NewScript(t, kubetest.Step{
				Want: "limit=1",
				Body: kubetest.ListOf("7", "t1", kubetest.ConfigMap("a", "u-a", "3")),
			},
				kubetest.Step{
					Want: "continue=t1", Repeats: true,
					Body: kubetest.ListOf("7", "", kubetest.ConfigMap("b", "u-b", "4"), object, kubetest.ConfigMap("c", "u-c", "5")),
				})
			r := &recorder{}
			got, _ := runUntil(t, s, r, minutes(10))
			check(t, got, "snapshot 7", "added a@3 snapshot", "added b@4 snapshot")
			mustBackOff(t, s.Waits()[1:])
			if n := r.counted("unreadable"); n < 10 || r.told("waiting: list configmaps.v1", "metadata."+missing) != n {
				t.Errorf("counted %d times, told %v", n, r.states)
			}
		})
		must.RunInBubble(t, missing+" of the first object", func(t *testing.T) {
			s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Repeats: true, Body: kubetest.ListOf("7", "", object)})
			r := &recorder{}
			got, _ := runUntil(t, s, r, minutes(10))
			check(t, got) // not even a snapshot is announced, again and again
			mustBackOff(t, s.Waits())
			if n := r.counted("unreadable"); n < 10 || r.told("waiting", "metadata."+missing) != n {
				t.Errorf("counted %d times, told %v", n, r.states)
			}
		})
	}
}

func TestReader_waits_as_long_as_the_API_server_asks(t *testing.T) {
	const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"TooManyRequests","code":429,` +
		`"message":"slow down"`
	for name, busy := range map[string]kubetest.Step{
		"by a header": {
			Status: http.StatusTooManyRequests, After: "7",
			Body: "Too many requests, please try again later.\n",
		},
		"by a header beside a status": {Status: http.StatusTooManyRequests, After: "7", Body: status + "}"},
		"by a status": {
			Status: http.StatusTooManyRequests,
			Body:   status + `,"details":{"retryAfterSeconds":7}}`,
		},
		"by an error in a watch's frame": {Body: kubetest.FrameOf("ERROR", status+`,"details":{"retryAfterSeconds":7}}`)},
		"while it starts":                {Status: http.StatusServiceUnavailable, After: "7"},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			list := busy
			list.Want = "limit=1"
			if busy.Status == 0 {
				list = kubetest.Step{Want: "limit=1", Status: http.StatusTooManyRequests, After: "7"}
			}
			busy.Want = "resourceVersion=7"
			s := kubetest.NewScript(t, list, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")}, busy,
				kubetest.Step{Want: "resourceVersion=7", Hold: true, Body: kubetest.Bookmark("9")})
			r := &recorder{}
			got, _ := runUntil(t, s, r, lines(r, 3))
			check(t, got, "snapshot 7", "listed 7", "bookmark 9")
			for _, i := range []int{0, 2} {
				if wait := s.Waits()[i]; wait < 7*time.Second || wait > 8*time.Second {
					t.Errorf("request %d came after %v, want 7 s", i+1, wait)
				}
			}
		})
	}
}

func TestReader_asks_less_and_less_often_where_a_watch_ends_at_once(t *testing.T) {
	for name, ends := range map[string]kubetest.Step{
		"in good order": {},
		"with an error": {Body: kubetest.FrameOf("ERROR",
			`{"kind":"Status","code":500,"reason":"InternalError","status":"Failure"}`)},
		"after what was shown before":      {Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "7"))},
		"after a bookmark that is no news": {Body: kubetest.Bookmark("7")},
		"in the middle of a frame":         {Body: `{"type":"ADD`, Cut: true},
		"because it was never one":         {Body: "<html><body>Please log in</body></html>"},
		"because nothing answers":          {Cut: true},
		"because the resource is unknown":  {Status: http.StatusNotFound},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			ends.Want, ends.Repeats = "resourceVersion=7", true
			s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")}, ends)
			r := &recorder{}
			_, _ = runUntil(t, s, r, minutes(10))
			mustBackOff(t, s.Waits()[1:])
			n := r.told("waiting: watch configmaps.v1: ")
			assert.True(t, n >= 10 && r.told("watching") <= 1, "states are %v", r.states)
		})
	}
}

func TestReader_forgets_earlier_failures_once_a_watch_works(t *testing.T) {
	no := kubetest.Step{Want: "watch=true", Status: http.StatusServiceUnavailable}
	for name, works := range map[string]kubetest.Step{
		"because it shows something new": {Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "8"))},
		"because a bookmark moves on":    {Body: kubetest.Bookmark("8")},
		"because it stays open":          {HoldFor: time.Minute, Cut: true},
		"because it ends in order":       {HoldFor: 5 * time.Second},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			works.Want = "watch=true"
			s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")}, no, no, no, no, no, no,
				no, works, no,
				kubetest.Step{Want: "watch=true", Hold: true})
			r := &recorder{}
			_, _ = runUntil(t, s, r, minutes(4))
			waits := s.Waits()
			assert.LessOrEqual(t, waits[len(waits)-1], 300*time.Millisecond,
				"the first failure after it was waited, as if it belonged to those before")
			assert.Equal(t, "watching", r.states[len(r.states)-1], "states are %v", r.states)
			assert.Equal(t, 2, r.told("watching"), "states are %v", r.states)
		})
	}
}

func TestReader_takes_a_silent_API_server_for_a_dead_one(t *testing.T) {
	for name, c := range map[string]struct {
		steps []kubetest.Step
		after time.Duration
	}{
		"no answer to a list": {[]kubetest.Step{
			{Want: "limit=1", Mute: true}, {
				Want: "limit=1",
				Body: kubetest.ListOf("7", "", kubetest.ConfigMap("a", "u-a", "3")),
			},
		}, 2 * time.Minute},
		"a list without an end": {[]kubetest.Step{
			{
				Want: "limit=1", Body: strings.TrimSuffix(kubetest.ListOf("7", "", kubetest.ConfigMap("a", "u-a", "3")), "]}"),
				Hold: true,
			},
			{Want: "limit=1", Body: kubetest.ListOf("7", "", kubetest.ConfigMap("a", "u-a", "3"))},
		}, 2*time.Minute + time.Second},
		"no answer to a watch": {[]kubetest.Step{
			{Want: "limit=1", Body: kubetest.ListOf("2", "")},
			{Want: "watch", Mute: true},
			{Want: "watch", Hold: true, Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "3"))},
		}, 2 * time.Minute},
		"a watch without an end": {[]kubetest.Step{
			{Want: "limit=1", Body: kubetest.ListOf("2", "")},
			{Want: "watch", Hold: true},
			{Want: "watch", Hold: true, Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "3"))},
		}, 10*time.Minute + 30*time.Second + time.Second},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			s, r := kubetest.NewScript(t, c.steps...), &recorder{}
			begin := time.Now()
			got, _ := runUntil(t, s, r, lines(r, 3))
			require.Len(t, got, 3, "seen %v after, want all within", got)
			assert.LessOrEqual(t, time.Since(begin), c.after, "seen %v after, want all within", got)
			require.Len(t, r.reasons, 1, "counted, told %v", r.states)
			assert.Equal(t, 1, r.told("waiting"), "counted, told %v", r.states)
		})
	}
}

func TestReader_starts_lists_over_less_and_less_often_where_tokens_expire_at_once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.NewScript(t)
		for range 40 {
			s.Steps = append(s.Steps, kubetest.Step{
				Want: "limit=1",
				Body: kubetest.ListOf("7", "t1", kubetest.ConfigMap("a", "u-a", "3")),
			},
				kubetest.Step{Want: "continue=t1", Status: http.StatusGone, Body: kubetest.ExpiredStatus})
		}
		r := &recorder{}
		_, _ = runUntil(t, s, r, minutes(10))
		n := len(s.Requests()) / 2
		if n < 15 || n > 40 || r.counted("expired") < n-1 || r.told("waiting", "too old resource version") < n-1 {
			t.Errorf("%d lists in ten minutes, counted %d, states %v", n, r.counted("expired"), r.states)
		}
	})
}

func TestReader_holds_little_of_a_list_without_pages(t *testing.T) {
	list := func(total int) string {
		var items []string
		for i := range 8 {
			items = append(items, strings.Replace(kubetest.ConfigMap(fmt.Sprint("o", i), "u", "3"), `"v"`,
				`"`+strings.Repeat("v", total/8)+`"`,
				1))
		}
		return kubetest.ListOf("7", "", items...)
	}
	must.RunInBubble(t, "small", func(t *testing.T) {
		s, r := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: list(4 << 20)}), &recorder{}
		got, _ := runUntil(t, s, r, lines(r, 10))
		assert.True(t, len(got) == 10 && got[9] == "listed 7", "seen %v", got)
	})
	must.RunInBubble(t, "large", func(t *testing.T) {
		s, r := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: list(8 << 20), Repeats: true}), &recorder{}
		got, _ := runUntil(t, s, r, minutes(1))
		check(t, got)
		n := r.counted("unreadable")
		assert.True(t, n != 0 && r.told("waiting", "knows no pages") == n, "counted %v, told %v", r.reasons, r.states)
	})
}
