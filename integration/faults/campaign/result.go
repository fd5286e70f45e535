// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// Result is what came of one round.
type Result struct {
	Round int `json:"round"`
	// Seed is the campaign's; the round's own follows from it and from its number.
	Seed uint64 `json:"seed"`
	// Broker is the kind of broker, empty for NATS; Checkpoint is where the bridge kept its state, empty for a file.
	Broker     string `json:"broker,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
	// Replicas is how many bridges ran, 0 for one without a Lease; Takeovers are those that the faults were to cause. Late entries are of a former leader, and stand
	// where the promises let them.
	Replicas  int              `json:"replicas,omitempty"`
	Takeovers []world.Takeover `json:",omitempty"`
	Late      int              `json:",omitempty"`
	// Faults were injected, Wanted is how many had to be: a round that the bridge does not see through ends before.
	Faults []string `json:"faults"`
	Wanted int      `json:"wanted"`
	// Changes were acknowledged to the driver; States are all that the truth has, Published those that the log has, Folded those that a later one
	// stands for, Hidden those that a snapshot or a gap accounts for, Lost the others. They and Entries are those of the log at the end.
	Changes, Entries, States, Published, Folded, Hidden, Lost int
	// Unknown entries could not be judged, because the recorder has holes: so many, of Blind revisions of etcd.
	Unknown, Holes, Blind int
	// Alike states are excused because a restored etcd came to the same versions of the same objects; see [oracle.Report]. Those of logs that were taken away are counted too.
	Alike int
	// Removed logs were taken away by faults, with RemovedEntries; they were judged up to where they were read.
	Removed, RemovedEntries int
	// Recovered entries were read back from the history.
	Recovered int
	Gaps      []Gap `json:",omitempty"`
	// RSS and Buffered are the most that was seen, in bytes.
	RSS, Buffered int64
	// Seconds is how long the round took; Wall is the time since the campaign's last result, or since it was started or went on. The sum of all Wall is
	// how long the campaign ran.
	Seconds, Wall float64
	// Retried says that the round was played a second time, because something around the bridge had failed.
	Retried bool `json:",omitempty"`
	// Violations are counted by promise, or by what the bridge did otherwise that it must not; Told says each, of promises with both histories.
	Violations map[string]int `json:",omitempty"`
	Told       []string       `json:",omitempty"`
	// Story is what the faults did; it is kept where something was violated.
	Story string `json:",omitempty"`
}

// Gap is one that the log announces.
type Gap struct {
	Stream   string
	From, To uint64
	// Class is of the cause, which is for a person.
	Class, Cause string
	// Hidden counts the states that it hides, Recovered the entries that were read back before it.
	Hidden, Recovered int
}

// The classes of causes.
const (
	gapExpired = "expired (410)"
	// gapCompacted: expired too, and etcd has no more what lies in it.
	gapCompacted = "expired (410), history gone"
	gapLost      = "log lost"
	gapRestored  = "etcd restored"
	gapOther     = "other"
)

func classOf(cause string) string {
	for _, c := range []struct{ part, class string }{
		{"etcd was restored", gapRestored},
		{"the log has lost", gapLost},
		{"provided list is too old", gapCompacted},
		{"version is gone", gapCompacted},
		{"too old", gapExpired},
		{"Expired", gapExpired},
		{"expired", gapExpired},
		{"compacted", gapExpired},
	} {
		if strings.Contains(cause, c.part) {
			return c.class
		}
	}
	return gapOther
}

// broken adds something that the bridge did and must not.
func (r *Result) broken(kind string, err error) {
	if r.Violations == nil {
		r.Violations = map[string]int{}
	}
	r.Violations[kind]++
	r.Told = append(r.Told, kind+": "+err.Error())
}

// take adds the judgement of the log at the end, and its figures.
func (r *Result) take(report oracle.Report) {
	r.States, r.Published, r.Folded, r.Hidden, r.Lost = report.States, report.Published, report.Folded, report.Hidden, report.Lost
	r.Recovered, r.Unknown, r.Late, r.Alike = report.Recovered, report.Unknown, report.Late, report.Alike
	r.takeGaps(report.Gaps)
	if r.Violations == nil {
		r.Violations = map[string]int{}
	}
	for promise, n := range report.Counts {
		r.Violations[string(promise)] += n
	}
	for _, v := range report.Violations {
		r.Told = append(r.Told, v.String())
	}
}

// add adds the judgement of a log that was taken away: what the one at the end has too is not counted again.
func (r *Result) add(where string, report oracle.Report) {
	r.Unknown += report.Unknown
	r.Alike += report.Alike
	r.takeGaps(report.Gaps)
	for _, v := range report.Violations {
		text := v.String()
		if slices.ContainsFunc(r.Told, func(told string) bool { return strings.HasSuffix(told, text) }) {
			continue
		}
		r.Violations[string(v.Promise)]++
		r.Told = append(r.Told, where+text)
	}
}

// takeGaps adds gaps, each once.
func (r *Result) takeGaps(gaps []oracle.GapFigure) {
	for _, g := range gaps {
		gap := Gap{g.Stream.String(), g.From, g.To, classOf(g.Cause), g.Cause, g.Hidden, g.Recovered}
		if !slices.ContainsFunc(r.Gaps, func(known Gap) bool {
			return known.Stream == gap.Stream && known.From == gap.From && known.To == gap.To && known.Cause == gap.Cause
		}) {
			r.Gaps = append(r.Gaps, gap)
		}
	}
}

// hides sums up what gaps hide and what was read back before them.
func hides(gaps []Gap) (sum GapSum) {
	for _, g := range gaps {
		sum.Gaps++
		sum.Hidden += g.Hidden
		sum.Recovered += g.Recovered
	}
	return sum
}

// count is how often something was violated, in all.
func (r *Result) count() (n int) {
	for _, times := range r.Violations {
		n += times
	}
	return n
}
