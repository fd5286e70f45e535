// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeLog is a broker that deduplicates ids, checks the last message of a key, and fails as it is told to. It answers
// from goroutines of its own, in any order.
type fakeLog struct {
	mu     sync.Mutex
	log    []sink.Stored
	byID   map[string]int
	last   map[string]int
	id     string   // of the log itself
	at     []string // the messages' subjects
	first  int      // place of the first message that retention has left; 0 is 1
	faults func() fault
	wg     sync.WaitGroup
	// refuse makes a message permanently unacceptable.
	refuse func(m *sink.Message) bool
	// fails makes the broker answer a message with an error that may pass.
	fails func(m *sink.Message) bool
	// limit is how many bytes of data it takes; 0: any number.
	limit int
	// gate holds messages back until it is closed; markers too, unless ungated.
	gate    chan struct{}
	ungated bool
	// unusable is what Run finds wrong with the log, away why it cannot be reached.
	unusable, away error
	// end ends Run with what it is sent.
	end chan error
	// flying counts the unacknowledged messages of each subject, most is the most there were of one.
	flying map[string]int
	most   int
	// stored, if not nil, is called for each message. Acknowledging, if not nil, is called for each message that is in
	// the log, before the publisher is told.
	stored        func()
	acknowledging func(id string)
}

type fault uint8

const (
	noFault fault = iota
	lostRequest
	lostAnswer
)

func newFakeLog() *fakeLog {
	return &fakeLog{
		flying: map[string]int{}, end: make(chan error), byID: map[string]int{}, last: map[string]int{},
		faults: func() fault { return noFault },
	}
}

func (l *fakeLog) Run(ctx context.Context) error {
	if l.unusable != nil {
		return l.unusable
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-l.end:
		return err
	}
}

func (l *fakeLog) Ready() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.away
}

// set changes the log while it is used.
func (l *fakeLog) set(change func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change()
}

// hold holds messages back until the gate is closed.
func (l *fakeLog) hold() (gate chan struct{}) {
	gate = make(chan struct{})
	l.set(func() { l.gate = gate })
	return gate
}

func (l *fakeLog) Publish(ctx context.Context, m *sink.Message, done sink.Done) {
	subject := m.Subject
	l.mu.Lock()
	gate := l.gate
	if m.Everywhere && l.ungated {
		gate = nil
	}
	l.flying[subject]++
	l.most = max(l.most, l.flying[subject])
	l.mu.Unlock()
	l.wg.Go(func() {
		if gate != nil {
			select {
			case <-gate:
			case <-ctx.Done():
			}
			if err := ctx.Err(); err != nil { // also where both are true
				done(sink.Receipt{}, err)
				return
			}
		}
		id := m.ID
		r, err := l.store(m)
		l.mu.Lock()
		acknowledging := l.acknowledging
		l.mu.Unlock()
		if acknowledging != nil && err == nil {
			acknowledging(id)
		}
		done(r, err)
	})
}

func (l *fakeLog) store(m *sink.Message) (sink.Receipt, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flying[m.Subject]--
	if l.refuse != nil && l.refuse(m) {
		return sink.Receipt{}, sink.Permanent(errors.New("too large"))
	}
	if l.fails != nil && l.fails(m) {
		return sink.Receipt{}, errors.New("insufficient storage resources available")
	}
	if l.limit > 0 && len(m.Data) > l.limit {
		return sink.Receipt{}, fmt.Errorf("publish: %w", sink.TooLarge(fmt.Errorf("%d bytes", len(m.Data))))
	}
	if l.stored != nil {
		l.stored()
	}
	f := l.faults()
	if f == lostRequest {
		return sink.Receipt{}, errors.New("connection lost")
	}
	r, err := l.append(m)
	if f == lostAnswer {
		return sink.Receipt{}, errors.New("no answer")
	}
	return r, err
}

func (l *fakeLog) append(m *sink.Message) (sink.Receipt, error) {
	if at, ok := l.byID[m.ID]; ok {
		if last := l.lastOf(m.Subject); at != last && !m.Shared && !m.Everywhere {
			c := &sink.ConflictError{Duplicate: uint64(at)}
			if last > 0 {
				c.Last = &l.log[last-1]
			}
			return sink.Receipt{}, c
		}
		return sink.Receipt{Sequence: uint64(at), Duplicate: true}, nil
	}
	if m.Verify && !m.Shared && l.lastOf(m.Subject) != int(m.Previous) {
		c := &sink.ConflictError{}
		if at := l.lastOf(m.Subject); at > 0 {
			s := l.log[at-1]
			if s.ID == m.ID {
				return sink.Receipt{Sequence: s.Sequence, Duplicate: true}, nil
			}
			c.Last = &s
		}
		return sink.Receipt{}, c
	}
	at := len(l.log) + 1
	l.log = append(l.log, sink.Stored{
		Sequence: uint64(at), ID: m.ID, Attributes: append([]sink.Attribute(nil), m.Attributes...),
		ContentType: m.ContentType, Data: append([]byte(nil), m.Data...),
	})
	l.byID[m.ID], l.last[m.Subject] = at, at
	l.at = append(l.at, m.Subject)
	return sink.Receipt{Sequence: uint64(at)}, nil
}

