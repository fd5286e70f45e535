// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// Summary is what came of all rounds; see [Result] for the figures.
type Summary struct {
	// Broker is the kind of broker of all rounds; Alone and Together count those without and with replicas.
	Broker          string
	Alone, Together int
	Rounds, Faults  int
	Figures
	RSS, Buffered int64
	Wall          float64
	// Retried rounds were played a second time.
	Retried   int
	Takeovers []world.Takeover
	// Gaps are summed up by their cause.
	Gaps map[oracle.Cause]GapSum
	// Violations are counted by promise, and by what the bridge did otherwise that it must not; the Known ones by name.
	Violations map[string]int
	Known      map[string]int
	ByFault    map[string]int
	// Missed counts the faults that found no occasion. Skipped says which planned ones could not be injected, and why.
	Missed  int
	Skipped []string
	// Spent is what parts of the rounds took, in seconds.
	Spent map[string]float64
}

// GapSum is what some gaps hide, how much of that etcd still had, and what was read back before them.
type GapSum struct{ Gaps, Hidden, Avoidable, Recovered int }

// Summarize adds results up. A fault of two counts once for the whole, and by name for each.
func Summarize(results []Result) Summary {
	s := Summary{
		Violations: map[string]int{}, Known: map[string]int{}, ByFault: map[string]int{}, Spent: map[string]float64{},
		Gaps: map[oracle.Cause]GapSum{},
	}
	for _, r := range results {
		s.Broker = r.Broker
		s.Rounds++
		s.Faults += len(r.Faults)
		for _, f := range r.Faults {
			for one := range strings.SplitSeq(f, together) {
				s.ByFault[one]++
			}
		}
		s.add(r)
		for _, g := range r.Gaps {
			sum := s.Gaps[g.Cause]
			sum.add(g)
			s.Gaps[g.Cause] = sum
		}
		s.Violations, s.Known = sums(s.Violations, r.Violations), sums(s.Known, r.Known)
		for part, seconds := range r.Spent {
			s.Spent[part] += seconds
		}
		s.Missed += len(r.Missed)
		s.Skipped = append(s.Skipped, r.Skipped...)
	}
	return s
}

// sums adds counts to others, which may be nil.
func sums(to, more map[string]int) map[string]int {
	if to == nil {
		to = map[string]int{}
	}
	for what, n := range more {
		to[what] += n
	}
	return to
}

func (s *Summary) add(r Result) {
	s.Figures.add(r.Figures)
	s.Wall += r.Wall
	s.Takeovers = append(s.Takeovers, r.Takeovers...)
	if r.Replicas > 0 {
		s.Together++
	} else {
		s.Alone++
	}
	s.RSS, s.Buffered = max(s.RSS, r.RSS), max(s.Buffered, r.Buffered)
	if r.Retried {
		s.Retried++
	}
}

// Broken is the number of violations.
func (s Summary) Broken() (n int) {
	for _, k := range s.Violations {
		n += k
	}
	return n
}

// Doubts says why the campaign is no proof even if nothing is broken: more than a hundredth of what happened is not
// known. It is empty if there are none.
func (s Summary) Doubts() string {
	if 100*s.Unknown <= s.States && 100*s.Blind <= s.States && s.States > 0 {
		return ""
	}
	return fmt.Sprintf("NOT A PROOF: of %d true states, %d entries could not be judged, and %d revisions were not seen "+
		"by the recorder", s.States, s.Unknown, s.Blind)
}

// Objections says what is wrong with a campaign besides violations: doubts, takeovers that are late in the median, logs
// that have less than a quarter of what happened, more than one state in a thousand that only versions excuse, and gaps
// before which too little was read back. A strict one has to be whole: no round was played a second time, no planned
// fault was skipped, and each known violation occurred.
func (s Summary) Objections(o Options) (all []string) {
	if doubts := s.Doubts(); doubts != "" {
		all = append(all, doubts)
	}
	all = append(all, s.lateMedians(cmp.Or(o.Late, late)/2)...)
	if 4*s.Published < s.States {
		all = append(all, fmt.Sprintf("of %d true states only %d are in the logs", s.States, s.Published))
	}
	if 1000*s.Alike > s.States {
		all = append(all, fmt.Sprintf("%d of %d true states are excused by versions alone", s.Alike, s.States))
	}
	// On NATS a bridge that keeps its promises left out 0 and read back 139. On Kafka, whose plan has no fault after
	// which history is read back, one left out 14 of 36: known, and not judged until the bridge reads them back.
	if g := s.Gaps[oracle.Expired]; s.Broker != world.Kafka && 10*g.Avoidable > g.Recovered+g.Avoidable {
		all = append(all, fmt.Sprintf(
			"of what the API server's watches had lost, etcd still had %d states that were not read back, and %d were",
			g.Avoidable, g.Recovered))
	}
	if !o.Strict {
		return all
	}
	if s.Retried > 0 {
		all = append(all, fmt.Sprintf("%d rounds were played a second time", s.Retried))
	}
	return append(all, s.Skipped...)
}

