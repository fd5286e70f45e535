// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
)

// Text writes the report for a person: what it comes to, what is wrong and what to do, then tables of pipelines and
// streams, with ages in place of times. Wide has more columns, and no text cut short.
func (r *Report) Text(w io.Writer, wide bool) error {
	t := &texter{r: r, wide: wide}
	t.head()
	t.troubles()
	t.pipelines()
	t.streams()
	t.replicas()
	_, err := io.WriteString(inert.NewWriter(w), t.out.String())
	return err
}

type texter struct {
	r    *Report
	wide bool
	out  strings.Builder
}

func (t *texter) line(format string, args ...any) { fmt.Fprintf(&t.out, format+"\n", args...) }

func (t *texter) head() {
	r := t.r
	t.line("%s", r.Summary)
	about := []string{"kube-eventbridge " + r.Version, "up " + t.age(r.Started)}
	if r.Cluster != "" {
		about = append(about, "cluster "+r.Cluster)
	}
	if t.wide {
		about = append(about, "API server "+r.APIServer)
	}
	if c := &r.Configuration; c.File != "" {
		about = append(about, fmt.Sprintf("configuration %s, read %s ago", c.File, t.age(c.LoadedAt)))
	}
	t.line("%s", strings.Join(about, "; "))
	if e := r.LeaderElection; e != nil {
		switch {
		case e.Leads:
			t.line("leads as %s, term %d", e.Identity, e.Term)
		default:
			t.line("stands by as %s; leader: %s", e.Identity, cmp.Or(e.Leader, "none"))
		}
	}
}

func (t *texter) troubles() {
	for _, p := range t.r.Problems {
		t.line("")
		t.line("%s: %s", p.Severity, t.whose(&p))
		since := ""
		if !p.Since.IsZero() {
			since = ", " + t.age(p.Since) + " ago"
		}
		t.line("  %s%s", p.Text, since)
		t.line("  %s", p.Advice)
	}
}

// whose names what has a problem.
func (t *texter) whose(p *Problem) string {
	if p.Pipeline+p.Replica == "" {
		return string(p.Kind)
	}
	of := string(p.Kind) + ", pipeline " + p.Pipeline
	if p.Replica != "" {
		of = string(p.Kind) + ", replica " + p.Replica
	}
	const most = 5
	switch n := len(p.Streams); {
	case n == 0:
		return of
	case n == 1:
		return of + ", stream " + p.Streams[0]
	case n > most && !t.wide:
		return fmt.Sprintf("%s, %d streams: %s, …", of, n, strings.Join(p.Streams[:most], ", "))
	default:
		return fmt.Sprintf("%s, %d streams: %s", of, n, strings.Join(p.Streams, ", "))
	}
}

func (t *texter) pipelines() {
	if len(t.r.Pipelines) == 0 {
		return
	}
	t.line("")
	w := t.table("PIPELINE", "STATE", "READY", "STREAMS", "OBJECTS", "EVENTS/S", "PUBLISHED", "UNSETTLED", "BUFFER",
		"CHECKPOINT", "BROKER")
	for i := range t.r.Pipelines {
		p := &t.r.Pipelines[i]
		checkpoint := "-"
		if p.Checkpoint.AgeSeconds != nil {
			checkpoint = age(time.Duration(*p.Checkpoint.AgeSeconds*float64(time.Second))) + " ago"
		}
		row(w, p.Name, string(p.State), yes(p.Ready), strconv.Itoa(len(p.Streams)), strconv.Itoa(p.Objects),
			perSecond(p.EventsPerSecond),
			strconv.FormatInt(p.PublishedTotal, 10), unsettled(p.OldestUnsettledSeconds),
			size(p.Buffer.Bytes)+" of "+size(p.Buffer.LimitBytes), checkpoint, broker(&p.Broker))
	}
	_ = w.Flush()
	for _, p := range t.r.Pipelines {
		for _, r := range p.Resyncs {
			t.line("resync of %s: %d of %d objects, %d published again", r.Stream, r.Listed, r.Objects, r.Published)
		}
	}
}

