// SPDX-License-Identifier: Apache-2.0

package reader

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
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

func TestReader_lists_page_by_page_and_watches_from_the_version_of_the_list(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.NewScript(t,
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "t1", kubetest.ConfigMap("a", "u-a", "3"))},
			kubetest.Step{Want: "continue=t1", Body: kubetest.ListOf("7", "t2", kubetest.ConfigMap("b", "u-b", "5"))},
			kubetest.Step{Want: "continue=t2", Body: kubetest.ListOf("7", "",
				`{"metadata":{"name":"c","namespace":"default","uid":"u-c","resourceVersion":"6"}}`)},
			kubetest.Step{
				Want: "resourceVersion=7", Hold: true,
				Body: kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-a", "8")) +
					kubetest.FrameOf("DELETED", kubetest.ConfigMap("b", "u-b", "9")) +
					kubetest.FrameOf("BOOKMARK", `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"12"}}`),
			})
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
		s := kubetest.NewScript(t,
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("20", "")},
			kubetest.Step{
				Want: "resourceVersion=5", Hold: true,
				Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "6")),
			})
		r := &recorder{resume: "5", known: []source.Ident{{
			Namespace: "default", Name: "b", UID: "u-b",
			ResourceVersion: "4",
		}}}
		got, _ := runUntil(t, s, r, lines(r, 1))
		check(t, got, "added a@6 watch")
	})
}

func TestReader_refuses_a_server_that_is_older_than_the_position(t *testing.T) {
	for _, selectorsChanged := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("4", "")})
			r := &recorder{resume: "5", relist: selectorsChanged}
			got, err := runUntil(t, s, r, lines(r, 1))
			var rewound *source.RewoundError
			assert.True(t, errors.As(err, &rewound) && rewound.Server == "4" && len(got) <= 0,
				"error is %v after %v, want that the server was rewound to 4", err, got)
		})
	}
}

// Whatever ends a watch, it goes on one version before the last one seen, because several deletions can share a
// version.
func TestReader_resumes_a_watch_that_broke_off(t *testing.T) {
	for name, broken := range map[string]kubetest.Step{
		"in the middle of a frame": {Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "8")) +
			kubetest.FrameOf("ADDED", kubetest.ConfigMap("b", "u-b", "9")) +
			`{"type":"ADD`, Cut: true},
		"between two frames": {Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "8")) +
			kubetest.FrameOf("ADDED", kubetest.ConfigMap("b", "u-b", "9"))},
		"by an error of the server": {Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "8")) +
			kubetest.FrameOf("ADDED", kubetest.ConfigMap("b", "u-b", "9")) +
			kubetest.FrameOf("ERROR", `{"kind":"Status","code":500,"reason":"InternalError","status":"Failure"}`)},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			broken.Want = "resourceVersion=7"
			s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")}, broken,
				kubetest.Step{Want: "resourceVersion=8", Status: http.StatusServiceUnavailable, Body: "no"},
				kubetest.Step{
					Want: "resourceVersion=8", Hold: true,
					Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("b", "u-b", "9")) +
						kubetest.FrameOf("ADDED", kubetest.ConfigMap("c", "u-c", "10")),
				})
			r := &recorder{}
			got, _ := runUntil(t, s, r, lines(r, 6))
			check(t, got, "snapshot 7", "listed 7", "added a@8 watch", "added b@9 watch", "added b@9 watch", "added c@10 watch")
		})
	}
}

func TestReader_lists_again_only_when_the_history_is_gone(t *testing.T) {
	for name, gone := range map[string]kubetest.Step{
		"in a frame":  {Body: kubetest.FrameOf("ERROR", kubetest.ExpiredStatus)},
		"as a status": {Status: http.StatusGone, Body: kubetest.ExpiredStatus},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			gone.Want = "resourceVersion=7"
			s := kubetest.NewScript(t, kubetest.Step{
				Want: "limit=1",
				Body: kubetest.ListOf("7", "", kubetest.ConfigMap("a", "u-a", "3")),
			}, gone,
				kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("30", "", kubetest.ConfigMap("b", "u-b", "25"))},
				kubetest.Step{
					Want: "resourceVersion=30", Hold: true,
					Body: kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("b", "u-b", "31")),
				})
			r := &recorder{}
			got, _ := runUntil(t, s, r, lines(r, 7))
			check(t, got, "snapshot 7", "added a@3 snapshot", "listed 7", "gap 30", "added b@25 relist", "listed 30",
				"updated b@31 watch")
		})
	}
}

func TestReader_starts_a_list_again_whose_token_expired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := kubetest.NewScript(t,
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "t1", kubetest.ConfigMap("a", "u-a", "3"))},
			kubetest.Step{Want: "continue=t1", Status: http.StatusGone, Body: kubetest.ExpiredStatus},
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("9", "", kubetest.ConfigMap("a", "u-a", "8"))})
		r := &recorder{}
		got, _ := runUntil(t, s, r, lines(r, 5))
		check(t, got, "snapshot 7", "added a@3 snapshot", "snapshot 9", "added a@8 snapshot", "listed 9")
	})
}

func TestReader_reads_a_page_on_that_broke_off(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		half := strings.TrimSuffix(kubetest.ListOf("7", "t2", kubetest.ConfigMap("b", "u-b", "4"),
			kubetest.ConfigMap("c", "u-c", "5")), "]}")
		s := kubetest.NewScript(t,
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "t1", kubetest.ConfigMap("a", "u-a", "3"))},
			kubetest.Step{Want: "continue=t1", Body: half, Cut: true},
			kubetest.Step{Want: "continue=t1", Body: kubetest.ListOf("7", "", kubetest.ConfigMap("b", "u-b", "4"),
				kubetest.ConfigMap("c", "u-c", "5"), kubetest.ConfigMap("d", "u-d", "6"))})
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
			body.WriteString(kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("o"+strconv.Itoa(v%7), "u", strconv.Itoa(v))))
		}
		s := kubetest.NewScript(t, kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")},
			kubetest.Step{Want: "watch", Hold: true, Body: body.String()})
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
		s := kubetest.NewScript(t,
			kubetest.Step{
				Want: "limit=1", Status: http.StatusForbidden,
				Body: `{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"configmaps is forbidden"}`,
			},
			kubetest.Step{Want: "limit=1", Body: kubetest.ListOf("7", "")})
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
		s := kubetest.NewScript(t, kubetest.Step{
			Want: "resourceVersion=w-5", Hold: true,
			Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("a", "u-a", "a-6")),
		})
		s.Now = "b-7"
		r := &recorder{resume: "w-5"}
		got, _ := runUntil(t, s, r, lines(r, 1))
		check(t, got, "added a@a-6 watch")
	})
}

func TestHandler_takes_a_change_once_and_leaves_none_in_the_cache(t *testing.T) {
	r, inside := &recorder{open: map[source.Ticket]bool{1: true}}, &occupancy{}
	h := &handler{feed: r, inside: inside}
	raw := []byte(kubetest.ConfigMap("a", "u-a", "8"))
	id := must.Get(source.ParseIdent(raw, true))(t)
	o := &object{change: &source.Change{
		Op: source.Updated, Ident: id, Body: source.NewBody(raw), Reason: source.ReasonWatch, Ticket: 1,
		Size: source.ChangeSize(len(raw)),
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
