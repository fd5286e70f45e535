// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
)

// Result is what came of one round.
type Result struct {
	Round  int      `json:"round"`
	Seed   uint64   `json:"seed"`
	Faults []string `json:"faults"`
	// Changes were acknowledged to the driver; States are all that the truth has, Published those that the log has, Folded those that a later one
	// stands for, Hidden those that a snapshot or a gap accounts for, Lost the others.
	Changes, Entries, States, Published, Folded, Hidden, Lost, Unknown int
	// Recovered entries were read back from the history; Gaps were announced, and Deltas are the states that they hide.
	Recovered, Gaps, Deltas int
	// RSS and Buffered are the most that was seen, in bytes.
	RSS, Buffered int64
	Seconds       float64
	// Violations are counted by promise, and Told with both histories.
	Violations map[string]int `json:",omitempty"`
	Told       []string       `json:",omitempty"`
	// Story is what the faults did; it is kept where something was violated.
	Story string `json:",omitempty"`
}

func (r *Result) take(report oracle.Report) {
	r.States, r.Published, r.Folded, r.Hidden, r.Lost, r.Unknown = report.States, report.Published, report.Folded, report.Hidden, report.Lost, report.Unknown
	r.Recovered, r.Gaps = report.Recovered, len(report.Gaps)
	for _, g := range report.Gaps {
		r.Deltas += g.Hidden
	}
	r.Violations = map[string]int{}
	for promise, n := range report.Counts {
		r.Violations[string(promise)] += n
	}
	for _, v := range report.Violations {
		r.Told = append(r.Told, v.String())
	}
}

// Summary is what came of all rounds.
type Summary struct {
	Rounds, Faults                                                     int
	Changes, Entries, States, Published, Folded, Hidden, Lost, Unknown int
	Recovered, Gaps, Deltas                                            int
	RSS, Buffered                                                      int64
	Seconds                                                            float64
	Violations                                                         map[string]int
	ByFault                                                            map[string]int
}

// Summarize adds results up. A fault of two counts once for the whole, and by name for each.
func Summarize(results []Result) Summary {
	s := Summary{Violations: map[string]int{}, ByFault: map[string]int{}}
	for _, r := range results {
		s.Rounds++
		s.Faults += len(r.Faults)
		for _, f := range r.Faults {
			for one := range strings.SplitSeq(f, " + ") {
				s.ByFault[one]++
			}
		}
		s.Changes += r.Changes
		s.Entries += r.Entries
		s.States += r.States
		s.Published += r.Published
		s.Folded += r.Folded
		s.Hidden += r.Hidden
		s.Lost += r.Lost
		s.Unknown += r.Unknown
		s.Recovered += r.Recovered
		s.Gaps += r.Gaps
		s.Deltas += r.Deltas
		s.Seconds += r.Seconds
		s.RSS, s.Buffered = max(s.RSS, r.RSS), max(s.Buffered, r.Buffered)
		for promise, n := range r.Violations {
			s.Violations[promise] += n
		}
	}
	return s
}

// Broken is the number of violations.
func (s Summary) Broken() (n int) {
	for _, k := range s.Violations {
		n += k
	}
	return n
}

// String is the summary in Markdown.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d faults in %d rounds, %.0f minutes; %d changes by the driver, %d true states, %d entries in the logs.\n\n",
		s.Faults, s.Rounds, s.Seconds/60, s.Changes, s.States, s.Entries)
	fmt.Fprintf(&b, "| promise | violations |\n|---|---|\n")
	for i := range 8 {
		p := fmt.Sprintf("P%d", i+1)
		fmt.Fprintf(&b, "| %s | %d |\n", p, s.Violations[p])
	}
	fmt.Fprintf(&b, "\nOf the true states %d are in the logs, %d were folded (`latest`), %d are hidden by %d gaps and by first snapshots, %d are lost. "+
		"%d were read back from history. Gaps hid %d.\n\n", s.Published, s.Folded, s.Hidden, s.Gaps, s.Lost, s.Recovered, s.Deltas)
	fmt.Fprintf(&b, "Peak RSS of the bridge %d MiB, peak buffer %d KiB.\n\n| fault | times |\n|---|---|\n", s.RSS>>20, s.Buffered>>10)
	for _, name := range slices.Sorted(maps.Keys(s.ByFault)) {
		fmt.Fprintf(&b, "| %s | %d |\n", name, s.ByFault[name])
	}
	return b.String()
}
