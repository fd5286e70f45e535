// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

func TestReader_reads_back_within_bounds(t *testing.T) {
	history := []kubetest.Write{{Rev: 3, Name: "a", UID: "u-a"}}
	for rev := 10; rev < 30; rev++ {
		history = append(history, kubetest.Write{Rev: rev, Name: "a", UID: "u-a"})
	}
	last5 := []string{
		"updated a@24 recovered", "updated a@25 recovered", "updated a@26 recovered",
		"updated a@27 recovered", "updated a@28 recovered",
	}
	failing := func(st kubetest.Step) func(*kubetest.Cluster) {
		return func(server *kubetest.Cluster) {
			n := 0
			server.Fault = func(_ int, q url.Values) *kubetest.Step {
				if !strings.Contains(q.Get("fieldSelector"), "metadata.name") || q.Get("resourceVersion") == "5" {
					return nil
				}
				if n++; n > 5 {
					return &st
				}
				return nil
			}
		}
	}
	for name, c := range map[string]struct {
		bounds Recovery
		breaks func(*kubetest.Cluster)
		reads  int
		cause  string
	}{
		"of reads": {Recovery{Reads: 5}, nil, 5, "the limit of reads was reached"},
		"of time": {
			Recovery{Reads: 1000, Time: time.Minute},
			failing(kubetest.Step{Cut: true}), 0,
			"the time for it was over",
		},
		"of time, where it is slow": {
			Recovery{Reads: 1000, Time: time.Minute},
			failing(kubetest.Step{Mute: true, Body: " "}), 0,
			"the time for it was over",
		},
		"of time, where it is asked to wait": {
			Recovery{Reads: 1000, Time: time.Minute},
			failing(kubetest.Step{Status: 429, After: "200"}), 6,
			"the time for it was over",
		},
		"of both, where it fails": {
			Recovery{Reads: 12, Time: time.Hour},
			failing(kubetest.Step{Status: 500}), 12,
			"the limit of reads was reached",
		},
		"of what it may read": {
			Recovery{Reads: 1000, Time: time.Minute}, failing(kubetest.Step{
				Status: 403, After: "25",
				Body: kubetest.StatusOf(403, "Forbidden", "not for you"),
			}), 8, "not for you",
		},
		"of what etcd has": {
			enough, func(c *kubetest.Cluster) { c.Compacted = 24 }, 6,
			"the required revision has been compacted",
		},
		"of what the server answers": {
			enough, failing(kubetest.Step{Status: 422, Body: kubetest.StatusOf(422, "Invalid", "not so")}), 6,
			"not so",
		},
		"of what makes sense": {
			enough, failing(kubetest.Step{Body: kubetest.ListOf("7", "")}), 6,
			`asked for a list at 23, the API server sent one at "7"`,
		},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 40, history...)
			if c.breaks != nil {
				c.breaks(server)
			}
			r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
			begin := time.Now()
			got, _ := runAt(server, r, c.bounds, until(r, "listed 40"))
			check(t, got, append(slices.Clone(last5), "gap 40", "added a@29 relist", "listed 40")...)
			reads := slices.DeleteFunc(server.Reads(), func(read string) bool { return read == "a@5" })
			assert.True(t, c.reads <= 0 || len(reads) == c.reads, "%d reads, want %d", len(reads), c.reads)
			took := time.Since(begin)
			assert.True(t, c.bounds.Time <= 0 || took <= c.bounds.Time+3*time.Second, "it took %v", took)
			if p := r.gap(); !strings.Contains(p.Message, "5 changes were read back, those of 1 object not completely (") ||
				!strings.Contains(p.Message, c.cause) {
				t.Errorf("the gap is %+v, want that it says %q", p, c.cause)
			}
		})
	}
}

