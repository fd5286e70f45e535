// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"hash/maphash"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

func TestReader_lists_at_the_oldest_version_and_watches_on_from_there(t *testing.T) {
	for name, bounds := range map[string]Recovery{"reading back": enough, "not reading back": {}} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 60, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
				kubetest.Write{Rev: 20, Name: "a", UID: "u-a"},
				kubetest.Write{Rev: 41, Name: "a", UID: "u-a"}, kubetest.Write{Rev: 42, Name: "b", UID: "u-b"},
				kubetest.Write{Rev: 43, Name: "b", Gone: true})
			server.Oldest = 40
			r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
			got, _ := runAt(server, r, bounds, until(r, "deleted b@43 watch"))
			check(t, got, "gap 40", "added a@20 relist", "listed 40", "updated a@41 watch", "added b@42 watch",
				"deleted b@43 watch")
		})
	}
}

// A watch shows nothing of what was published already, and a list that does not have it would say that it is gone.
func TestReader_never_lists_at_a_version_before_what_was_shown(t *testing.T) {
	writes := []kubetest.Write{
		{Rev: 3, Name: "a", UID: "u-a"},
		{Rev: 45, Name: "b", UID: "u-b"},
		{Rev: 46, Name: "c", UID: "u-c"},
	}
	must.RunInBubble(t, "by the process before", func(t *testing.T) {
		server := kubetest.NewCluster(t, 60, writes...)
		server.Oldest = 40
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3), known("b", "u-b", 45)}}
		got, _ := runAt(server, r, enough, until(r, "added c@46 watch"))
		check(t, got, "gap 45", "added a@3 relist", "added b@45 relist", "listed 45", "added c@46 watch")
	})
	must.RunInBubble(t, "by the watch before", func(t *testing.T) {
		server := kubetest.NewCluster(t, 60, writes...)
		server.Fault = func(_ int, q url.Values) *kubetest.Step {
			switch {
			case q.Get("watch") == "":
			case server.Watches() == 1:
				return &kubetest.Step{Body: kubetest.FrameOf("ADDED", kubetest.ConfigMap("b", "u-b", "45")), Cut: true}
			case server.Watches() == 2:
				return &kubetest.Step{Body: kubetest.FrameOf("ERROR",
					kubetest.StatusOf(410, "Expired", "too old resource version: 5 (40)"))}
			}
			return nil
		}
		server.Oldest = 5
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
		got, _ := runAt(server, r, enough, until(r, "added c@46 watch"))
		check(t, got, "added b@45 watch", "gap 45", "added a@3 relist", "added b@45 relist", "listed 45", "added c@46 watch")
	})
}