func (t *texter) streams() {
	if len(t.r.Pipelines) == 0 {
		return
	}
	t.line("")
	columns := []string{
		"PIPELINE", "STREAM", "STATE", "OBJECTS", "EVENTS/S", "UNSETTLED", "POSITION", "LAST GAP",
		"LAST ERROR",
	}
	if t.wide {
		columns = append(columns, "PUBLISHED", "LAST EVENT", "SINCE", "LABELS", "FIELDS")
	}
	w := t.table(columns...)
	for i := range t.r.Pipelines {
		for j := range t.r.Pipelines[i].Streams {
			s := &t.r.Pipelines[i].Streams[j]
			cells := []string{
				t.r.Pipelines[i].Name, s.Name, string(s.State), strconv.Itoa(s.Objects), perSecond(s.EventsPerSecond),
				unsettled(s.OldestUnsettledSeconds), cmp.Or(s.Position, "-"), t.gap(s.LastGap), t.lastError(s.LastError),
			}
			if t.wide {
				cells = append(cells, strconv.FormatInt(s.PublishedTotal, 10), t.ago(s.LastEventAt), t.ago(s.Since),
					cmp.Or(s.LabelSelector, "-"), cmp.Or(s.FieldSelector, "-"))
			}
			row(w, cells...)
		}
	}
	_ = w.Flush()
}

func (t *texter) replicas() {
	if len(t.r.Replicas) == 0 {
		return
	}
	t.line("")
	w := t.table("REPLICA", "FROM", "INTO", "STATE", "READY", "BEHIND", "PENDING", "OBJECTS", "WRITES", "WAITING")
	for i := range t.r.Replicas {
		r := &t.r.Replicas[i]
		var writes, parked []string
		for _, one := range r.Writes {
			writes = append(writes, one.Result+" "+strconv.FormatUint(one.Total, 10))
		}
		for _, one := range r.Parked {
			parked = append(parked, one.Reason+" "+strconv.Itoa(one.Objects))
		}
		row(w, r.Name, r.Cluster+"/"+r.Pipeline, cmp.Or(r.Into, "-"), string(r.State), yes(r.Ready), unsettled(r.LagSeconds),
			strconv.Itoa(r.PendingObjects), strconv.Itoa(r.Objects), cmp.Or(strings.Join(writes, ", "), "-"),
			cmp.Or(strings.Join(parked, ", "), "-"))
	}
	_ = w.Flush()
	for i := range t.r.Replicas {
		r := &t.r.Replicas[i]
		if r.Reason != "" {
			t.line("%s: %s", r.Name, r.Reason)
		}
		for _, p := range r.Parked {
			if t.wide || !p.Intended {
				t.line("%s: %s", r.Name, p.text())
			}
		}
	}
}

func (t *texter) table(columns ...string) *tabwriter.Writer {
	w := tabwriter.NewWriter(&t.out, 0, 0, 2, ' ', 0)
	row(w, columns...)
	return w
}

// row writes cells; the last has no space behind it.
func row(w io.Writer, cells ...string) { _, _ = io.WriteString(w, strings.Join(cells, "\t")+"\n") }

func (t *texter) gap(g *Gap) string {
	switch {
	case g == nil:
		return "-"
	case t.wide:
		return t.age(g.At) + " ago, " + g.versions()
	default:
		return t.ago(g.At)
	}
}

func (t *texter) lastError(e *PastError) string {
	switch {
	case e == nil:
		return "-"
	case e.ClearedAt.IsZero():
		return string(e.Kind) + ", for " + t.age(e.At)
	case t.wide:
		return fmt.Sprintf("%s, over %s ago: %s", e.Kind, t.age(e.ClearedAt), e.Text)
	default:
		return string(e.Kind) + ", over " + t.ago(e.ClearedAt)
	}
}

func (t *texter) ago(at time.Time) string {
	if at.IsZero() {
		return "-"
	}
	return t.age(at) + " ago"
}

func (t *texter) age(at time.Time) string { return age(t.r.Time.Sub(at)) }

// age returns a time as kubectl does.
func age(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

func unsettled(seconds float64) string {
	if seconds == 0 {
		return "0s"
	}
	if seconds < 1 {
		return "<1s"
	}
	return age(time.Duration(seconds * float64(time.Second)))
}

func perSecond(n float64) string { return strconv.FormatFloat(n, 'f', 1, 64) }

func broker(b *Broker) string {
	switch {
	case b.OK:
		return "ok"
	case b.Error == "":
		return "starting"
	default:
		return "failing"
	}
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// size returns bytes as the configuration writes them, rounded.
func size(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1fGi", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%dMi", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%dKi", n>>10)
	default:
		return strconv.FormatInt(n, 10)
	}
}