func TestReader_asks_for_nothing_more_where_it_may_not_read(t *testing.T) {
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		must.RunInBubble(t, fmt.Sprint(code), func(t *testing.T) {
			r := &recorder{resume: "5"}
			var history []kubetest.Write
			for i := range 100 {
				name := fmt.Sprint("o", i)
				r.known = append(r.known, known(name, "u-"+name, 3))
				history = append(history, kubetest.Write{Rev: 3, Name: name, UID: "u-" + name},
					kubetest.Write{Rev: 30, Name: name, UID: "u-" + name})
			}
			slices.SortStableFunc(history, func(a, b kubetest.Write) int { return a.Rev - b.Rev })
			server := kubetest.NewCluster(t, 40, history...)
			server.Fault = func(_ int, q url.Values) *kubetest.Step {
				if v := q.Get("resourceVersion"); strings.Contains(q.Get("fieldSelector"), "metadata.name") && v != "5" {
					return &kubetest.Step{Status: code, Body: kubetest.StatusOf(code, "No", "not for you")}
				}
				return nil
			}
			begin := time.Now()
			_, err := runAt(server, r, Recovery{Reads: 1000}, until(r, "listed 40"))
			reads := slices.DeleteFunc(server.Reads(), func(read string) bool {
				return strings.HasSuffix(read, "@5") ||
					strings.HasSuffix(read, "@8")
			})
			if err != nil || len(reads) < maxDenied || len(reads) >= maxDenied+readers || time.Since(begin) > 10*time.Second {
				t.Errorf("error %v after %v and %d reads", err, time.Since(begin), len(reads))
			}
			assert.Contains(t, r.gap().Message,
				"0 changes were read back, those of 100 objects not completely (not for you)", "the gap")
		})
	}
}

// Credentials are exchanged now and then.
func TestReader_reads_on_where_permission_lacks_for_a_moment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history := []kubetest.Write{{Rev: 3, Name: "a", UID: "u-a"}}
		var want []string
		for rev := 10; rev < 20; rev++ {
			history = append(history, kubetest.Write{Rev: rev, Name: "a", UID: "u-a"})
			want = append(want, fmt.Sprintf("updated a@%d recovered", rev))
		}
		server := kubetest.NewCluster(t, 40, append(history, kubetest.Write{Rev: 20, Name: "a", UID: "u-a"})...)
		n := 0
		server.Fault = func(_ int, q url.Values) *kubetest.Step {
			if !strings.Contains(q.Get("fieldSelector"), "metadata.name") || q.Get("resourceVersion") == "5" {
				return nil
			}
			if n++; n%maxDenied != 0 {
				return &kubetest.Step{Status: http.StatusUnauthorized, Body: kubetest.StatusOf(401, "Unauthorized", "who are you")}
			}
			return nil
		}
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
		got, _ := runAt(server, r, Recovery{Reads: 1000}, until(r, "listed 40"))
		check(t, got, append(want, "gap 40", "added a@20 relist", "listed 40")...)
	})
}

func TestReader_reads_back_in_spite_of_faults_that_pass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 40, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 8, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 9, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 10, Name: "a", Gone: true})
		faults := []kubetest.Step{
			{Cut: true},
			{Status: 500},
			{Status: 429, After: "1"},
			{Status: 503},
			{Body: `{"kind":`, Cut: true},
			{Mute: true, Body: " "},
		}
		server.Fault = func(n int, q url.Values) *kubetest.Step {
			if n%2 == 0 || q.Get("resourceVersionMatch") == "" || n/2 >= 30 {
				return nil
			}
			return &faults[n/2%len(faults)]
		}
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
		got, _ := runAt(server, r, Recovery{Reads: 1000, Time: time.Hour}, until(r, "listed 40"))
		check(t, got, "updated a@8 recovered", "updated a@9 recovered", "deleted a@10 recovered", "gap 40", "listed 40")
	})
}

// Deletions that etcd still has are found, however old the position is.
func TestReader_finds_a_deletion_that_came_after_a_compaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 4000, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 3, Name: "b", UID: "u-b"},
			kubetest.Write{Rev: 100, Name: "b", Gone: true},
			kubetest.Write{Rev: 3500, Name: "a", UID: "u-a"}, kubetest.Write{Rev: 3501, Name: "a", Gone: true})
		server.Compacted = 3400
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3), known("b", "u-b", 3)}}
		got, _ := runAt(server, r, enough, until(r, "listed 4000"))
		check(t, got, "updated a@3500 recovered", "deleted a@3501 recovered", "gap 4000", "listed 4000")
		assert.Contains(t, r.gap().Message, "those of 1 object not completely (", "the gap")
	})
}