func TestReader_lists_at_the_newest_version_where_it_must(t *testing.T) {
	refuse := func(code int, reason string) func(int, url.Values) *kubetest.Step {
		return func(_ int, q url.Values) *kubetest.Step {
			if q.Get("resourceVersionMatch") == "" {
				return nil
			}
			return &kubetest.Step{Status: code, Body: kubetest.StatusOf(code, reason, "no such list")}
		}
	}
	watch := func(message string) func(int, url.Values) *kubetest.Step {
		return func(_ int, q url.Values) *kubetest.Step {
			if q.Get("resourceVersion") != "5" || q.Get("watch") == "" {
				return nil
			}
			return &kubetest.Step{Body: kubetest.FrameOf("ERROR", kubetest.StatusOf(410, "Expired", message))}
		}
	}
	for name, c := range map[string]struct {
		fault func(int, url.Values) *kubetest.Step
		cause string
		back  bool // what is left is read back
	}{
		"no version is named":               {watch("too old resource version"), "too old resource version", true},
		"what is named is no version":       {watch("too old resource version: 5 (x)"), "", true},
		"no progress would be made":         {watch("too old resource version: 5 (5)"), "", true},
		"it would go back":                  {watch("too old resource version: 5 (4)"), "", true},
		"the message is another":            {watch("required revision has been compacted (40)"), "", true},
		"the version is of the future":      {watch("too old resource version: 5 (4000)"), "", false},
		"the server knows no exact lists":   {refuse(http.StatusBadRequest, "BadRequest"), "", false},
		"the server refuses exact lists":    {refuse(http.StatusUnprocessableEntity, "Invalid"), "", false},
		"the server has no exact lists":     {refuse(http.StatusNotFound, "NotFound"), "", false},
		"exact lists are forbidden":         {refuse(http.StatusForbidden, "Forbidden"), "", false},
		"exact lists always fail":           {refuse(http.StatusInternalServerError, "InternalError"), "", false},
		"exact lists always come too early": {refuse(http.StatusTooManyRequests, "TooManyRequests"), "", false},
		"the server sends its newest list": {func(_ int, q url.Values) *kubetest.Step {
			if q.Get("resourceVersionMatch") == "" {
				return nil
			}
			return &kubetest.Step{Body: kubetest.ListOf("60", "", kubetest.ConfigMap("a", "u-a", "55"))}
		}, "", false},
	} {
		for what, bounds := range map[string]Recovery{"": enough, " and nothing is read back": {}} {
			must.RunInBubble(t, name+what, func(t *testing.T) {
				server := kubetest.NewCluster(t, 60, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
					kubetest.Write{Rev: 20, Name: "a", UID: "u-a"},
					kubetest.Write{Rev: 55, Name: "a", UID: "u-a"})
				server.Oldest, server.Fault = 40, c.fault
				r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
				got, err := runAt(server, r, bounds, until(r, "listed 60"))
				want := []string{"gap 60", "added a@55 relist", "listed 60"}
				if c.back && bounds != (Recovery{}) {
					want = append([]string{"updated a@20 recovered"}, want...)
				}
				check(t, got, want...)
				assert.NoError(t, err)
				assert.Contains(t, r.gap().Message, c.cause)
			})
		}
	}
}

// The list at the oldest version that can be watched needs etcd's history, and etcd may have forgotten a part of that.
func TestReader_reads_back_what_is_left_where_it_lists_at_the_newest_version(t *testing.T) {
	const gone = "no list could be made there: list configmaps.v1: the required revision has been compacted"
	for name, c := range map[string]struct {
		bounds Recovery
		owed   Owed
		// late: etcd forgets only when everything before the oldest version was read back.
		late  bool
		want  []string
		cause string
	}{
		"when a watch has expired": {
			enough,
			Owed{},
			false,
			[]string{"updated a@41 recovered", "updated a@42 recovered"},
			"too old resource version: 5 (40); " + gone +
				"; 2 changes were read back, those of 1 object not completely (the required",
		},
		"when a list is owed whose gap was announced": {
			enough,
			Owed{Version: "40", Why: source.Why{Message: "expired"}, Announced: true},
			false,
			[]string{"updated a@41 recovered", "updated a@42 recovered"},
			"expired; " + gone + "; 2 changes were read back, those of 1 object not completely (the required",
		},
		"when a part was read back before": {
			enough,
			Owed{},
			true,
			[]string{"updated a@20 recovered", "updated a@41 recovered", "updated a@42 recovered"},
			"; 1 change was read back, what was created and deleted in between is not known; " + gone +
				"; 2 changes were read back, those",
		},
		"within the bounds of one gap": {
			Recovery{Reads: 3},
			Owed{},
			true,
			[]string{"updated a@20 recovered", "updated a@42 recovered"},
			gone + "; 1 change was read back, those of 1 object not completely (the limit of reads was reached)",
		},
		"within the time of one gap": {
			Recovery{Reads: 1000, Time: 3500 * time.Millisecond}, // it ends while the fourth read waits
			Owed{},
			true,
			[]string{"updated a@20 recovered", "updated a@42 recovered"},
			gone + "; 1 change was read back, those of 1 object not completely (the time for it was over)",
		},
		"unless it is not to": {Recovery{}, Owed{}, false, nil, gone},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			var history []kubetest.Write
			for _, rev := range []int{3, 20, 30, 41, 42, 55} {
				history = append(history, kubetest.Write{Rev: rev, Name: "a", UID: "u-a"})
			}
			server := kubetest.NewCluster(t, 60, history...)
			server.Oldest, server.Fault = 40, func(_ int, q url.Values) *kubetest.Step {
				if c.bounds.Time > 0 && q.Get("fieldSelector") != "" {
					<-time.After(time.Second)
				}
				if exact := q.Get("resourceVersionMatch") != ""; !c.late ||
					exact && q.Get("limit") == "1" && q.Get("fieldSelector") == "" {
					server.Compacted = 41
				}
				return nil
			}
			r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
			reader := Reader{Client: clientOf(t, server.Script), Stream: kubetest.ConfigMaps, Recovery: c.bounds, Owed: c.owed}
			got := must.Get(runReader(t, reader, r, until(r, "listed 60")))(t)
			check(t, got, append(c.want, "gap 60", "added a@55 relist", "listed 60")...)
			assert.Contains(t, r.gap().Message, c.cause)
			<-time.After(time.Second) // the server ends the read that was given up
		})
	}
}

