// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// PrintList prints a line for each report.
func PrintList(w io.Writer, reports []*Report) error {
	t := newTable(w, "PIPELINE", "CLUSTER", "STREAMS", "OBJECTS", "SAVED", "WHERE")
	for _, r := range reports {
		if !r.Exists {
			t.row(r.Pipeline, "-", "-", "-", "never", r.Where)
			continue
		}
		t.row(r.Pipeline, r.Cluster, strconv.Itoa(len(r.Streams)), strconv.Itoa(r.Objects), r.saved(), r.Where)
	}
	return t.Flush()
}

// Print prints a report. Wide adds histories, deletions and selectors of streams, and the trail.
func (r *Report) Print(w io.Writer, wide bool) error {
	t := newTable(w)
	t.row("Pipeline:", r.Pipeline)
	t.row("Cluster:", fmt.Sprintf("%s (uid of kube-system %s)", r.Cluster, r.ClusterUID))
	t.row("Where:", r.Where)
	t.row("Saved:", r.saved())
	t.row("Log:", r.Log.String())
	if err := t.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	if err := r.printStreams(w, wide); err != nil || !wide {
		return err
	}
	return r.Log.printTrail(w)
}

func (r *Report) saved() string {
	if r.Saved == nil {
		return "unknown"
	}
	return r.Saved.Format(time.RFC3339)
}

func (r *Report) printStreams(w io.Writer, wide bool) error {
	columns := []string{"STREAM", "POSITION", "OBJECTS"}
	if wide {
		columns = append(columns, "DELETIONS", "HISTORY", "SELECTORS")
	}
	t := newTable(w, append(columns, "OWES")...)
	for _, s := range r.Streams {
		cells := []string{s.Name, cmp.Or(s.Position, "-"), strconv.Itoa(s.Objects)}
		if wide {
			cells = append(cells, strconv.Itoa(s.Deletions), strconv.Itoa(s.History), cmp.Or(s.Selectors, "-"))
		}
		t.row(append(cells, cmp.Or(strings.Join(s.Owes, "; "), "-"))...)
	}
	return t.Flush()
}

// String says for a person what is known of the log.
func (l *Log) String() string {
	if len(l.Marks) == 0 {
		return "nothing is known of it"
	}
	text := "known up to " + marks(l.Marks)
	switch l.Losses {
	case 0:
		return text
	case 1:
		return text + "; seen to lose events once"
	default:
		return fmt.Sprintf("%s; seen to lose events %d times", text, l.Losses)
	}
}

func (l *Log) printTrail(w io.Writer) error {
	if len(l.Trail) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := newTable(w, "LOG AT", "SAFE POSITIONS")
	for _, way := range l.Trail {
		var positions []string
		for _, name := range slices.Sorted(maps.Keys(way.Positions)) {
			positions = append(positions, name+"="+way.Positions[name])
		}
		t.row(marks(way.Marks), cmp.Or(strings.Join(positions, " "), "-"))
	}
	return t.Flush()
}

// marks writes one mark alone, and several with their partitions.
func marks(at map[int32]uint64) string {
	if mark, only := at[0]; only && len(at) == 1 {
		return strconv.FormatUint(mark, 10)
	}
	var all []string
	for _, partition := range slices.Sorted(maps.Keys(at)) {
		all = append(all, fmt.Sprintf("%d: %d", partition, at[partition]))
	}
	if len(all) == 0 {
		return "-"
	}
	return "partition " + strings.Join(all, ", ")
}

// table aligns columns.
type table struct{ *tabwriter.Writer }

func newTable(w io.Writer, columns ...string) table {
	t := table{tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)}
	if len(columns) > 0 {
		t.row(columns...)
	}
	return t
}

// row adds a line. Its error comes again from Flush.
func (t table) row(cells ...string) { _, _ = fmt.Fprintln(t, strings.Join(cells, "\t")) }