func TestReader_asks_for_nothing_before_what_was_found_to_be_gone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &recorder{resume: "5"}
		for i := range 100 {
			name := fmt.Sprint("o", i)
			r.known = append(r.known, known(name, "u-"+name, 3))
		}
		server := kubetest.NewCluster(t, 4000)
		server.Compacted = 4000
		_, _ = runAt(server, r, enough, until(r, "listed 4000"))
		assert.LessOrEqual(t, len(server.Reads()), 60,
			"reads of 100 objects, want no more than it takes to find where the history begins")
	})
}

func TestReader_reads_no_more_than_it_needs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := kubetest.NewCluster(t, 40,
			kubetest.Write{Rev: 2, Name: "same", UID: "u-s"}, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 4, Name: "b", UID: "u-b"},
			kubetest.Write{Rev: 5, Name: "c", UID: "u-c"},
			kubetest.Write{Rev: 6, Name: "c", UID: "u-c"}, kubetest.Write{Rev: 7, Name: "b", UID: "u-b"},
			kubetest.Write{Rev: 8, Name: "d", UID: "u-d"},
			kubetest.Write{Rev: 9, Name: "d", UID: "u-d"}, kubetest.Write{Rev: 20, Name: "a", UID: "u-a"},
			kubetest.Write{Rev: 21, Name: "a", UID: "u-a"})
		server.Fault = func(_ int, q url.Values) *kubetest.Step { // the history is not looked at
			if v := q.Get("resourceVersion"); (v == "5" || v == "8") && q.Get("watch") == "" {
				return &kubetest.Step{Status: http.StatusGone, Body: kubetest.ExpiredStatus}
			}
			return nil
		}
		r := &recorder{resume: "5", known: []source.Ident{
			known("same", "u-s", 2), known("a", "u-a", 3), known("b", "u-b", 4),
			known("c", "u-c", 5), known("d", "u-d", 8),
		}}
		_, _ = runAt(server, r, enough, until(r, "listed 40"))
		got := slices.DeleteFunc(server.Reads(), func(read string) bool {
			return strings.HasSuffix(read, "@5") ||
				strings.HasSuffix(read, "@8")
		})
		slices.Sort(got)
		check(t, got, "a@19", "a@20", "b@6")
	})
}

func count(lines []string, line string) (n int) {
	for _, l := range lines {
		if l == line {
			n++
		}
	}
	return n
}

func TestReader_reads_once_more_what_it_cannot_hold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		history := []kubetest.Write{{Rev: 3, Name: "a", UID: "u-a"}}
		var want []string
		for rev := 10; rev < 20; rev++ {
			history = append(history, kubetest.Write{Rev: rev, Name: "a", UID: "u-a", Size: maxHeld / 4})
			want = append(want, fmt.Sprintf("updated a@%d recovered", rev))
		}
		history = append(history, kubetest.Write{Rev: 20, Name: "a", UID: "u-a", Size: maxHeld},
			kubetest.Write{Rev: 21, Name: "a", Gone: true})
		want = append(want, "updated a@20 recovered", "deleted a@21 recovered")
		server := kubetest.NewCluster(t, 40, history...)
		r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3)}}
		got, _ := runAt(server, r, enough, until(r, "listed 40"))
		check(t, got, append(want, "gap 40", "listed 40")...)
		n := count(server.Reads(), "a@10")
		assert.GreaterOrEqual(t, n, 2, "the oldest state was read %d times: all are held", n)
	})
}

