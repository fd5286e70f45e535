// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"fmt"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
)

// Result is what came of an outage.
type Result struct {
	Config Config
	// Changes were acknowledged to the driver; ChangesAway are those of them that were made while there was no broker.
	Changes, ChangesAway int
	// Entries is how many the log has at the end, markers included.
	Entries int
	// CaughtUp is the time from the return of the broker until the log had an object of each kind that was made then,
	// while others went on changing.
	CaughtUp time.Duration
	// Samples are in the order of time, from before the outage until all was quiet.
	Samples []Sample
	// Report is the oracle's.
	Report oracle.Report
}

// Peak is the most of each figure while there was a broker, or while there was none. Changes and Since are the last
// ones.
func (r Result) Peak(broker bool) (peak Sample) {
	peak.Broker = broker
	for _, s := range r.Samples {
		if s.Broker == broker {
			peak.Changes, peak.Since = s.Changes, s.Since
			peak.RSS, peak.Buffered, peak.Checkpoint = max(peak.RSS, s.RSS), max(peak.Buffered, s.Buffered),
				max(peak.Checkpoint, s.Checkpoint)
		}
	}
	return peak
}

// HiddenByGaps counts the states that gaps announce and the log does not have.
func (r Result) HiddenByGaps() (n int) {
	for _, g := range r.Report.Gaps {
		n += g.Hidden
	}
	return n
}

// Broken says what was not as promised, one text each.
func (r Result) Broken() (all []string) {
	for _, v := range r.Report.Violations {
		all = append(all, v.String())
	}
	if most := max(r.Peak(true).Checkpoint, r.Peak(false).Checkpoint); most > checkpointLimit {
		all = append(all, fmt.Sprintf("the checkpoint took %d bytes, and %d are allowed", most, checkpointLimit))
	}
	return all
}

// rows is about how many measurements are printed.
const rows = 12

// String is the result in Markdown.
func (r Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Broker away for %s, %.0f changes/s wanted, %.0f made, buffer %d MiB, seed %d.\n\n",
		r.Config.Away, r.Config.Rate, float64(r.ChangesAway)/r.Config.Away.Seconds(), r.Config.Buffer>>20, r.Config.Seed)
	r.figures(&b)
	fmt.Fprintf(&b, "\n| | RSS MiB | buffered MiB | checkpoint KiB |\n|---|---|---|---|\n")
	row(&b, "limit", Sample{RSS: r.Config.rssLimit(), Buffered: r.Config.Buffer, Checkpoint: checkpointLimit})
	row(&b, "most with a broker", r.Peak(true))
	row(&b, "most without", r.Peak(false))
	next := time.Duration(1)
	for _, s := range r.Samples {
		if !s.Broker && s.Since >= next {
			row(&b, "after "+s.Since.Round(time.Second).String(), s)
			next = s.Since + r.Config.Away/rows
		}
	}
	if len(r.Samples) > 0 {
		row(&b, "at the end", r.Samples[len(r.Samples)-1])
	}
	r.gaps(&b)
	for _, what := range r.Broken() {
		fmt.Fprintf(&b, "\n%s\n", what)
	}
	return b.String()
}

func (r Result) figures(b *strings.Builder) {
	fmt.Fprintf(b, "| figure | value |\n|---|---|\n")
	for _, f := range []struct {
		name  string
		value any
	}{
		{"changes made", r.Changes},
		{"of those without a broker", r.ChangesAway},
		{"true states", r.Report.States},
		{"published", r.Report.Published},
		{"of those read back from history", r.Report.Recovered},
		{"hidden by gaps", r.HiddenByGaps()},
		{"hidden by first snapshots", r.Report.Hidden - r.HiddenByGaps()},
		{"lost", r.Report.Lost},
		{"unknown to the recorder", r.Report.Unknown},
		{"gaps announced", len(r.Report.Gaps)},
		{"entries in the log", r.Entries},
		{"time to catch up", r.CaughtUp.Round(100 * time.Millisecond)},
		{"promises broken", len(r.Broken())},
	} {
		fmt.Fprintf(b, "| %s | %v |\n", f.name, f.value)
	}
}

func row(b *strings.Builder, name string, s Sample) {
	fmt.Fprintf(b, "| %s | %d | %.1f | %d |\n", name, s.RSS>>20, float64(s.Buffered)/(1<<20), s.Checkpoint>>10)
}

func (r Result) gaps(b *strings.Builder) {
	if len(r.Report.Gaps) == 0 {
		return
	}
	fmt.Fprintf(b, "\n| gap in | from | to | reason | hides | read back before |\n|---|---|---|---|---|---|\n")
	for _, g := range r.Report.Gaps {
		fmt.Fprintf(b, "| %s | %d | %d | %s | %d | %d |\n", g.Stream, g.From, g.To, g.Cause, g.Hidden, g.Recovered)
	}
}
