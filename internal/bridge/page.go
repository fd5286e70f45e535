// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// writePage tells a person how the pipelines are doing.
func writePage(w io.Writer, pipelines []*Pipeline) {
	for _, pipeline := range pipelines {
		p := pipeline.current.Load()
		if p == nil {
			continue
		}
		_, _ = fmt.Fprintf(w, "pipeline %s\n", p.name)
		broker := "ok"
		if err := p.sink.Ready(); err != nil {
			broker = err.Error()
		}
		_, _ = fmt.Fprintf(w, "  broker: %s\n", broker)
		_, _ = fmt.Fprintf(w, "  buffered: %d changes, %d of %d bytes\n", p.budget.count.Load(), p.budget.bytes.Load(), p.budget.all.limit)
		if at := p.saved.Load(); at != 0 {
			_, _ = fmt.Fprintf(w, "  checkpoint: saved %v ago\n", since(time.Unix(0, at)))
		}
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "  STREAM\tSTATE\tPOSITION\tOBJECTS\tUNSETTLED FOR\tPROBLEM")
		for _, s := range p.opened() {
			unsettled := time.Duration(0)
			if t, ok := s.tracker.Oldest(); ok {
				unsettled = since(t)
			}
			state, problem := s.status.now()
			_, _ = fmt.Fprintf(table, "  %s\t%v\t%s\t%d\t%v\t%s\n", s.name, state, s.tracker.Position(), s.ledger.Len(), unsettled, problem)
		}
		_ = table.Flush()
		for _, r := range p.resyncs() {
			if r.State == ResyncRunning {
				_, _ = fmt.Fprintf(w, "  resync: %s, %d of %d objects, %d published again, for %v\n", r.Stream, r.Listed, r.Objects, r.Published, since(r.Began))
			}
		}
		for _, line := range p.unready() {
			_, _ = fmt.Fprintf(w, "  not ready: %s\n", line)
		}
		_, _ = fmt.Fprintln(w)
	}
}

func since(t time.Time) time.Duration { return time.Since(t).Round(time.Millisecond) }
