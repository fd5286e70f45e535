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

// Print prints a report. Wide adds deletions, epochs and selectors of streams, and the numbers that were given out.
func (r *Report) Print(w io.Writer, wide bool) error {
	t := newTable(w)
	t.row("Pipeline:", r.Pipeline)
	t.row("Cluster:", fmt.Sprintf("%s (uid of kube-system %s)", r.Cluster, r.ClusterUID))
	t.row("Where:", r.Where)
	t.row("Saved:", r.saved())
	t.row("Log:", r.Log.String())
	if wide {
		t.row("Given out:", r.Log.given())
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	return r.printStreams(w, wide)
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
		columns = append(columns, "DELETIONS", "EPOCH", "SINCE", "SELECTORS")
	}
	t := newTable(w, append(columns, "OWES")...)
	for _, s := range r.Streams {
		cells := []string{s.Name, cmp.Or(s.Position, "-"), strconv.Itoa(s.Objects)}
		if wide {
			cells = append(cells, strconv.Itoa(s.Deletions), numberOrNone(s.Epoch), numberOrNone(s.Since))
			cells = append(cells, cmp.Or(s.Selectors, "-"))
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
	return "known up to " + marks(l.Marks)
}

// given says which numbers must not be given out again.
func (l *Log) given() string {
	text := fmt.Sprintf("epochs up to %d, resyncs up to %d", l.Given, l.Resyncs)
	if l.Term > 0 {
		text += fmt.Sprintf(", terms up to %d", l.Term)
	}
	return text
}

// numberOrNone writes a number that may be none.
func numberOrNone(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
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