// An etcd that is restored while the reader looks for the smallest gap does not have what that gap hides.
func TestReader_reads_nothing_back_from_an_etcd_that_was_restored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var history []kubetest.Write
		for _, rev := range []int{30, 50, 55} {
			history = append(history, kubetest.Write{Rev: rev, Name: "a", UID: "u-a"})
		}
		server := kubetest.NewCluster(t, 120, history...)
		server.Fault = func(_ int, q url.Values) *kubetest.Step {
			switch {
			case q.Get("watch") != "":
				return &kubetest.Step{Body: kubetest.FrameOf("ERROR",
					kubetest.StatusOf(410, "Expired", "too old resource version: 100 (110)"))}
			case q.Get("resourceVersion") == "110":
				server.Now = 60
				return &kubetest.Step{Status: 410, Body: kubetest.StatusOf(410, "Expired",
					"the required revision has been compacted")}
			}
			return nil
		}
		r := &recorder{resume: "100", known: []source.Ident{known("a", "u-a", 30)}}
		got, err := runAt(server, r, enough, func() bool { return false })
		var rewound *source.RewoundError
		require.ErrorAs(t, err, &rewound)
		assert.Equal(t, 60, server.Now, "etcd was restored behind the first look at its version")
		assert.Empty(t, got, "told")
		// Before the watch it looks at what is published, and before the list at 110 it reads back.
		assert.Equal(t, []string{"a@100", "a@30"}, server.Reads(), "read")
	})
}

// The time in which no server answers says nothing of what is asked for.
func TestReader_waits_for_an_API_server_rather_than_make_the_gap_larger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 60, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 41, Name: "a", UID: "u-a"})
		away := time.Now().Add(20 * time.Minute)
		server.Oldest, server.Fault = 40, func(n int, _ url.Values) *kubetest.Step {
			if n > 3 && time.Now().Before(away) {
				return &kubetest.Step{Cut: true}
			}
			return nil
		}
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
		got, _ := runAt(server, r, enough, until(r, "updated a@41 watch"))
		check(t, got, "gap 40", "added a@3 relist", "listed 40", "updated a@41 watch")
	})
}

func TestReader_follows_an_oldest_version_that_moves_on_until_it_outruns_it(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 100, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 96, Name: "a", UID: "u-a"})
		server.Oldest, server.Fault = 40, func(_ int, q url.Values) *kubetest.Step {
			if v := q.Get("resourceVersion"); q.Get("watch") != "" && v != "100" {
				server.Oldest += 10
			}
			return nil
		}
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
		got, _ := runAt(server, r, enough, until(r, "listed 100"))
		check(t, got, "gap 50", "added a@3 relist", "listed 50", "gap 60", "added a@3 relist", "listed 60",
			"gap 70", "added a@3 relist", "listed 70", "gap 100", "added a@96 relist", "listed 100")
	})
}

