// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Process is what the process itself knows, besides its pipelines.
type Process struct {
	Version, Commit                string
	Started                        time.Time
	Cluster, ClusterUID, APIServer string
	// File is the configuration's, read at LoadedAt, and Refused is why a newer state of it is not used since
	// RefusedAt.
	File                string
	LoadedAt, RefusedAt time.Time
	Refused             error
	// Start is why the API server has not said yet which cluster this is.
	Start error
	// Election is nil where this is the only process.
	Election *Election
}

// Election is what is known of the lease.
type Election struct {
	Leads            bool
	Identity, Leader string
	Term             int64
	// Err is why the lease could not be read or written the last time.
	// Brokers is why this process could not publish if it led.
	Err, Brokers error
}

// Config says what is reported on. All fields are needed, except those that say otherwise. The functions may be called
// at any time.
type Config struct {
	Process func() Process
	// Pipelines are those that run; none before all have started, and while the process stands by. Idle says why there
	// are none, and whether that is as it should be. Both are nil in a process that only replicates.
	Pipelines func() []*bridge.Pipeline
	Idle      func() (line string, ready bool)
	// Replicas is nil where there are none.
	Replicas func() Replicas
}

// Report returns how the bridge is doing.
func (c *Config) Report() Report {
	b := builder{now: time.Now(), process: c.Process()}
	var of parts
	if c.Pipelines != nil {
		of.publishes = true
		for _, p := range c.Pipelines() {
			of.pipelines = append(of.pipelines, p.State())
		}
		if len(of.pipelines) == 0 {
			of.idle, of.idleReady = c.Idle()
		}
	}
	if c.Replicas != nil {
		all := c.Replicas()
		of.replicas, of.election = all.states(), all.Election
	}
	return b.report(&of)
}

// parts are what a process is made of.
type parts struct {
	// publishes: the process has pipelines, although none may run. Idle says why none does, and idleReady whether that
	// is as it should be.
	publishes bool
	pipelines []bridge.State
	idle      string
	idleReady bool
	replicas  []replicaState
	// election is that of the replicas.
	election *Election
}

// builder makes one report.
type builder struct {
	now      time.Time
	process  Process
	problems problems
}

func (b *builder) report(of *parts) Report {
	p := &b.process
	r := Report{
		Version: p.Version, Commit: p.Commit, Time: b.now.UTC(), Started: p.Started.UTC(),
		Cluster: p.Cluster, ClusterUID: p.ClusterUID, APIServer: inert.Line(p.APIServer),
		Configuration: Configuration{File: p.File, LoadedAt: utc(p.LoadedAt)},
		Pipelines:     []Pipeline{}, Ready: true,
	}
	b.ofProcess(&r)
	for i := range of.pipelines {
		pipeline := b.pipeline(&of.pipelines[i])
		r.Ready = r.Ready && pipeline.Ready
		r.Pipelines = append(r.Pipelines, pipeline)
	}
	if of.publishes && len(of.pipelines) == 0 {
		r.Ready = of.idleReady
	}
	for i := range of.replicas {
		one := b.replica(&of.replicas[i], of.election, cmp.Or(r.Cluster, r.APIServer))
		r.Ready = r.Ready && (one.Ready || of.publishes)
		r.Replicas = append(r.Replicas, one)
	}
	r.Problems = b.problems.sorted()
	sum(&r, of)
	return r
}

