// SPDX-License-Identifier: Apache-2.0

package source

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/tools/cache"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestReader_lists_page_by_page_and_watches_from_the_version_of_the_list(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t,
			step{want: "limit=1", body: listOf("7", "t1", cm("a", "u-a", "3"))},
			step{want: "continue=t1", body: listOf("7", "t2", cm("b", "u-b", "5"))},
			step{want: "continue=t2", body: listOf("7", "",
				`{"metadata":{"name":"c","namespace":"default","uid":"u-c","resourceVersion":"6"}}`)},
			step{want: "resourceVersion=7", hold: true, body: frameOf("MODIFIED", cm("a", "u-a", "8")) +
				frameOf("DELETED", cm("b", "u-b", "9")) +
				frameOf("BOOKMARK", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"12"}}`)})
		r := &recorder{}
		got := must.Get(runUntil(t, s, r, lines(r, 8)))(t)
		// The bookmark does not wait for the informer.
		at := slices.Index(got, "bookmark 12")
		require.GreaterOrEqual(t, at, 0, "no bookmark in %v", got)
		check(t, slices.Delete(got, at, at+1), "snapshot 7", "added a@3 snapshot", "added b@5 snapshot", "added c@6 snapshot",
			"listed 7",
			"updated a@8 watch", "deleted b@9 watch")
	})
}

func TestReader_resumes_without_a_list(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t,
			step{want: "limit=1", body: listOf("20", "")},
			step{want: "resourceVersion=5", hold: true, body: frameOf("ADDED", cm("a", "u-a", "6"))})
		r := &recorder{resume: "5", known: []Ident{{Namespace: "default", Name: "b", UID: "u-b", ResourceVersion: "4"}}}
		got, _ := runUntil(t, s, r, lines(r, 1))
		check(t, got, "added a@6 watch")
	})
}

func TestReader_refuses_a_server_that_is_older_than_the_position(t *testing.T) {
	for _, selectorsChanged := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(t, step{want: "limit=1", body: listOf("4", "")})
			r := &recorder{resume: "5", relist: selectorsChanged}
			got, err := runUntil(t, s, r, lines(r, 1))
			var rewound *RewoundError
			assert.True(t, errors.As(err, &rewound) && rewound.Server == "4" && len(got) <= 0,
				"error is %v after %v, want that the server was rewound to 4", err, got)
		})
	}
}

// Whatever ends a watch, it goes on one version before the last one seen, because several deletions can share a
// version.
func TestReader_resumes_a_watch_that_broke_off(t *testing.T) {
	for name, broken := range map[string]step{
		"in the middle of a frame": {body: frameOf("ADDED", cm("a", "u-a", "8")) + frameOf("ADDED", cm("b", "u-b", "9")) +
			`{"type":"ADD`, cut: true},
		"between two frames": {body: frameOf("ADDED", cm("a", "u-a", "8")) + frameOf("ADDED", cm("b", "u-b", "9"))},
		"by an error of the server": {body: frameOf("ADDED", cm("a", "u-a", "8")) + frameOf("ADDED", cm("b", "u-b", "9")) +
			frameOf("ERROR", `{"kind":"Status","code":500,"reason":"InternalError","status":"Failure"}`)},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			broken.want = "resourceVersion=7"
			s := newScript(t, step{want: "limit=1", body: listOf("7", "")}, broken,
				step{want: "resourceVersion=8", status: http.StatusServiceUnavailable, body: "no"},
				step{want: "resourceVersion=8", hold: true, body: frameOf("ADDED", cm("b", "u-b", "9")) +
					frameOf("ADDED", cm("c", "u-c", "10"))})
			r := &recorder{}
			got, _ := runUntil(t, s, r, lines(r, 6))
			check(t, got, "snapshot 7", "listed 7", "added a@8 watch", "added b@9 watch", "added b@9 watch", "added c@10 watch")
		})
	}
}

func TestReader_lists_again_only_when_the_history_is_gone(t *testing.T) {
	for name, gone := range map[string]step{
		"in a frame":  {body: frameOf("ERROR", expiredStatus)},
		"as a status": {status: http.StatusGone, body: expiredStatus},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			gone.want = "resourceVersion=7"
			s := newScript(t, step{want: "limit=1", body: listOf("7", "", cm("a", "u-a", "3"))}, gone,
				step{want: "limit=1", body: listOf("30", "", cm("b", "u-b", "25"))},
				step{want: "resourceVersion=30", hold: true, body: frameOf("MODIFIED", cm("b", "u-b", "31"))})
			r := &recorder{}
			got, _ := runUntil(t, s, r, lines(r, 7))
			check(t, got, "snapshot 7", "added a@3 snapshot", "listed 7", "gap 30", "added b@25 relist", "listed 30",
				"updated b@31 watch")
		})
	}
}

