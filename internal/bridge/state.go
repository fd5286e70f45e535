// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/resyncs"
)

// State is how a pipeline is doing at a moment. Errors are as the log has them: they hold no values of Secrets.
type State struct {
	Name, Target string
	// Ready and Unready are what /readyz says of the pipeline.
	Ready   bool
	Unready []string
	// Began is when it started from its checkpoint last; zero before that.
	Began time.Time
	// Ended is why it does not run any more; zero while it does. Then nothing else is told of it but its name.
	Ended      health.Event
	Broker     health.BrokerState
	Checkpoint CheckpointState
	// BufferedEvents and BufferedBytes are held between the API server and the acknowledgement, of at most BufferBytes.
	// DeletedBytes of them are held of objects that do not exist any more, others of previous states.
	BufferedEvents, BufferedBytes, BufferBytes, DeletedBytes int64
	// Unmet is how long what was published before has been waiting for the end of the log to be read; zero where it
	// was.
	Unmet time.Duration
	// Loss is the last time that the log was seen to have lost what it had acknowledged.
	Loss health.Event
	// Writer is the last time that another process was seen to publish as the pipeline.
	Writer health.Event
	// Resyncs are those that run.
	Resyncs []resyncs.Resync
	// Streams are those that are open, in the order in which they were opened, and then what is configured and not open
	// yet.
	Streams []StreamState
}

// CheckpointState is how a pipeline's checkpoint is doing.
type CheckpointState struct {
	// Saved is when it was saved last; zero before it was read.
	Saved time.Time
	// Err is why it cannot be read or saved now, Since when; nil: it can, or is being read for the first time.
	Err   error
	Since time.Time
}

// State returns how the pipeline is doing.
func (p *Pipeline) State() State {
	if e := p.ended.Load(); e != nil {
		return State{Name: p.cfg.Name, Target: p.cfg.Target, Unready: p.unready(), BufferBytes: p.cfg.Buffer, Ended: *e}
	}
	s := p.current.Load()
	if s == nil {
		st := State{Name: p.cfg.Name, Target: p.cfg.Target, Unready: p.unready(), BufferBytes: p.cfg.Buffer}
		for _, spec := range p.specs() {
			st.Streams = append(st.Streams, unopened(spec, nil))
		}
		return st
	}
	return s.now(time.Now())
}

func (p *session) now(now time.Time) State {
	gone := p.budget.Gone()
	st := State{
		Name: p.cfg.Name, Target: p.cfg.Target, Began: p.began, Unready: p.unready(),
		BufferedEvents: p.budget.Count(), BufferedBytes: p.budget.Bytes(), DeletedBytes: gone,
		BufferBytes: p.budget.Limit(),
		Loss:        p.incidents.Loss(), Writer: p.incidents.Writer(),
	}
	st.Ready = len(st.Unready) == 0
	st.Broker = p.delivery.Broker.State(p.sink.Ready())
	if since, cause := p.delivery.Broker.Failing(); cause != nil && st.Broker.Err == nil {
		st.Broker.Since, st.Broker.Refused = since, cause
	}
	st.Checkpoint = p.checkpointState()
	for _, age := range p.unmet() {
		st.Unmet = max(st.Unmet, age)
	}
	for _, r := range p.resyncs() {
		if r.State == resyncs.Running {
			st.Resyncs = append(st.Resyncs, r)
		}
	}
	opened := map[*StreamSpec]bool{}
	for _, s := range p.journal.Opened() {
		opened[s.Spec] = true
		st.Streams = append(st.Streams, s.Report(now))
	}
	for _, spec := range p.entries.all() {
		if !opened[spec] || spec.Wildcard != nil || spec.NamespaceSelector != nil {
			if err, missing := p.entries.missing(spec); missing {
				st.Streams = append(st.Streams, unopened(spec, err))
			}
		}
	}
	return st
}

func (p *session) checkpointState() (st CheckpointState) {
	st.Saved = p.journal.Saved()
	st.Since, st.Err = p.journal.Problem()
	return st
}

// unopened is the state of what is configured and not open.
func unopened(spec *StreamSpec, why error) StreamState {
	names := within(spec.Namespace, spec.Resource)
	return StreamState{
		Name: names[len(names)-1], Namespace: spec.Namespace, LabelSelector: spec.LabelSelector,
		FieldSelector: spec.FieldSelector, Err: why,
	}
}

// Named implements health.Gauged.
func (p *Pipeline) Named() (name string, ended bool) { return p.cfg.Name, p.ended.Load() != nil }

// Gauges implements health.Gauged.
func (p *Pipeline) Gauges() health.Gauges {
	s := p.current.Load()
	if s == nil {
		return health.Gauges{}
	}
	return s.gauges()
}

func (p *session) gauges() health.Gauges {
	gone := p.budget.Gone()
	g := health.Gauges{
		Running: true, Buffered: p.budget.Bytes(), Deleted: gone, Limit: p.budget.Limit(), Ready: p.delivery.Broker.Takes(),
		Events: p.budget.Count(), Queued: int64(p.delivery.Len()), Refused: p.refusals.Load(), Unmet: p.unmet(),
		Saved: p.journal.Saved(),
	}
	for _, s := range p.journal.Opened() {
		g.Streams = append(g.Streams, s.Gauges())
	}
	return g
}