// ofProcess tells what is no pipeline's.
func (b *builder) ofProcess(r *Report) {
	p := &b.process
	if p.Refused != nil {
		r.Configuration.LastError = &PastError{
			At: utc(p.RefusedAt), Kind: ConfigurationFailed, Text: inert.Line(p.Refused.Error()),
			Advice: adviceOf(ConfigurationFailed, p.File),
		}
		b.problems.add(Problem{
			Severity: Warning, Kind: ConfigurationFailed, Since: utc(p.RefusedAt),
			Text: inert.Line(p.Refused.Error()), Advice: adviceOf(ConfigurationFailed, p.File),
		})
	}
	if p.Start != nil {
		b.failed(atStream, Problem{Severity: Error}, p.Start)
	}
	e := p.Election
	if e == nil {
		return
	}
	r.LeaderElection = &LeaderElection{Leads: e.Leads, Identity: e.Identity, Leader: e.Leader}
	if e.Leads {
		r.LeaderElection.Term = e.Term
	}
	if e.Err != nil {
		r.LeaderElection.Error = inert.Line(e.Err.Error())
		b.failed(atLease, Problem{Severity: Error}, e.Err)
	}
	if e.Brokers != nil && !e.Leads {
		b.problems.add(Problem{
			Severity: Warning, Kind: StandbyTrouble, Text: inert.Line(e.Brokers.Error()),
			Advice: adviceOf(StandbyTrouble, p.File),
		})
	}
}

// failed adds a problem whose kind the error tells.
func (b *builder) failed(at place, p Problem, err error) {
	p.Kind, p.Advice = diagnose(at, err, b.process.File)
	p.Text = inert.Line(err.Error())
	p.Since = utc(p.Since)
	b.problems.add(p)
}

// counted adds a problem of a kind.
func (b *builder) counted(p Problem) {
	if p.Advice == "" {
		p.Advice = adviceOf(p.Kind, b.process.File)
	}
	p.Since = utc(p.Since)
	b.problems.add(p)
}

func (b *builder) pipeline(st *bridge.State) Pipeline {
	before := b.problems.errors
	if st.Ended.Err != nil {
		return b.ended(st)
	}
	p := Pipeline{
		Name: st.Name, Sink: st.Target, Ready: st.Ready, Started: utc(st.Began),
		Buffer:                 Buffer{Events: st.BufferedEvents, Bytes: st.BufferedBytes, LimitBytes: st.BufferBytes},
		OldestUnsettledSeconds: seconds(st.Unmet), Streams: []Stream{},
	}
	for _, line := range st.Unready {
		p.NotReady = append(p.NotReady, inert.Line(line))
	}
	p.Broker = b.broker(st)
	p.Checkpoint = b.checkpoint(st)
	b.rest(st, &p)
	starting := st.Began.IsZero()
	for i := range st.Streams {
		s := b.stream(st, &st.Streams[i])
		starting = starting || s.State != StreamWatching && s.State != StreamDegraded
		p.Objects += s.Objects
		p.PublishedTotal += s.PublishedTotal
		p.EventsPerSecond = rounded(p.EventsPerSecond + s.EventsPerSecond)
		p.OldestUnsettledSeconds = max(p.OldestUnsettledSeconds, s.OldestUnsettledSeconds)
		p.Streams = append(p.Streams, s)
	}
	slices.SortStableFunc(p.Streams, func(a, b Stream) int { return cmp.Compare(a.Name, b.Name) })
	switch {
	case b.problems.errors > before:
		p.State = Failing
	case starting:
		p.State = Starting
	default:
		p.State = Live
	}
	return p
}

// ended tells of a pipeline that does not run any more.
func (b *builder) ended(st *bridge.State) Pipeline {
	p := Pipeline{
		Name: st.Name, Sink: st.Target, State: Failing, Streams: []Stream{},
		Buffer: Buffer{LimitBytes: st.BufferBytes},
	}
	for _, line := range st.Unready {
		p.NotReady = append(p.NotReady, inert.Line(line))
	}
	b.counted(Problem{
		Severity: Error, Kind: PipelineEnded, Pipeline: st.Name, Since: st.Ended.At, Text: inert.Line(st.Ended.Err.Error()),
	})
	return p
}

// startTime is how long a pipeline that starts may take to reach its broker before that is a problem.
const startTime = 3 * time.Second

