// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// claim is what a process says when it begins to publish: under which number.
type claim struct {
	Time     time.Time `json:"time"`
	Message  string    `json:"msg"`
	Pipeline string    `json:"pipeline"`
	Term     int64     `json:"writerterm"`
	process  string
}

// judgeTerms checks that no number was two processes', by what they have printed, and takes note of the takeovers.
func (r *round) judgeTerms(texts map[string][]byte) {
	r.result.Takeovers = r.world.Takeovers()
	if r.replicas == 0 {
		return
	}
	for _, told := range sharedTerms(claims(texts), r.world.Events()) {
		r.violated("", shared, "", told.Error())
	}
	for _, t := range r.result.Takeovers {
		if limit := r.options.Late * t.Cause.Promised().Seconds(); !t.Joined && t.Seconds > limit {
			r.violated("", slow, "",
				fmt.Sprintf("leader %s: another one led after %.1f s, more than %.0f s", t.Cause, t.Seconds, limit))
		}
	}
}

// lateMedians says which takeovers are late by a factor in the median, of those at which nothing else was broken.
func (s Summary) lateMedians(factor float64) (late []string) {
	by := map[world.Cause][]float64{}
	for _, t := range s.Takeovers {
		if !t.Joined {
			by[t.Cause] = append(by[t.Cause], t.Seconds)
		}
	}
	for _, cause := range slices.Sorted(maps.Keys(by)) {
		all := by[cause]
		slices.Sort(all)
		if median, limit := all[len(all)/2], factor*cause.Promised().Seconds(); len(all) >= 3 && median > limit {
			late = append(late,
				fmt.Sprintf("leader %s: another one leads after %.1f s in the median, more than %.1f s", cause, median, limit))
		}
	}
	return late
}

// claims reads what processes have printed, oldest first.
func claims(texts map[string][]byte) (all []claim) {
	for name, text := range texts {
		if !strings.HasPrefix(name, "bridge-") {
			continue
		}
		for line := range bytes.Lines(text) {
			c := claim{process: name}
			if json.Unmarshal(line, &c) == nil && c.Message == "publishing" && c.Pipeline != "" {
				all = append(all, c)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b claim) int {
		return cmp.Or(a.Time.Compare(b.Time),
			cmp.Compare(a.process, b.process))
	})
	return all
}

// forgets are the events with which the numbers of leaders are forgotten.
var forgets = []world.Kind{world.Fresh, world.LogRewound, world.CheckpointLost}

// sharedTerms returns what is wrong with the numbers under which processes have published. Where a checkpoint was lost
// its numbers are forgotten with it.
func sharedTerms(all []claim, events []world.Event) (wrong []error) {
	owners := map[string]claim{}
	for _, c := range all {
		forgotten := 0
		for _, e := range events {
			if slices.Contains(forgets, e.Kind) && e.At.Before(c.Time) {
				forgotten++
			}
		}
		term := fmt.Sprint(c.Pipeline, " ", forgotten, " ", c.Term) // each pipeline counts its own
		switch before, known := owners[term]; {
		case c.Term < 1:
			wrong = append(wrong, fmt.Errorf("%s publishes without a number", c.process))
		case known && before.process != c.process:
			wrong = append(wrong, fmt.Errorf(
				"%s publishes under number %d, as %s did before", c.process, c.Term, before.process))
		}
		owners[term] = c
	}
	return wrong
}

// leaders is the summary of what there is only with replicas.
func (s Summary) leaders(b *strings.Builder) {
	if s.Together == 0 {
		return
	}
	fmt.Fprintf(b, "\n%d rounds had replicas. %d entries are of former leaders, each the next one of its object.\n",
		s.Together, s.Late)
	fmt.Fprintf(b,
		"\n| leader | another one led after, median | at most | n | with other faults, median | at most | n "+
			"|\n|---|---|---|---|---|---|---|\n")
	by := map[world.Cause][2][]float64{}
	for _, t := range s.Takeovers {
		both, joined := by[t.Cause], 0
		if t.Joined {
			joined = 1
		}
		both[joined] = append(both[joined], t.Seconds)
		by[t.Cause] = both
	}
	for _, cause := range slices.Sorted(maps.Keys(by)) {
		fmt.Fprintf(b, "| %s |", cause)
		for _, seconds := range by[cause] {
			if slices.Sort(seconds); len(seconds) == 0 {
				fmt.Fprintf(b, " – | – | 0 |")
				continue
			}
			fmt.Fprintf(b, " %.1f s | %.1f s | %d |", seconds[len(seconds)/2], seconds[len(seconds)-1], len(seconds))
		}
		fmt.Fprintln(b)
	}
}
