// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// UnknownError says that no pipeline, or no resource of one, is called so.
type UnknownError struct {
	// What is "pipeline" or "resource".
	What, Name string
	Valid      []string
}

// Error implements error.
func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s %q is not this bridge's; valid: %s", e.What, e.Name, strings.Join(e.Valid, ", "))
}

// StartResyncs asks for everything that exists to be published again: of the pipeline, or of all where it is empty; of
// the resources, or of all where none is given. It returns what became of that at once. A resource is named as in the
// configuration, as plural[.version][.group], or by what else the API server calls it, with or without its group; with
// /namespace behind it if need be. The error is an [UnknownError]; then nothing was asked for.
func StartResyncs(pipelines []*Pipeline, pipeline string, resources []string) ([]resyncs.Resync, error) {
	if pipeline != "" {
		i := slices.IndexFunc(pipelines, func(p *Pipeline) bool { return p.cfg.Name == pipeline })
		if i < 0 {
			return nil, unknown("pipeline", pipeline, pipelines, func(p *Pipeline) []string { return []string{p.cfg.Name} })
		}
		pipelines = pipelines[i : i+1]
	}
	chosen := make([][]target, len(pipelines))
	for i, p := range pipelines {
		chosen[i] = p.targets()
	}
	named := func(name string) bool {
		return slices.ContainsFunc(slices.Concat(chosen...), func(t target) bool { return t.called(name) })
	}
	if slices.ContainsFunc(resources, func(name string) bool { return !named(name) }) {
		for i, p := range pipelines {
			p.addNames(chosen[i])
		}
	}
	for _, name := range resources {
		if !named(name) {
			return nil, unknown("resource", name, slices.Concat(chosen...),
				func(t target) []string { return []string{t.names[0]} })
		}
	}
	var all []resyncs.Resync
	for i, p := range pipelines {
		for _, t := range chosen[i] {
			if len(resources) == 0 || slices.ContainsFunc(resources, t.called) {
				all = append(all, p.startResync(t))
			}
		}
	}
	return all, nil
}

func unknown[T any](what, name string, of []T, names func(T) []string) error {
	var valid []string
	for _, one := range of {
		valid = append(valid, names(one)...)
	}
	slices.Sort(valid)
	return &UnknownError{What: what, Name: name, Valid: slices.Compact(valid)}
}

// Resyncs returns what is known of those that ran last, run, and wait.
func Resyncs(pipelines []*Pipeline) []resyncs.Resync {
	var all []resyncs.Resync
	for _, p := range pipelines {
		if s := p.current.Load(); s != nil && p.ended.Load() == nil {
			all = append(all, s.resyncs()...)
		}
	}
	return all
}

func (p *session) resyncs() []resyncs.Resync {
	var all []resyncs.Resync
	for _, s := range p.journal.Opened() {
		s.Resyncer.Resync.Mu.Lock()
		known := s.Resyncer.Resync.All()
		s.Resyncer.Resync.Mu.Unlock()
		for _, r := range known {
			all = append(all, s.Named(r))
		}
	}
	return all
}

// target is what a resync can be of; stream is nil while none is open.
type target struct {
	stream *stream.Stream
	// empty: that is because nothing is selected.
	empty bool
	// names are what it is called: first as in the configuration.
	names []string
}

func (t target) called(name string) bool { return slices.Contains(t.names, strings.ToLower(name)) }

func (p *Pipeline) targets() []target {
	var all []target
	opened := map[*StreamSpec]bool{}
	session := p.current.Load()
	if p.ended.Load() != nil {
		session = nil
	}
	if session != nil {
		for _, s := range session.journal.Opened() {
			opened[s.Spec] = true
			all = append(all, target{stream: s, names: within(s.Namespace, s.Spec.Resource, s.At().Resource.String(),
				s.At().Resource.Resource,
				dotted(s.At().Resource.Resource, s.Group), dotted(s.At().Resource.Resource, s.Version))})
		}
	}
	for _, spec := range p.specs() {
		if !opened[spec] {
			all = append(all, target{
				names: within(spec.Namespace, spec.Resource),
				empty: session != nil && session.entries.selectsNothing(spec),
			})
		}
	}
	return all
}

// addNames adds to open streams what else the API server calls their resources.
func (p *Pipeline) addNames(all []target) {
	if p.cfg.Catalog == nil {
		return
	}
	offers, _ := p.cfg.Catalog.Now()
	for i := range all {
		s := all[i].stream
		if s == nil || offers == nil {
			continue
		}
		if served := offers.Get(s.Group, s.At().Resource.Resource); served != nil {
			for _, name := range served.Names {
				all[i].names = append(all[i].names, within(s.Namespace, name, dotted(name, s.Group))...)
			}
		}
	}
}

func dotted(resource, group string) string { return strings.TrimSuffix(resource+"."+group, ".") }

// within adds the names with a namespace, if there is one.
func within(namespace string, names ...string) []string {
	if namespace == "" {
		return names
	}
	for _, name := range slices.Clone(names) {
		names = append(names, name+"/"+namespace)
	}
	return names
}

// startResync asks for one, unless the stream does not watch.
func (p *Pipeline) startResync(t target) resyncs.Resync {
	s := t.stream
	if t.empty {
		return resyncs.Resync{Pipeline: p.cfg.Name, Stream: t.names[len(t.names)-1], State: resyncs.Empty}
	}
	if s == nil {
		return resyncs.Resync{
			Pipeline: p.cfg.Name, Stream: t.names[len(t.names)-1], State: resyncs.Refused,
			Problem: "it is not open yet; /readyz says why",
		}
	}
	s.Mu.Lock()
	steady := s.Steady()
	s.Mu.Unlock()
	if steady {
		return s.Named(s.Resyncer.Resync.Ask(time.Now()))
	}
	state, problem := s.Status.Now()
	why := "it is " + state.String()
	if state == source.Watching {
		why = "a list of it is not in the log yet"
	}
	if problem != "" {
		why += ": " + problem
	}
	return s.Named(resyncs.Resync{State: resyncs.Refused, Problem: why})
}