// lastOf returns the place of the last message of a subject; 0 is none.
func (l *fakeLog) lastOf(subject string) int {
	if at := l.last[subject]; at >= l.first {
		return at
	}
	return 0
}

// trim is what retention does: the log has nothing before a place any more.
func (l *fakeLog) trim(first int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.first = max(l.first, first)
}

// forgetIDs is what happens when the window for duplicates has passed.
func (l *fakeLog) forgetIDs() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.byID = map[string]int{}
}

func attribute(s *sink.Stored, name string) string {
	for _, a := range s.Attributes {
		if a.Name == name {
			return a.Value
		}
	}
	return ""
}

// lines returns what the log says, one word list an event: "added default/a 3 watch".
func (l *fakeLog) lines() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for i := range l.log {
		s := &l.log[i]
		parts := strings.Split(strings.TrimSuffix(attribute(s, "type"), ".v1"), ".")
		words := []string{parts[len(parts)-1]}
		for _, name := range []string{"subject", "objectuid", "resourceversion", "reason", "sampledrate"} {
			if v := attribute(s, name); v != "" {
				words = append(words, v)
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// memoryStore is a store that forgets with the process.
type memoryStore struct {
	mu    sync.Mutex
	state checkpoint.State
	fail  error
}

func (s *memoryStore) Load(context.Context) (*checkpoint.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := &checkpoint.State{
		Identity: s.state.Identity, Log: s.state.Log, Streams: map[string]checkpoint.Stream{},
		Rows: map[string]map[string]checkpoint.Row{},
	}
	for name, at := range s.state.Streams {
		out.Streams[name] = at
	}
	for name, rows := range s.state.Rows {
		out.Rows[name] = map[string]checkpoint.Row{}
		for key, row := range rows {
			row.Fresh = false
			out.Rows[name][key] = row
		}
	}
	return out, nil
}

// copied returns a store that knows what s knows: a second process has the same epochs then.
func (s *memoryStore) copied(t *testing.T) *memoryStore {
	return &memoryStore{state: *must.Get(s.Load(t.Context()))(t)}
}

func (s *memoryStore) Commit(_ context.Context, b *checkpoint.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	if s.state.Streams == nil {
		s.state = checkpoint.State{Streams: map[string]checkpoint.Stream{}, Rows: map[string]map[string]checkpoint.Row{}}
	}
	for _, name := range b.Forget {
		delete(s.state.Streams, name)
		delete(s.state.Rows, name)
	}
	if b.Log != nil {
		s.state.Log = *b.Log
	}
	for name, at := range b.Streams {
		s.state.Streams[name] = at
	}
	for name, rows := range b.Put {
		if s.state.Rows[name] == nil {
			s.state.Rows[name] = map[string]checkpoint.Row{}
		}
		for key, row := range rows {
			s.state.Rows[name][key] = row
		}
	}
	for name, keys := range b.Drop {
		for _, key := range keys {
			delete(s.state.Rows[name], key)
		}
	}
	return nil
}

var configMaps = source.Resource{Version: "v1", Resource: "configmaps", Kind: "ConfigMap", Namespaced: true}

// rig is a pipeline whose streams a test feeds by hand.
type rig struct {
	*session
	pipeline *Pipeline
	t        *testing.T
	registry *prometheus.Registry
	stop     func() error
}

func start(t *testing.T, to sink.Sink, store checkpoint.Store) *rig {
	t.Helper()
	return startOf(t, to, store, StreamSpec{})
}

// startStream starts a pipeline with one stream.
func startStream(t *testing.T, to sink.Sink, store checkpoint.Store) (*rig, *stream.Stream) {
	t.Helper()
	r := start(t, to, store)
	return r, r.stream(nil)
}

// startNew is startStream with an empty log, without a checkpoint.
func startNew(t *testing.T, spec *StreamSpec) (*fakeLog, *rig, *stream.Stream) {
	t.Helper()
	log := newFakeLog()
	r := start(t, log, &memoryStore{})
	return log, r, r.stream(spec)
}

// listed is startStream with a log that can be read, after a first list.
func listed(t *testing.T, version string, objects ...string) (readableLog, *memoryStore, *rig, *stream.Stream) {
	t.Helper()
	log, store := newReadableLog(), &memoryStore{}
	r, s := startStream(t, log, store)
	snapshot(t, s, version, objects...)
	return log, store, r, s
}

// stopSaved stops a pipeline that has saved everything.
func (r *rig) stopSaved() {
	r.t.Helper()
	require.NoError(r.t, r.journal.Save(r.t.Context()))
	_ = r.stop()
}

// startOf starts a pipeline of specs.
func startOf(t *testing.T, to sink.Sink, store checkpoint.Store, specs ...StreamSpec) *rig {
	t.Helper()
	for i := range specs {
		specs[i].Encoding = encode.Config{Cluster: "test", Pipeline: "test"}
	}
	registry := prometheus.NewRegistry()
	pipeline := New(Config{
		Name: "test", Identity: checkpoint.Identity{Cluster: "test", Pipeline: "test"}, Store: store, Buffer: 1 << 20,
		Metrics: health.NewMetrics(registry),
		Sink:    func(func() uint64) (sink.Sink, error) { return to, nil }, Streams: specs,
	})
	p := newSession(pipeline, to)
	pipeline.current.Store(p)
	p.delivery.Broker.Retrier = sink.Retry(to, sink.Policy{
		Initial: 100 * time.Microsecond, Max: time.Millisecond,
		OnRetry: func(_ *sink.Message, cause error) { p.delivery.Broker.SayRefused(cause) },
	})
	p.delivery.Publisher = p.delivery.Broker.Retrier
	require.NoError(t, p.journal.Load(t.Context()))
	require.NoError(t, p.meetLog(t.Context()))
	close(p.met)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	var group sync.WaitGroup
	group.Go(func() { _ = to.Run(ctx) })
	group.Go(func() { _ = p.delivery.Broker.Retrier.Run(ctx) })
	for range workers {
		group.Go(func() { p.delivery.Work(ctx) })
		group.Go(func() { p.delivery.WorkAside(ctx) })
	}
	r := &rig{session: p, pipeline: pipeline, t: t, registry: registry}
	r.stop = sync.OnceValue(func() error {
		p.delivery.ShutDown()
		cancel()
		group.Wait()
		switch log := to.(type) {
		case *fakeLog:
			log.wg.Wait()
		case readableLog:
			log.wg.Wait()
		}
		return nil
	})
	t.Cleanup(func() { _ = r.stop() })
	return r
}

func (r *rig) stream(spec *StreamSpec) *stream.Stream {
	if spec == nil {
		spec = &StreamSpec{}
	}
	spec.Encoding.Cluster, spec.Encoding.Pipeline = "test", r.cfg.Name
	s := must.Get(r.open(spec, source.Stream{Resource: configMaps, LabelSelector: spec.LabelSelector}))(r.t)
	require.NoError(r.t, r.journal.Commit(r.t.Context()), "no event may carry an epoch that is not durable")
	return s
}

// send feeds one change as a watch or a list would.
func send(t *testing.T, s *stream.Stream, op source.Op, name, uid, version string, reason source.Reason) {
	t.Helper()
	body := source.NewBody([]byte(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"` + name +
		`","namespace":"default","uid":"` + uid +
		`","resourceVersion":"` + version + `"}}`))
	at := version
	if reason != source.ReasonWatch {
		at = ""
	}
	ticket := must.Get(s.Admit(t.Context(), at, len(body.Bytes())))(t)
	s.Deliver(source.Change{
		Op: op, Ident: source.Ident{Namespace: "default", Name: name, UID: uid, ResourceVersion: version},
		Body: body, Reason: reason, Listed: at == "", Seen: time.Now(), Ticket: ticket, Size: len(body.Bytes()),
	})
}

// settle waits until everything that was sent is in the log.
func (r *rig) settle() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), time.Minute)
	defer cancel()
	require.NoError(r.t, r.delivery.InFlight.Wait(ctx), "%d objects are still not published", r.delivery.InFlight.Count())
}

// settleAndStop also stops the pipeline, which saves nothing.
func (r *rig) settleAndStop() {
	r.t.Helper()
	r.settle()
	_ = r.stop()
}

func note(t *testing.T, s *stream.Stream, p source.Progress) {
	t.Helper()
	p.Seen = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, s.Note(ctx, p))
}

// flaky loses requests and answers at random.
func flaky(seed uint64) func() fault {
	r := rand.New(rand.NewPCG(seed, 1))
	return func() fault { return fault(max(0, r.IntN(12)-9)) }
}
