// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
)

// problems are what is wrong; of several streams of a pipeline that have the same it is one.
type problems struct {
	all    []Problem
	errors int
}

func (ps *problems) add(p Problem) {
	if p.Severity == Error {
		ps.errors++
	}
	for i := range ps.all {
		o := &ps.all[i]
		if len(p.Streams) == 0 || o.Kind != p.Kind || o.Pipeline != p.Pipeline || o.Replica != p.Replica ||
			o.Severity != p.Severity || len(o.Streams) == 0 || p.Kind == Unknown && o.Text != p.Text ||
			p.Kind == Gapped && o.Advice != p.Advice {
			continue
		}
		o.Streams = append(o.Streams, p.Streams...)
		if o.Since.IsZero() || !p.Since.IsZero() && p.Since.Before(o.Since) {
			o.Since = p.Since
		}
		return
	}
	p.Title, p.Streams = titleOf(p.Kind), slices.Clone(p.Streams)
	ps.all = append(ps.all, p)
}

// sorted returns them, errors first.
func (ps *problems) sorted() []Problem {
	slices.SortStableFunc(ps.all, func(a, b Problem) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	if ps.all == nil {
		return []Problem{}
	}
	return ps.all
}

func (s Severity) rank() int {
	if s == Error {
		return 0
	}
	return 1
}

// sum says in a word and in a sentence how all is doing.
func sum(r *Report, of *parts) {
	failing := 0
	for _, p := range r.Problems {
		if p.Severity == Error {
			failing++
		}
	}
	var counts, well []string
	if len(r.Pipelines) > 0 {
		streams, watching := watched(r.Pipelines)
		counts = append(counts, fmt.Sprintf("%d of %s watched", watching, counted(streams, "stream")))
		well = append(well, liveStreams(streams))
	}
	doing := make(map[ReplicaState]int)
	for _, one := range r.Replicas {
		doing[one.State]++
	}
	if n := len(r.Replicas); n > 0 {
		counts = append(counts, fmt.Sprintf("%d of %s running", doing[ReplicaRunning], counted(n, "replica")))
		well = append(well, liveReplicas(r.Replicas))
	}
	tally := strings.Join(counts, ", ")
	starting := doing[ReplicaLearning]+doing[ReplicaNotRunning] > 0 ||
		slices.ContainsFunc(r.Pipelines, func(p Pipeline) bool { return p.State == Starting })
	switch {
	case of.publishes && len(r.Pipelines) == 0:
		r.State = idleState(r, failing)
		r.Summary = sentence(strings.Join(append([]string{inert.Line(of.idle)}, counts...), ", "))
	case failing > 0:
		r.State, r.Summary = Failing, headline(r.Problems[0].Title, failing-1)+": "+tally
	case !of.publishes && len(r.Replicas) > 0 && doing[ReplicaStandby] == len(r.Replicas):
		r.State, r.Summary = Standby, "Standing by: "+r.Replicas[0].Reason
	case starting:
		r.State, r.Summary = Starting, "Starting: "+tally
	default:
		r.State, r.Summary = Live, sentence(strings.Join(well, ", and "))
	}
}

// idleState is that of a process that publishes, and has no pipelines yet.
func idleState(r *Report, failing int) State {
	switch {
	case failing > 0:
		return Failing
	case r.LeaderElection != nil && !r.LeaderElection.Leads:
		return Standby
	default:
		return Starting
	}
}

// watched returns how many streams there are, and how many are watched.
func watched(pipelines []Pipeline) (streams, watching int) {
	for _, p := range pipelines {
		for _, s := range p.Streams {
			if s.State == StreamDegraded {
				continue
			}
			streams++
			if s.State == StreamWatching {
				watching++
			}
		}
	}
	return streams, watching
}

// liveStreams says for a person that all streams are well.
func liveStreams(n int) string {
	switch n {
	case 0:
		return "live: nothing exists yet that the configuration selects"
	case 1:
		return "the stream is live"
	case 2:
		return "both streams are live"
	default:
		return fmt.Sprintf("all %d streams are live", n)
	}
}

// headline names the first of some problems, and counts the others.
func headline(first string, others int) string {
	if others == 0 {
		return first
	}
	return first + ", and " + counted(others, "problem") + " more"
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// sentence returns text with its first letter as that of a sentence; it is in English.
func sentence(text string) string {
	if text == "" || text[0] < 'a' || text[0] > 'z' {
		return text
	}
	return string(text[0]-'a'+'A') + text[1:]
}
