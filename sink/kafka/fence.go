// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// typeStarted is the type of a barrier.
const typeStarted = "io.kube-eventbridge.writer.started.v1"

// barrierKey is what the key of a barrier has between the names of the cluster and of the pipeline.
const barrierKey = "/_/_/_/_writer."

// begin takes the next epoch of the pipeline's producer. Without the permission for its transactional id the producer
// is nobody's, and an older process that is still alive is not refused; where it has to be, that is an
// [sink.UnusableError].
func (s *Sink) begin(ctx context.Context) error {
	p, err := s.client.InitProducer(ctx, s.cfg.transactionalID(), nil)
	if kafka.Forbidden(err) && s.cfg.Fenced {
		return &sink.UnusableError{
			Target: "topic " + s.cfg.Topic,
			Reason: fmt.Sprintf(
				"a former leader could not be fenced: the permission to write to transactional id %s is missing (%v)",
				s.cfg.transactionalID(), err),
			Advice: "allow WRITE on that transactional id, which leaderElection needs",
		}
	}
	if kafka.Forbidden(err) {
		s.cfg.Log.Warn("an older process of this pipeline cannot be fenced: the permission to write to its transactional "+
			"id is missing",
			"transactionalId", s.cfg.transactionalID(), "err", err)
		p, err = s.client.InitProducer(ctx, "", nil)
	} else {
		s.owned = err == nil
	}
	if err != nil {
		return err
	}
	s.take(p)
	return nil
}

// take makes an epoch the producer's. What announces it in all partitions is one event, with one time and one epoch of
// the pipeline.
func (s *Sink) take(p kafka.Producer) {
	s.took.Store(time.Now().UnixNano())
	s.epoch.Store(s.cfg.Epoch())
	s.producer.Store(&p)
}

// renewEvery is how often a producer that runs takes another epoch and writes another barrier. A coordinator forgets a
// transactional id that is not used for transactional.id.expiration.ms, a week by default, and would give the next
// process an id of its own, which fences nobody. A partition forgets the epoch of a producer that does not write to it
// for producer.id.expiration.ms, a day, and would take what an older process sends then.
const renewEvery = 8 * time.Hour

// renew keeps the pipeline's producer known, until ctx ends.
func (s *Sink) renew(ctx context.Context) error {
	for s.owned && pause.For(ctx, renewEvery) == nil {
		if err := s.insistOn(ctx, "producer", s.nextEpoch); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		for _, t := range s.opened() {
			for _, p := range t.partitions {
				p.take(s.announcement(), func(sink.Receipt, error) {})
			}
		}
	}
	return nil
}

// nextEpoch makes the producer's next epoch the one that loads get from now on.
func (s *Sink) nextEpoch(ctx context.Context) error {
	p, err := s.client.InitProducer(ctx, s.cfg.transactionalID(), s.producer.Load())
	switch {
	case err == nil:
		s.take(p)
		return nil
	case kafka.Fenced(err):
		return s.fenced(s.cfg.Topic, err)
	case kafka.Confused(err): // it is forgotten already, and so is whether another process has come since
		return &sink.InterruptedError{Target: "producer " + s.cfg.transactionalID(), Cause: err}
	default:
		return err
	}
}

// fenced says that a newer process publishes.
func (s *Sink) fenced(topic string, cause error) error {
	return &sink.UnusableError{
		Target: "topic " + topic, Reason: fmt.Sprintf("another process publishes for pipeline %s of cluster %s (%v)",
			s.cfg.Pipeline, s.cfg.Cluster, cause),
		Advice:    "run one process for a pipeline of a cluster, or set leaderElection for both",
		Overtaken: true,
	}
}

// barrier writes the first record of this process to a partition: nothing of an older one comes after it.
func (p *partition) barrier(ctx context.Context) error {
	var refused error
	l := p.alone(p.sink.announcement(), func(_ sink.Receipt, err error) { refused = err })
	if err := p.deliver(ctx, l); err != nil {
		return err
	}
	if sink.IsPermanent(refused) {
		return unusable(p.topic.name, fmt.Sprintf("it takes no record of a few hundred bytes: %v", refused),
			"raise its "+settingSize)
	}
	return ctx.Err()
}

// announcement is the event that a writer has started.
func (s *Sink) announcement() *sink.Message {
	p := s.producer.Load()
	seen := time.Unix(0, s.took.Load()).UTC().Format("2006-01-02T15:04:05.000Z07:00")
	key := s.cfg.Cluster + barrierKey + s.cfg.Pipeline
	data := fmt.Appendf(nil, `{"producerId":%d,"producerEpoch":%d,"epoch":%d}`, p.ID, p.Epoch, s.epoch.Load())
	m := &sink.Message{
		Key: key, ID: "writer-started." + strconv.FormatInt(p.ID, 10) + "." + strconv.Itoa(int(p.Epoch)),
		ContentType: "application/json", Data: data,
	}
	m.Attributes = []sink.Attribute{
		{Name: "specversion", Value: "1.0"},
		{Name: "type", Value: typeStarted},
		{Name: "id", Value: m.ID},
		{Name: "source", Value: "/clusters/" + s.cfg.Cluster + "/pipelines/" + s.cfg.Pipeline},
		{Name: "time", Value: seen},
		{Name: "datacontenttype", Value: "application/json"},
		{Name: payloadName, Value: payloadMarker},
		{Name: "pipeline", Value: s.cfg.Pipeline},
		{Name: "clustername", Value: s.cfg.Cluster},
		{Name: "recordedtime", Value: seen},
		{Name: "partitionkey", Value: key},
	}
	if s.cfg.Structured {
		event := map[string]any{"data": json.RawMessage(data)}
		for _, a := range m.Attributes {
			event[a.Name] = a.Value
		}
		m.Attributes, m.ContentType = nil, structured+"+json"
		m.Data, _ = json.Marshal(event) // of strings and of what was just written
	}
	return m
}

// open finds, checks and fences a topic. It may be called again after an error that is not final.
func (s *Sink) open(ctx context.Context, t *topic) error {
	if t.problem != nil {
		return t.problem
	}
	id, n, err := s.find(ctx, t)
	if err != nil {
		return err
	}
	limit, err := s.check(ctx, t)
	if err != nil {
		return err
	}
	if err := s.countable(t.name, n); err != nil {
		return err
	}
	bounds, err := s.client.Bounds(ctx, t.name, n)
	if err != nil {
		return err
	}
	t.id = id
	t.limit.Store(min(limit, largestBatch))
	t.partitions = make([]*partition, n)
	for number := range t.partitions {
		p := newPartition(s, t, number)
		p.next.Store(bounds[p.number].Next)
		t.partitions[number] = p
	}
	s.opening.Store(t) // a topic that is deleted now is found by looking at it: barriers only fail
	defer s.opening.Store(nil)
	barriers, ctx := errgroup.WithContext(ctx)
	barriers.SetLimit(maxBarriers)
	for _, p := range t.partitions {
		barriers.Go(func() error { return p.barrier(ctx) })
	}
	return barriers.Wait() // what is wrong with a barrier is final
}

const (
	// largestBatch is what a batch is filled up to where the topic takes more.
	largestBatch = batch.DefaultLimit
	// maxBarriers is how many barriers are on their way at a time.
	maxBarriers = 16
)
