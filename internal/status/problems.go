// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
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
		if len(p.Streams) == 0 || o.Kind != p.Kind || o.Pipeline != p.Pipeline || o.Severity != p.Severity ||
			len(o.Streams) == 0 || p.Kind == Unknown && o.Text != p.Text || p.Kind == Gapped && o.Advice != p.Advice {
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
func (b *builder) sum(r *Report, idle string) {
	failing, streams, live := 0, 0, 0
	for _, p := range r.Problems {
		if p.Severity == Error {
			failing++
		}
	}
	for _, p := range r.Pipelines {
		for _, s := range p.Streams {
			if s.State == StreamDegraded {
				continue
			}
			streams++
			if s.State == StreamWatching {
				live++
			}
		}
	}
	tally := fmt.Sprintf("%d of %s watched", live, counted(streams, "stream"))
	starting := slices.ContainsFunc(r.Pipelines, func(p Pipeline) bool { return p.State == Starting })
	switch {
	case len(r.Pipelines) == 0 && failing > 0:
		r.State, r.Summary = Failing, sentence(idle)
	case len(r.Pipelines) == 0 && r.LeaderElection != nil && !r.LeaderElection.Leads:
		r.State, r.Summary = Standby, sentence(idle)
	case len(r.Pipelines) == 0:
		r.State, r.Summary = Starting, sentence(idle)
	case failing > 0:
		r.State, r.Summary = Failing, headline(r.Problems[0].Title, failing-1)+": "+tally
	case starting:
		r.State, r.Summary = Starting, "Starting: "+tally
	case streams == 0:
		r.State, r.Summary = Live, "Live: nothing exists yet that the configuration selects"
	case streams == 1:
		r.State, r.Summary = Live, "The stream is live"
	case streams == 2:
		r.State, r.Summary = Live, "Both streams are live"
	default:
		r.State, r.Summary = Live, fmt.Sprintf("All %d streams are live", streams)
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
