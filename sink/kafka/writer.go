// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// typeStarted is the type of a barrier.
const typeStarted = "io.kube-eventbridge.writer.started.v1"

// barrierKey is what the key of a barrier has between the names of the cluster and of the pipeline.
const barrierKey = "/_/_/_/_writer."

// writer is the pipeline's producer, and announces itself.
type writer struct {
	cfg    *Config
	client *kafka.Client
	// owned says that the producer is that of the pipeline's transactional id.
	owned   bool
	current atomic.Pointer[term]
}

// term is an epoch of the producer: when it was taken, and the highest epoch of the pipeline then.
type term struct {
	kafka.Producer
	taken time.Time
	epoch uint64
}

// begin takes the next epoch of the pipeline's producer. Without the permission for its transactional id the producer
// is no writer's, and an older process that is still alive is not refused; where it has to be, that is an
// [sink.UnusableError].
func (w *writer) begin(ctx context.Context) error {
	p, err := w.client.InitProducer(ctx, w.cfg.transactionalID(), nil)
	if kafka.Forbidden(err) && w.cfg.Fenced {
		return &sink.UnusableError{
			Target: "topic " + w.cfg.Topic,
			Reason: fmt.Sprintf(
				"a former leader could not be fenced: the permission to write to transactional id %s is missing (%v)",
				w.cfg.transactionalID(), err),
			Advice: "allow WRITE on that transactional id, which leaderElection needs",
		}
	}
	if kafka.Forbidden(err) {
		w.cfg.Log.Warn("an older process of this pipeline cannot be fenced: the permission to write to its transactional "+
			"id is missing",
			"transactionalId", w.cfg.transactionalID(), "err", err)
		p, err = w.client.InitProducer(ctx, "", nil)
	} else {
		w.owned = err == nil
	}
	if err != nil {
		return err
	}
	w.take(p)
	return nil
}

// take makes an epoch the producer's. What announces it in all partitions is one event, with one time and one epoch of
// the pipeline.
func (w *writer) take(p kafka.Producer) {
	w.current.Store(&term{Producer: p, taken: time.Now(), epoch: w.cfg.Epoch()})
}

// nextEpoch makes the producer's next epoch the one that loads get from now on.
func (w *writer) nextEpoch(ctx context.Context) error {
	p, err := w.client.InitProducer(ctx, w.cfg.transactionalID(), &w.current.Load().Producer)
	switch {
	case err == nil:
		w.take(p)
		return nil
	case kafka.Fenced(err):
		return w.fenced(w.cfg.Topic, err)
	case kafka.Confused(err): // it is forgotten already, and so is whether another process has come since
		return &sink.InterruptedError{Target: "producer " + w.cfg.transactionalID(), Cause: err}
	default:
		return err
	}
}

// fenced says that a newer process publishes.
func (w *writer) fenced(topic string, cause error) error {
	return &sink.UnusableError{
		Target: "topic " + topic, Reason: fmt.Sprintf("another process publishes for pipeline %s of cluster %s (%v)",
			w.cfg.Pipeline, w.cfg.Cluster, cause),
		Advice:    "run one process for a pipeline of a cluster, or set leaderElection for both",
		Overtaken: true,
	}
}

// announcement is the event that a writer has started.
func (w *writer) announcement() *sink.Message {
	p := w.current.Load()
	seen := p.taken.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	key := w.cfg.Cluster + barrierKey + w.cfg.Pipeline
	data := fmt.Appendf(nil, `{"producerId":%d,"producerEpoch":%d,"epoch":%d}`, p.ID, p.Epoch, p.epoch)
	m := &sink.Message{
		Key: key, ID: "writer-started." + strconv.FormatInt(p.ID, 10) + "." + strconv.Itoa(int(p.Epoch)),
		ContentType: "application/json", Data: data,
	}
	m.Attributes = []sink.Attribute{
		{Name: "specversion", Value: "1.0"},
		{Name: "type", Value: typeStarted},
		{Name: "id", Value: m.ID},
		{Name: "source", Value: "/clusters/" + w.cfg.Cluster + "/pipelines/" + w.cfg.Pipeline},
		{Name: "time", Value: seen},
		{Name: "datacontenttype", Value: "application/json"},
		{Name: payloadName, Value: payloadMarker},
		{Name: "pipeline", Value: w.cfg.Pipeline},
		{Name: "clustername", Value: w.cfg.Cluster},
		{Name: "recordedtime", Value: seen},
		{Name: "partitionkey", Value: key},
	}
	if w.cfg.Structured {
		event := map[string]any{"data": json.RawMessage(data)}
		for _, a := range m.Attributes {
			event[a.Name] = a.Value
		}
		m.Attributes, m.ContentType = nil, structured+"+json"
		m.Data, _ = json.Marshal(event) // of strings and of what was just written
	}
	return m
}