func TestReader_starts_a_list_again_whose_token_expired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t,
			step{want: "limit=1", body: listOf("7", "t1", cm("a", "u-a", "3"))},
			step{want: "continue=t1", status: http.StatusGone, body: expiredStatus},
			step{want: "limit=1", body: listOf("9", "", cm("a", "u-a", "8"))})
		r := &recorder{}
		got, _ := runUntil(t, s, r, lines(r, 5))
		check(t, got, "snapshot 7", "added a@3 snapshot", "snapshot 9", "added a@8 snapshot", "listed 9")
	})
}

func TestReader_reads_a_page_on_that_broke_off(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		half := strings.TrimSuffix(listOf("7", "t2", cm("b", "u-b", "4"), cm("c", "u-c", "5")), "]}")
		s := newScript(t,
			step{want: "limit=1", body: listOf("7", "t1", cm("a", "u-a", "3"))},
			step{want: "continue=t1", body: half, cut: true},
			step{want: "continue=t1", body: listOf("7", "", cm("b", "u-b", "4"), cm("c", "u-c", "5"), cm("d", "u-d", "6"))})
		r := &recorder{}
		got, _ := runUntil(t, s, r, lines(r, 6))
		check(t, got, "snapshot 7", "added a@3 snapshot", "added b@4 snapshot", "added c@5 snapshot", "added d@6 snapshot",
			"listed 7")
	})
}

func TestReader_delivers_a_busy_watch_completely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		var body strings.Builder
		for v := 8; v < 8+n; v++ {
			body.WriteString(frameOf("MODIFIED", cm("o"+strconv.Itoa(v%7), "u", strconv.Itoa(v))))
		}
		s := newScript(t, step{want: "limit=1", body: listOf("7", "")}, step{want: "watch", hold: true, body: body.String()})
		r := &recorder{}
		got, _ := runUntil(t, s, r, lines(r, n+2))
		require.Len(t, got, n+2, "lines and %d open tickets, want %d and none", len(r.open), n+2)
		require.Empty(t, r.open, "lines and %d open tickets, want %d and none", len(r.open), n+2)
		for i, line := range got[2:] {
			require.Contains(t, line, "@"+strconv.Itoa(8+i)+" ",
				"line %d is %q: the order of the watch is lost", i, line)
		}
	})
}

func TestReader_waits_where_it_is_not_allowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t,
			step{
				want: "limit=1", status: http.StatusForbidden,
				body: `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"configmaps is forbidden"}`,
			},
			step{want: "limit=1", body: listOf("7", "")})
		r := &recorder{}
		got, _ := runUntil(t, s, r, lines(r, 2))
		check(t, got, "snapshot 7", "listed 7")
		assert.True(t, slices.ContainsFunc(r.states, func(s string) bool {
			return strings.Contains(s, "waiting") && strings.Contains(s, "configmaps is forbidden")
		}), "states are %v, want one that says what is forbidden", r.states)
	})
}

func TestReader_resumes_where_versions_are_no_numbers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript(t, step{want: "resourceVersion=w-5", hold: true, body: frameOf("ADDED", cm("a", "u-a", "a-6"))})
		s.now = "b-7"
		r := &recorder{resume: "w-5"}
		got, _ := runUntil(t, s, r, lines(r, 1))
		check(t, got, "added a@a-6 watch")
	})
}

func TestHandler_takes_a_change_once_and_leaves_a_stub_in_the_cache(t *testing.T) {
	r, inside := &recorder{open: map[Ticket]bool{1: true}}, &occupancy{}
	h := &handler{feed: r, inside: inside}
	raw := []byte(cm("a", "u-a", "8"))
	id := must.Get(parseObject(raw, true))(t)
	o := &object{Identity: id, change: &Change{
		Op: Updated, Ident: id.Ident, Body: NewBody(raw), Reason: ReasonWatch, Ticket: 1, Size: held(len(raw)),
	}}
	inside.enter()
	h.OnUpdate(nil, o)
	h.OnUpdate(o, o)
	h.OnDelete(o)
	h.OnDelete(cache.DeletedFinalStateUnknown{Key: "default/a", Obj: o})
	check(t, r.seen(), "updated a@8 watch")
	require.Nil(t, o.change, "the cache keeps what %d are inside of", inside.n)
	assert.Equal(t, 0, inside.n, "the cache keeps what %d are inside of", inside.n)
}