func TestReader_begins_at_the_newest_version_again_where_a_list_at_an_old_one_expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 60, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 4, Name: "b", UID: "u-b"},
			kubetest.Write{Rev: 20, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 30, Name: "a", UID: "u-a"})
		server.Oldest, server.Fault = 40, func(n int, q url.Values) *kubetest.Step {
			if strings.HasPrefix(q.Get("continue"), "40-") {
				return &kubetest.Step{Status: http.StatusGone, Body: kubetest.ExpiredStatus}
			}
			return nil
		}
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3), known("b", "u-b", 4)}}
		got, _ := runAt(server, r, enough, until(r, "listed 60"))
		check(t, got, "updated a@20 recovered", "gap 40", "added a@30 relist", "gap 60", "added a@30 relist",
			"added b@4 relist", "listed 60")
		if p := r.gap(); p.Message != "too old resource version: 5 (40)" {
			t.Errorf("the second gap is %+v: what was recovered is behind the first", p)
		}
	})
}

func TestReader_keeps_to_the_oldest_version_as_long_as_watches_show_something(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes []kubetest.Write
		for rev := 3; rev < 200; rev++ {
			writes = append(writes, kubetest.Write{Rev: rev, Name: "a", UID: "u-a"})
		}
		server := kubetest.NewCluster(t, 200, writes...)
		from := ""
		server.Oldest, server.Fault = 40, func(_ int, q url.Values) *kubetest.Step {
			v := q.Get("resourceVersion")
			if q.Get("watch") == "" || server.Oldest > 150 {
				return nil
			}
			at, _ := strconv.Atoi(v)
			if at != server.Oldest || v == from {
				server.Oldest = at + 10
				return nil
			}
			from = strconv.Itoa(at + 1)
			return &kubetest.Step{Cut: true, Body: kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-a", from)) +
				kubetest.FrameOf("MODIFIED", kubetest.ConfigMap("a", "u-a", strconv.Itoa(at+2)))}
		}
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 5)}}
		got, _ := runAt(server, r, Recovery{}, until(r, "updated a@199 watch"))
		gaps := 0
		for _, line := range got {
			if strings.HasPrefix(line, "gap ") {
				gaps++
			}
		}
		assert.GreaterOrEqual(t, gaps, 6, "gaps")
		assert.NotContains(t, got, "gap 200", "gaps")
	})
}

func TestComparison_holds_only_what_differs(t *testing.T) {
	c := comparison{seed: maphash.MakeSeed(), published: map[uint64]uint64{}, found: map[uint64]int{}}
	published := []source.Ident{
		known("same", "u-s", 2), known("newer", "u-n", 3), known("replaced", "u-1", 4),
		known("gone", "u-g", 5), known("moved", "u-m", 6),
	}
	for _, id := range published {
		c.published[c.key(id)] = c.state(id)
	}
	for _, id := range []source.Ident{
		known("same", "u-s", 2), known("newer", "u-n", 7), known("replaced", "u-2", 4),
		known("new", "u-x", 8),
	} {
		c.item(id)
	}
	published[4] = known("moved", "u-m", 9) // published meanwhile
	got := c.result(allCurrent(published))
	want := []difference{
		{published: known("newer", "u-n", 3), end: known("newer", "u-n", 7)},
		{published: known("replaced", "u-1", 4), end: known("replaced", "u-2", 4)},
		{end: known("new", "u-x", 8)},
		{published: known("gone", "u-g", 5)},
		{published: known("moved", "u-m", 9)},
	}
	assert.Equal(t, want, got)
}
