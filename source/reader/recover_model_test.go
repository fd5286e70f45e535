// SPDX-License-Identifier: Apache-2.0

package reader

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

// story is a random history of a few objects, of which everything up to the position is published.
type story struct {
	writes                []kubetest.Write
	position, oldest, now int
}

func drawStory(t *rapid.T) story {
	var s story
	alive := map[string]kubetest.Write{}
	s.now = 1
	for i := range rapid.IntRange(1, 60).Draw(t, "writes") {
		s.now += rapid.IntRange(1, 4).Draw(t, "pause")
		name := fmt.Sprint("o", rapid.IntRange(1, 6).Draw(t, "object"))
		w, exists := alive[name]
		if !exists {
			w = kubetest.Write{Name: name, UID: fmt.Sprint("u", i)}
		}
		w.Rev, w.Gone = s.now, exists && rapid.IntRange(0, 3).Draw(t, "delete") == 0
		alive[name] = w
		if w.Gone {
			delete(alive, name)
		}
		s.writes = append(s.writes, w)
	}
	s.position = rapid.IntRange(1, s.now-1).Draw(t, "position")
	s.oldest = rapid.IntRange(s.position+1, s.now).Draw(t, "oldest")
	return s
}

// line is how the far side sees a write.
func (s story) line(i int, reason source.Reason) string {
	w, op := s.writes[i], "updated"
	switch {
	case w.Gone:
		op = "deleted"
	case !slices.ContainsFunc(s.writes[:i], func(before kubetest.Write) bool { return before.UID == w.UID }):
		op = "added"
	}
	return fmt.Sprintf("%s %s@%d %s", op, w.Name, w.Rev, reason)
}

// recoverable are the lines of all writes in the gap which are not the end of the gap themselves, and whose object was
// not both born and gone in it.
func (s story) recoverable(before, after map[string]kubetest.Write) (lines []string) {
	for i, w := range s.writes {
		if w.Rev > s.position && w.Rev <= s.oldest && after[w.Name].Rev != w.Rev &&
			(before[w.Name].UID == w.UID || after[w.Name].UID == w.UID) {
			lines = append(lines, s.line(i, source.ReasonRecovered))
		}
	}
	return lines
}

func TestReader_with_enough_reads_misses_only_what_was_born_and_gone_in_a_gap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawStory(rt)
		var got, want []string
		var p source.Progress
		synctest.Test(t, func(t *testing.T) {
			server := kubetest.NewCluster(t, s.now, s.writes...)
			server.Oldest = s.oldest
			r := &recorder{resume: strconv.Itoa(s.position)}
			before, after := server.States(s.position), server.States(s.oldest)
			for name, w := range before {
				r.known = append(r.known, known(name, w.UID, w.Rev))
			}
			want = s.recoverable(before, after)
			n := len(want)
			want = append(want, fmt.Sprint("gap ", s.oldest))
			for _, w := range after {
				want = append(want, fmt.Sprintf("added %s@%d relist", w.Name, w.Rev))
			}
			slices.Sort(want[n+1:])
			want = append(want, fmt.Sprint("listed ", s.oldest))
			for i, w := range s.writes {
				if w.Rev > s.oldest {
					want = append(want, s.line(i, source.ReasonWatch))
				}
			}
			got, _ = runAt(server, r, Recovery{Reads: 100000, Time: time.Hour}, lines(r, len(want)))
			p = r.gap()
			want, got = slices.Concat(sortedByName(want[:n]), want[n:]),
				slices.Concat(sortedByName(got[:min(n, len(got))]), got[min(n, len(got)):])
		})
		require.True(rt, slices.Equal(got, want) && !strings.Contains(p.Message, "not completely"),
			"%+v:\n  %s\nwant\n  %s\n%s", s, strings.Join(got, "\n  "), strings.Join(want, "\n  "), p.Message)
	})
}

// However little can be read, nothing is invented, and no object's states are out of order.
func TestReader_with_few_reads_tells_the_truth(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := drawStory(rt)
		bounds := Recovery{Reads: rapid.IntRange(1, 40).Draw(rt, "reads"), Time: time.Minute}
		compacted := rapid.IntRange(0, s.oldest).Draw(rt, "compacted")
		var got, truth []string
		synctest.Test(t, func(t *testing.T) {
			server := kubetest.NewCluster(t, s.now, s.writes...)
			server.Oldest, server.Compacted = s.oldest, compacted
			r := &recorder{resume: strconv.Itoa(s.position)}
			before, after := server.States(s.position), server.States(s.oldest)
			for name, w := range before {
				r.known = append(r.known, known(name, w.UID, w.Rev))
			}
			got, _ = runAt(server, r, bounds, until(r, fmt.Sprint("listed ", s.oldest)))
			got = sortedByName(got[:max(0, slices.Index(got, fmt.Sprint("gap ", s.oldest)))])
			truth = sortedByName(s.recoverable(before, after))
			if reads := len(server.Reads()); reads > bounds.Reads+4 { // two are for whether the history is ours
				got = append(got, fmt.Sprintf("%d reads", reads))
			}
		})
		rest := truth
		for _, line := range got {
			at := slices.IndexFunc(rest, func(known string) bool { return sameState(known, line) })
			require.GreaterOrEqual(rt, at, 0, "%+v: %q of\n  %s\nis not what comes next in\n  %s", s, line,
				strings.Join(got, "\n  "), strings.Join(truth, "\n  "))
			rest = rest[at+1:]
		}
	})
}

// sameState compares lines. Where the state before it could not be read, an addition looks like an update.
func sameState(truth, seen string) bool {
	return truth == seen || truth == strings.Replace(seen, "updated", "added", 1)
}