func (b *builder) broker(st *bridge.State) Broker {
	br := &st.Broker
	of := Problem{Severity: Error, Pipeline: st.Name, Since: br.Since}
	switch {
	case errors.Is(br.Err, sink.ErrNotRunning) && (st.Checkpoint.Err != nil || st.Checkpoint.Saved.IsZero()):
		return Broker{} // nothing runs before the checkpoint is read
	case br.Err != nil:
		if br.Reached || b.now.Sub(st.Began) > startTime {
			b.failed(atBroker, of, br.Err)
		}
		return Broker{Error: inert.Line(br.Err.Error()), Since: utc(br.Since)}
	case br.Refused != nil:
		b.failed(atBroker|atRefusal, of, br.Refused)
		return Broker{Error: inert.Line(br.Refused.Error())}
	case br.Blocked != nil:
		of.Kind, of.Text = SubjectRefused, inert.Line(br.Blocked.Error())
		b.counted(of)
		return Broker{Error: of.Text}
	default:
		return Broker{OK: !st.Began.IsZero()}
	}
}

func (b *builder) checkpoint(st *bridge.State) Checkpoint {
	c := Checkpoint{Since: utc(st.Checkpoint.Since)}
	if at := st.Checkpoint.Saved; !at.IsZero() {
		age := seconds(b.now.Sub(at))
		c.AgeSeconds = &age
	}
	if err := st.Checkpoint.Err; err != nil {
		c.Error = inert.Line(err.Error())
		b.failed(atCheckpoint, Problem{Severity: Error, Pipeline: st.Name, Since: st.Checkpoint.Since}, err)
	}
	return c
}

const (
	// recent is for how long what is over stays a problem.
	recent = time.Hour
	// lag is how old the oldest change may be that the log does not have, where nothing else is wrong.
	lag = 30 * time.Second
)

// rest tells of a pipeline's buffer, log and resyncs.
func (b *builder) rest(st *bridge.State, p *Pipeline) {
	if st.BufferedBytes > st.BufferBytes/10*9 && st.BufferBytes > 0 {
		text := "the buffer is full"
		if st.DeletedBytes > st.BufferedBytes/2 {
			text += ", mostly of what is held of deleted objects: an event is not acknowledged, or the checkpoint is not saved"
		}
		b.counted(Problem{Severity: Warning, Kind: BufferFull, Pipeline: st.Name, Text: text})
	}
	if l := st.Loss; l.Err != nil {
		p.LastLoss = &PastError{
			At: utc(l.At), Kind: LogLoss, Text: inert.Line(l.Err.Error()),
			Advice: adviceOf(LogLoss, b.process.File),
		}
		if b.now.Sub(l.At) < recent {
			b.counted(Problem{Severity: Warning, Kind: LogLoss, Pipeline: st.Name, Since: l.At, Text: inert.Line(l.Err.Error())})
		}
	}
	if w := st.Writer; w.Err != nil {
		p.LastWriter = &PastError{
			At: utc(w.At), Kind: OtherWriter, Text: inert.Line(w.Err.Error()), Advice: adviceOf(OtherWriter, b.process.File),
		}
		if b.now.Sub(w.At) < recent {
			b.counted(Problem{
				Severity: Warning, Kind: OtherWriter, Pipeline: st.Name, Since: w.At,
				Text: inert.Line(w.Err.Error()),
			})
		}
	}
	for _, r := range st.Resyncs {
		p.Resyncs = append(p.Resyncs, Resync{Stream: r.Stream, Objects: r.Objects, Listed: r.Listed, Published: r.Published})
	}
}