// Whatever the reader is about when its context ends, it ends too, without an error, and leaves the far side alone.
func TestReader_ends_with_its_context_while_it_reads_back(t *testing.T) {
	calls := 0
	for at := 0; at <= calls; at++ { // the first time nothing ends it: that tells the number of calls and requests
		must.RunInBubble(t, fmt.Sprint("call ", at), func(t *testing.T) {
			server := kubetest.NewCluster(t, 60,
				kubetest.Write{Rev: 3, Name: "a", UID: "u-a"}, kubetest.Write{Rev: 4, Name: "b", UID: "u-b"},
				kubetest.Write{Rev: 5, Name: "c", UID: "u-c"},
				kubetest.Write{Rev: 8, Name: "a", UID: "u-a"}, kubetest.Write{Rev: 9, Name: "a", UID: "u-a"},
				kubetest.Write{Rev: 10, Name: "b", UID: "u-b"},
				kubetest.Write{Rev: 11, Name: "b", Gone: true}, kubetest.Write{Rev: 12, Name: "c", Gone: true},
				kubetest.Write{Rev: 13, Name: "c", UID: "u-d"},
				kubetest.Write{Rev: 41, Name: "a", UID: "u-a"})
			server.Oldest = 40
			var mu sync.Mutex
			n, stop := 0, make(chan struct{})
			tick := func() bool {
				mu.Lock()
				defer mu.Unlock()
				n++
				if n == at {
					close(stop)
				}
				return n == at
			}
			server.Fault = func(int, url.Values) *kubetest.Step {
				if tick() {
					return &kubetest.Step{Mute: true, Body: " "}
				}
				return nil
			}
			r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 3), known("b", "u-b", 4), known("c", "u-c", 5)}}
			r.onCall = func(_ string, done <-chan struct{}) {
				if tick() && done != nil {
					<-done
					<-time.After(time.Second)
				}
			}
			got, err := runAt(server, r, enough, func() bool {
				select {
				case <-stop:
					return true
				default:
					return slices.Contains(r.seen(), "updated a@41 watch")
				}
			})
			assert.NoError(t, err)
			for _, line := range got {
				assert.False(t, strings.HasPrefix(line, "BUG"), line)
			}
			calls = max(calls, n)
		})
	}
	assert.GreaterOrEqual(t, calls, 40, "only %d calls were tried", calls)
}

// What is read back stands ahead of what a watch from the position would show: that has to be known before the first of
// it is handed over.
func TestReader_says_that_it_reads_back_before_it_does(t *testing.T) {
	for name, c := range map[string]struct {
		known []source.Ident
		want  string
	}{
		"something":           {[]source.Ident{known("a", "u-a", 3)}, "[0 lines, then what precedes 40]"},
		"nothing has changed": {[]source.Ident{known("a", "u-a", 20)}, "[]"},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 40, kubetest.Write{Rev: 3, Name: "a", UID: "u-a"},
				kubetest.Write{Rev: 10, Name: "a", UID: "u-a"},
				kubetest.Write{Rev: 20, Name: "a", UID: "u-a"})
			r := &recorder{resume: "5", known: c.known}
			must.Get(runAt(server, r, enough, until(r, "listed 40")))(t)
			assert.Equal(t, c.want, fmt.Sprint(r.recovering))
		})
	}
}

// A list that is owed is made although the position can be watched: what a watch would show of the time before it is
// older than what was published.
func TestReader_makes_a_list_that_is_owed_before_it_watches(t *testing.T) {
	writes := []kubetest.Write{
		{Rev: 3, Name: "a", UID: "u-a"},
		{Rev: 4, Name: "b", UID: "u-b"},
		{Rev: 8, Name: "b", UID: "u-b"},
		{Rev: 10, Name: "a", UID: "u-a"},
		{Rev: 12, Name: "b", UID: "u-b"},
		{Rev: 20, Name: "a", UID: "u-a"},
		{Rev: 30, Name: "c", UID: "u-c"},
	}
	for name, c := range map[string]struct {
		owed Owed
		want []string
	}{
		"what can be read back is": {
			Owed{Version: "18", Why: source.Why{Message: "expired"}},
			[]string{
				"updated b@8 recovered", "gap 20", "added a@20 relist", "added b@12 relist", "listed 20",
				"added c@30 watch",
			},
		},
		"it is not older than it was to be": {
			Owed{Version: "25", Why: source.Why{Message: "expired"}},
			[]string{
				"updated b@8 recovered", "gap 25", "added a@20 relist", "added b@12 relist", "listed 25",
				"added c@30 watch",
			},
		},
		"nothing is read back behind a gap that was announced": {
			Owed{Version: "25", Why: source.Why{Message: "expired"}, Announced: true},
			[]string{"gap 25", "added a@20 relist", "added b@12 relist", "listed 25", "added c@30 watch"},
		},
	} {
		must.RunInBubble(t, name, func(t *testing.T) {
			server := kubetest.NewCluster(t, 40, writes...)
			server.Oldest = 1
			r := &recorder{resume: "5", known: []source.Ident{known("a", "u-a", 20), known("b", "u-b", 4)}}
			reader := Reader{Client: clientOf(t, server.Script), Stream: kubetest.ConfigMaps, Recovery: enough, Owed: c.owed}
			got := must.Get(runReader(t, reader, r, until(r, "added c@30 watch")))(t)
			check(t, got, c.want...)
		})
	}
}