// Mended names the known violations that did not occur.
func (s Summary) Mended(known []Known) (names []string) {
	for _, k := range known {
		if s.Known[k.Name] == 0 {
			names = append(names, k.Name)
		}
	}
	return names
}

// many faults are so many that each of the catalogue has to have occurred.
const many = 1000

// Missing names the faults that never occurred, in a campaign of at least 1,000.
func (s Summary) Missing() (names []string) {
	if s.Faults < many {
		return nil
	}
	for _, f := range world.Catalogue(s.Broker, s.Alone > 0, s.Together > 0) {
		if s.ByFault[f.Name] == 0 {
			names = append(names, f.Name)
		}
	}
	return names
}

// String is the summary in Markdown.
func (s Summary) String() string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"%d faults in %d rounds, %.0f minutes; %d changes by the driver, %d true states, %d entries in the logs, %d in "+
			"those of second pipelines, and %d in %d logs that faults have taken away.\n\n",
		s.Faults, s.Rounds, s.Wall/60, s.Changes, s.States, s.Entries, s.SecondEntries, s.RemovedEntries, s.Removed)
	fmt.Fprintf(&b, "| promise | violations |\n|---|---|\n")
	for i := range 9 {
		p := fmt.Sprintf("P%d", i+1)
		fmt.Fprintf(&b, "| %s | %d |\n", p, s.Violations[p])
	}
	for _, kind := range kinds {
		fmt.Fprintf(&b, "| %s | %d |\n", kind, s.Violations[kind])
	}
	for _, name := range slices.Sorted(maps.Keys(s.Known)) {
		fmt.Fprintf(&b, "| KNOWN: %s | %d |\n", name, s.Known[name])
	}
	hidden := 0
	for _, g := range s.Gaps {
		hidden += g.Hidden
	}
	fmt.Fprintf(&b, "\nOf the true states %d are in the logs, %d were folded (`latest`), "+
		"%d are hidden by gaps and by first snapshots, %d of them undone by restorations, %d are lost. %d were read back "+
		"from history. Gaps hid %d.\n",
		s.Published, s.Folded, s.Hidden, s.Undone, s.Lost, s.Recovered, hidden)
	fmt.Fprintf(&b, "The recorder has %d holes of %d revisions, and %d entries could not be judged. "+
		"%d rounds were played a second time. %d times a fault found no occasion.\n", s.Holes, s.Blind, s.Unknown, s.Retried,
		s.Missed)
	if s.Alike > 0 {
		fmt.Fprintf(&b,
			"\nEXCUSED: %d states are not in the logs because etcd was restored and came to the same versions of the same "+
				"objects, which nothing else showed.\n", s.Alike)
	}
	if s.Audited > 0 {
		fmt.Fprintf(&b, "\nIn %d rounds etcd was restored, and everything was published again before the log was judged.\n",
			s.Audited)
	}
	if s.Unaudited > 0 {
		fmt.Fprintf(&b, "\nNOT JUDGED: of %d objects only an audit finds the true content, and none was made.\n", s.Unaudited)
	}
	if doubts := s.Doubts(); doubts != "" {
		fmt.Fprintf(&b, "\n%s.\n", doubts)
	}
	fmt.Fprintf(&b, "\nPeak RSS of the bridge %d MiB, peak buffer %d KiB.\n", s.RSS>>20, s.Buffered>>10)
	s.leaders(&b)
	s.tables(&b)
	return b.String()
}

func (s Summary) tables(b *strings.Builder) {
	fmt.Fprintf(b, "\n| gaps because of | n | deltas hidden | of those etcd had | read back |\n|---|---|---|---|---|\n")
	for _, cause := range oracle.Causes {
		g := s.Gaps[cause]
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d |\n", cause, g.Gaps, g.Hidden, g.Avoidable, g.Recovered)
	}
	fmt.Fprintf(b, "\n| fault | times |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(s.ByFault)) {
		fmt.Fprintf(b, "| %s | %d |\n", name, s.ByFault[name])
	}
	fmt.Fprintf(b, "\nThe rounds spent their seconds on: %s.\n", (&Result{Spent: s.Spent}).spent())
	for _, skipped := range s.Skipped {
		fmt.Fprintf(b, "\n%s.\n", skipped)
	}
	if missing := s.Missing(); len(missing) > 0 {
		fmt.Fprintf(b, "\nNever injected: %s.\n", strings.Join(missing, "; "))
	}
}
