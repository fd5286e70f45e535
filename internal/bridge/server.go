// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
)

// Handler serves /metrics. /livez answers as long as the process can answer. /readyz is 200 when every stream watches
// and has its first list in the log, and neither a watch nor a broker nor the checkpoint has failed for
// [health.UnreadyAfter]; else it is 503 and says in a line each what is missing, as [inert.Line] has it. A stream of a
// wildcard that may not be read, or is not to be had, does not count: 200 names it in a line. Where there are no
// pipelines, idle says in a line why, and whether the process is as it should be.
func Handler(g prometheus.Gatherer, pipelines func() []*Pipeline, idle func() (line string, ready bool)) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(g, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintln(w, "ok")
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		all := pipelines()
		var problems, notes []string
		if len(all) == 0 {
			if line, ready := idle(); ready {
				notes = []string{line}
			} else {
				problems = []string{line}
			}
		}
		for _, p := range all {
			problems = append(problems, p.unready()...)
		}
		if len(problems) > 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			for _, line := range problems {
				_, _ = fmt.Fprintln(w, inert.Line(line))
			}
			return
		}
		for _, p := range all {
			notes = append(notes, p.degraded()...)
		}
		for _, line := range append([]string{"ok"}, notes...) {
			_, _ = fmt.Fprintln(w, inert.Line(line))
		}
	})
	return mux
}

// unready returns what keeps the pipeline from being ready, a line for each thing.
func (p *Pipeline) unready() []string {
	if e := p.ended.Load(); e != nil {
		why := strings.TrimPrefix(e.Err.Error(), fmt.Sprintf("pipeline %s: ", p.cfg.Name))
		return []string{fmt.Sprintf("pipeline %s: it has ended, and is tried again: %s", p.cfg.Name, why)}
	}
	if s := p.current.Load(); s != nil {
		return s.unready()
	}
	return []string{fmt.Sprintf("pipeline %s: it is starting", p.cfg.Name)}
}

func (p *session) unready() []string {
	name := p.cfg.Name
	if err := p.journal.Loading(); err != nil {
		return []string{fmt.Sprintf("pipeline %s: checkpoint: %v", name, err)} // nothing has begun
	}
	var lines []string
	if err := p.delivery.Broker.Problem(p.sink.Ready()); err != nil {
		lines = append(lines, fmt.Sprintf("pipeline %s: broker: %v", name, err))
	} else if since, err := p.delivery.Broker.Refusing(); err != nil {
		lines = append(lines, fmt.Sprintf("pipeline %s: broker: it answers, and for %v has refused something: %v", name,
			time.Since(since).Round(time.Second), err))
	}
	patience := health.UnreadyAfter
	if !p.hasMet() {
		patience = 0 // nothing begins before it is saved what the log has
	}
	if since, err := p.journal.Problem(); err != nil && time.Since(since) >= patience {
		lines = append(lines, fmt.Sprintf("pipeline %s: checkpoint: %v", name, err))
	}
	for _, line := range p.entries.problems() {
		lines = append(lines, fmt.Sprintf("pipeline %s: %s", name, line))
	}
	for _, s := range p.journal.Opened() {
		if why := s.Status.Ready(); why != "" && s.Status.Degraded() == "" {
			lines = append(lines, fmt.Sprintf("pipeline %s: stream %s: %s", name, s.Name, why))
		}
	}
	return lines
}

// degraded returns which streams are not read and why, where the pipeline is ready nevertheless; a line for each.
func (p *Pipeline) degraded() (lines []string) {
	s := p.current.Load()
	if s == nil || p.ended.Load() != nil {
		return nil
	}
	for _, o := range s.journal.Opened() {
		if why := o.Status.Degraded(); why != "" {
			lines = append(lines, fmt.Sprintf("degraded: pipeline %s: stream %s: %s", s.cfg.Name, o.Name, why))
		}
	}
	return lines
}
