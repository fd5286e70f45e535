// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// deafLog takes messages that it never stores.
type deafLog struct {
	readableLog
	mu   sync.Mutex
	took []sink.Message
}

func (l *deafLog) Publish(_ context.Context, m *sink.Message, _ sink.Done) {
	l.mu.Lock()
	defer l.mu.Unlock()
	kept := *m
	kept.Attributes = slices.Clone(m.Attributes)
	l.took = append(l.took, kept)
}

func (l *deafLog) taken() []sink.Message {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.took)
}

// The broker has forgotten the ids when the request of a dead process arrives.
func TestMarker_that_a_dead_process_has_sent_is_refused_when_it_arrives_late(t *testing.T) {
	log, store, r, _ := listed(t, "10", "a u1 5")
	r.stopSaved()
	deaf := &deafLog{readableLog: log}
	r, s := startStream(t, deaf, store)
	ctx, cancel := context.WithCancel(t.Context())
	var asks sync.WaitGroup
	asks.Go(func() { _ = s.Note(ctx, source.Progress{Kind: source.Gap, Version: "20", Seen: time.Now()}) })
	must.Happen(t, "the marker", func() bool { return len(deaf.taken()) == 1 })
	cancel()
	asks.Wait()
	_ = r.stop()

	_, s = startStream(t, log, store)
	relist(t, s, "20", "a u1 5")
	want := []string{"snapshot-started 10", "added default/a u1 5 snapshot", "snapshot-completed 10", "gap 20"}
	require.Equal(t, want, log.lines())
	log.forgetIDs()
	late := deaf.taken()[0]
	log.set(func() { _, _ = log.append(&late) })
	assert.Equal(t, want, log.lines())
}

// slowLog takes its time, so that many messages are under way.
type slowLog struct {
	readableLog
	published atomic.Int64
}

func (l *slowLog) Publish(ctx context.Context, m *sink.Message, done sink.Done) {
	l.published.Add(1)
	time.AfterFunc(time.Millisecond, func() { l.readableLog.Publish(ctx, m, done) })
}

func TestMarkers_of_many_streams_at_one_subject_do_not_refuse_each_other(t *testing.T) {
	const streams = 50
	for name, term := range map[string]*Term{"a lease": {Number: 1, Held: t.Context()}, "no lease": nil} {
		t.Run(name, func(t *testing.T) {
			log := &slowLog{readableLog: newReadableLog()}
			r := start(t, log, &memoryStore{})
			r.cfg.Term = term
			var lists errgroup.Group
			for i := range streams {
				spec := &StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: r.cfg.Name}}
				s := must.Get(r.open(spec, source.Stream{Resource: configMaps, Namespace: fmt.Sprint("n", i)}))(t)
				lists.Go(func() error {
					began := s.Note(t.Context(), source.Progress{Kind: source.SnapshotStarted, Version: "10", Seen: time.Now()})
					return errors.Join(began, s.Note(t.Context(), source.Progress{
						Kind: source.Listed, Version: "10", Seen: time.Now(),
					}))
				})
			}
			require.NoError(t, lists.Wait())
			r.settleAndStop()
			assert.Len(t, log.lines(), 2*streams)
			assert.EqualValues(t, 2*streams, log.published.Load(), "markers were published again")
		})
	}
}

// in opens a stream of a namespace.
func (r *rig) in(namespace string) *stream.Stream {
	r.t.Helper()
	spec := &StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: r.cfg.Name}}
	return must.Get(r.open(spec, source.Stream{Resource: configMaps, Namespace: namespace}))(r.t)
}

// The broker refuses the marker of one namespace only.
func TestMarker_that_is_refused_holds_up_no_other_one_at_its_subject(t *testing.T) {
	log := newReadableLog()
	r := start(t, log, &memoryStore{})
	one, two := r.in("one"), r.in("two")
	mine := &delivery.Marker{Marker: source.Marker{Kind: source.MarkerSnapshotStarted, Epoch: 1, To: "10"}}
	log.set(func() { log.refuse = func(m *sink.Message) bool { return m.ID == one.Encoder.MarkerID(mine.Marker) } })
	one.Lists.QueueMarker(mine)
	must.Happen(t, "the refusal", func() bool { return r.delivery.Broker.Problem(nil) != nil })
	snapshot(t, two, "10")
	assert.Zero(t, mine.Place, "the marker is not refused")
}

// Somebody else publishes to the subject, each time before one of the markers.
func TestMarker_that_does_not_come_to_be_the_last_holds_up_no_other_one_at_its_subject(t *testing.T) {
	log := newReadableLog()
	r := start(t, log, &memoryStore{})
	one, two := r.in("one"), r.in("two")
	mine := &delivery.Marker{Marker: source.Marker{Kind: source.MarkerSnapshotStarted, Epoch: 1, To: "10"}}
	tries := 0
	log.set(func() {
		log.refuse = func(m *sink.Message) bool {
			if m.ID == one.Encoder.MarkerID(mine.Marker) {
				tries++
				_, _ = log.append(&sink.Message{ID: fmt.Sprint("foreign-", tries), Subject: m.Subject})
			}
			return false
		}
	})
	one.Lists.QueueMarker(mine)
	must.Happen(t, "the conflicts", func() (contested bool) {
		log.set(func() { contested = tries > delivery.PatientConflicts })
		return contested
	})
	snapshot(t, two, "10")
	log.set(func() { log.refuse = nil })
	r.settle()
}