func (b *builder) stream(p *bridge.State, st *bridge.StreamState) Stream {
	s := Stream{
		Name: st.Name, Resource: st.Name, Namespace: st.Namespace, LabelSelector: st.LabelSelector,
		FieldSelector: st.FieldSelector,
		State:         stateOf(st), Since: utc(st.Since), Objects: st.Objects, RefusedObjects: st.Refused,
		PublishedTotal: st.Published, EventsPerSecond: rounded(st.PerSecond),
		LastEventAt: utc(st.LastEvent), OldestUnsettledSeconds: seconds(st.Unsettled), Position: st.Position,
	}
	if st.Namespace != "" {
		s.Resource = strings.TrimSuffix(st.Name, "/"+st.Namespace)
	}
	of := Problem{Pipeline: p.Name, Streams: []string{st.Name}}
	if st.Err != nil {
		of.Severity, of.Since = Error, st.Failing
		if st.Degraded {
			of.Severity = Warning
		}
		b.failed(atStream, of, st.Err)
	}
	if st.Err == nil && st.Unsettled > lag && p.Broker.Err == nil && p.Broker.Refused == nil && p.Broker.Blocked == nil {
		b.counted(Problem{
			Severity: Warning, Kind: Unsettled, Pipeline: of.Pipeline, Streams: of.Streams, Since: b.now.Add(-st.Unsettled),
			Text: "changes that are not in the log for more than half a minute",
		})
	}
	if st.Refused > 0 {
		of.Severity, of.Kind, of.Since, of.Text = Warning, SubjectRefused, time.Time{}, refused(st, p.Broker.Refused == nil)
		b.counted(of)
	}
	b.past(&s, of, &st.Past)
	return s
}

// refused tells of objects of which the broker takes nothing, and whether it takes others.
func refused(st *bridge.StreamState, others bool) string {
	text := fmt.Sprintf("the broker takes nothing of %d objects", st.Refused)
	if others {
		text += "; the others go on"
	}
	if st.Refusal.Err != nil {
		text += ", such as " + inert.Line(st.Refusal.Object) + ": " + inert.Line(st.Refusal.Err.Error())
	}
	return text
}

// past tells what happened to a stream last; of says whose it is.
func (b *builder) past(s *Stream, of Problem, p *health.Past) {
	of.Severity = Warning
	if f := p.Failure; f.Err != nil {
		kind, advice := diagnose(atStream, f.Err, b.process.File)
		s.LastError = &PastError{
			At: utc(f.At), ClearedAt: utc(p.Cleared), Kind: kind, Text: inert.Line(f.Err.Error()),
			Advice: advice,
		}
	}
	if g := p.Gap; !g.At.IsZero() {
		s.LastGap = &Gap{
			At: utc(g.At), From: g.From, To: g.To, Cause: g.Cause, Reason: inert.Line(g.Message),
			Advice: adviceOnGap(source.Cause(g.Cause)),
		}
		if b.now.Sub(g.At) < recent {
			of.Kind, of.Since, of.Text = Gapped, g.At, s.LastGap.text()
			of.Advice = s.LastGap.Advice
			b.counted(of)
		}
	}
	if r := p.Rejection; r.Err != nil {
		s.LastRejection = &Rejection{
			At: utc(r.At), Object: inert.Line(r.Object), Total: p.Rejections, Text: inert.Line(r.Err.Error()),
			Advice: adviceOf(Rejected, b.process.File),
		}
		if b.now.Sub(r.At) < recent {
			of.Kind, of.Since, of.Text = Rejected, r.At, "event of "+s.LastRejection.Object+" rejected: "+s.LastRejection.Text
			of.Advice = s.LastRejection.Advice
			b.counted(of)
		}
	}
}

func stateOf(st *bridge.StreamState) StreamState {
	switch {
	case st.Degraded:
		return StreamDegraded
	case st.Err != nil && st.Open:
		return StreamWaiting
	case st.Doing == source.Waiting:
		return StreamWaiting
	case st.Live:
		return StreamWatching
	case st.Doing == source.Listing, st.Doing == source.Watching:
		return StreamListing
	default:
		return StreamStarting
	}
}

func seconds(d time.Duration) float64 { return rounded(d.Seconds()) }

// rounded returns n with three digits behind the point.
func rounded(n float64) float64 { return math.Round(n*1000) / 1000 }

// utc returns a time as it is told; none stays none.
func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC().Truncate(time.Millisecond)
}
