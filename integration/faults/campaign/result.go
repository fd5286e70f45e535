// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// Figures are what is counted in a round, and summed up over all.
type Figures struct {
	// Changes were acknowledged to the driver; States are all that the truth has, Published those that the log has,
	// Folded those that a later one stands for, Hidden those that a snapshot or a gap accounts for, Lost the others.
	// They and Entries are those of the log at the end.
	Changes, Entries, States, Published, Folded, Hidden, Lost int
	// Unknown entries could not be judged, because the recorder has holes: so many, of Blind revisions of etcd.
	Unknown, Holes, Blind int
	// Alike states are excused because a restored etcd came to the same versions of the same objects; see
	// [oracle.Report]. Those of logs that were taken away are counted too.
	Alike int
	// Unaudited objects are those of which only an audit finds the true content; see [oracle.Report].
	Unaudited int `json:",omitempty"`
	// Audited rounds had everything published again in the end, because etcd was restored.
	Audited int `json:",omitempty"`
	// Undone states are excused because etcd was restored to an older state before they were published.
	Undone int `json:",omitempty"`
	// Removed logs were taken away by faults, with RemovedEntries; they were judged up to where they were read.
	Removed, RemovedEntries int
	// SecondEntries are those of the logs of second pipelines, of which nothing else is counted.
	SecondEntries int `json:",omitempty"`
	// Recovered entries were read back from the history.
	Recovered int
	// Late entries are of a former leader, and stand where the promises let them.
	Late int `json:",omitempty"`
}

// add adds those of another round.
func (f *Figures) add(of Figures) {
	sum, more := reflect.ValueOf(f).Elem(), reflect.ValueOf(of)
	for i := range sum.NumField() {
		sum.Field(i).SetInt(sum.Field(i).Int() + more.Field(i).Int())
	}
}

// Result is what came of one round.
type Result struct {
	Round int `json:"round"`
	// Seed is the campaign's; the round's own follows from it and from its number.
	Seed uint64 `json:"seed"`
	// Broker is the kind of broker, empty for NATS; Checkpoint is where the bridge kept its state, empty for a file.
	Broker     string `json:"broker,omitempty"`
	Checkpoint string `json:"checkpoint,omitempty"`
	// Replicas is how many bridges ran, 0 for one without a Lease; Takeovers are those that the faults were
	// to cause.
	Replicas  int              `json:"replicas,omitempty"`
	Takeovers []world.Takeover `json:",omitempty"`
	// Faults were injected, Wanted is how many had to be: a round that the bridge does not see through ends before.
	// Missed say of faults that they found no occasion, Skipped of planned ones why they could not be injected.
	Faults  []string `json:"faults"`
	Wanted  int      `json:"wanted"`
	Missed  []string `json:",omitempty"`
	Skipped []string `json:",omitempty"`
	Figures
	Gaps []Gap `json:",omitempty"`
	// RSS and Buffered are the most that was seen, in bytes.
	RSS, Buffered int64
	// Seconds is how long the round took; Wall is the time since the campaign's last result, or since it was started or
	// went on. The sum of all Wall is how long the campaign ran.
	Seconds, Wall float64
	// Spent is what parts of the round took, in seconds.
	Spent map[string]float64 `json:",omitempty"`
	// Retried says that the round was played a second time, because something around the bridge had failed.
	Retried bool `json:",omitempty"`
	// Violations are counted by promise, or by what the bridge did otherwise that it must not; Told says each, of
	// promises with both histories. Known violations are counted by their names, and not among the others.
	Violations map[string]int `json:",omitempty"`
	Told       []string       `json:",omitempty"`
	Known      map[string]int `json:",omitempty"`
	// Story is what the faults did; it is kept where something was violated.
	Story string `json:",omitempty"`
}

// Gap is one that the log announces.
type Gap struct {
	Stream   string
	From, To uint64
	Cause    oracle.Cause
	Message  string
	// Hidden counts the states that it hides, Avoidable those of them that etcd still had, Recovered the entries that
	// were read back before it.
	Hidden, Avoidable, Recovered int
}

// violated adds a violation that is not among the known ones. What was told before is not counted again: a log that was
// taken away has it too.
func (r *round) violated(where, kind, stream, what string) {
	result := &r.result
	if r.told[kind+what] {
		return
	}
	if r.told == nil {
		r.told = map[string]bool{}
	}
	r.told[kind+what] = true
	for _, k := range r.options.Known {
		if k.matches(kind, stream, what, strings.Split(names(r.tried), separator)) {
			result.Known = sums(result.Known, map[string]int{k.Name: 1})
			return
		}
	}
	if result.Violations = sums(result.Violations, map[string]int{kind: 1}); result.Violations[kind] <= printed {
		result.Told = append(result.Told, where+kind+": "+what)
	}
}

// printed is how many violations of a kind are printed of a round.
const printed = 30

// take adds the judgement of the log at the end, and its figures.
func (r *round) take(report oracle.Report) {
	result := &r.result
	result.States, result.Published, result.Folded = report.States, report.Published, report.Folded
	result.Hidden, result.Lost, result.Recovered = report.Hidden, report.Lost, report.Recovered
	result.Unknown, result.Late, result.Alike, result.Undone = report.Unknown, report.Late, report.Alike, report.Undone
	result.Unaudited = report.Unaudited
	r.takeGaps("", report.Gaps)
	r.takeViolations("", report)
}

// add adds the judgement of a log that was taken away: what the one at the end has too is not counted again.
func (r *round) add(where string, report oracle.Report) {
	r.result.Unknown += report.Unknown
	r.result.Alike += report.Alike
	r.takeGaps("", report.Gaps)
	r.takeViolations(where, report)
}

func (r *round) takeViolations(where string, report oracle.Report) {
	for _, v := range report.Violations {
		r.violated(where, string(v.Promise), v.Stream, v.String())
	}
}

// takeGaps adds the gaps of a log, each once; where names the log. By a clock that has jumped nothing can be said of
// what etcd still had.
func (r *round) takeGaps(where string, gaps []oracle.GapFigure) {
	result := &r.result
	for _, g := range gaps {
		gap := Gap{
			Stream: where + g.Stream.String(), From: g.From, To: g.To, Cause: g.Cause, Message: g.Message,
			Hidden: g.Hidden, Recovered: g.Recovered, Avoidable: g.Avoidable,
		}
		if r.jumped() {
			gap.Avoidable = 0
		}
		if !slices.ContainsFunc(result.Gaps, func(known Gap) bool {
			return known.Stream == gap.Stream && known.From == gap.From && known.To == gap.To &&
				known.Cause == gap.Cause && known.Message == gap.Message
		}) {
			result.Gaps = append(result.Gaps, gap)
		}
	}
}

// hides sums up what gaps hide and what was read back before them.
func hides(gaps []Gap) (sum GapSum) {
	for _, g := range gaps {
		sum.add(g)
	}
	return sum
}

func (s *GapSum) add(g Gap) {
	s.Gaps++
	s.Hidden += g.Hidden
	s.Avoidable += g.Avoidable
	s.Recovered += g.Recovered
}

// spent says what the round took its time for.
func (r *Result) spent() string {
	var parts []string
	for _, part := range slices.Sorted(maps.Keys(r.Spent)) {
		parts = append(parts, fmt.Sprintf("%s %.0f", part, r.Spent[part]))
	}
	return strings.Join(parts, ", ")
}

// count is how often something was violated, in all.
func (r *Result) count() (n int) {
	for _, times := range r.Violations {
		n += times
	}
	return n
}
