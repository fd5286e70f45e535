// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/header"
)

const (
	// pullMessages and pullBytes bound what is asked for at a time, and so what is held of it.
	pullMessages = 4096
	pullBytes    = 16 << 20
	// pullWait is how long the broker waits for a message that is not there (yet).
	pullWait = time.Second
	// forgetAfter is how long the broker keeps a consumer that is not asked: one that could not be removed.
	forgetAfter = time.Minute
	// occupiedFor is how long such consumers may take the places of new ones.
	occupiedFor = forgetAfter + 15*time.Second
	// refusals is how often a broker may refuse a consumer, for a reason that does not pass, until it is believed.
	refusals = 4

	structured = "application/cloudevents"
)

// reader reads a part of the stream, on one connection after the other. It is used by one goroutine.
type reader struct {
	sink     *Sink
	q        sink.Query
	f        func(*sink.Stored) error
	subjects []string
	data     bool
	// delivered is how many messages the consumer has brought.
	delivered uint64
	// refused is how often, since when, no consumer could be made.
	refused      int
	refusedSince time.Time
	// seen is the sequence up to which nothing is left to do, end the one after which nothing is; 0: not known yet.
	seen, end uint64
}

// errWithData says that the messages are needed with their data.
var errWithData = errors.New("structured messages are needed with their data")

var errMissed = errors.New("a message got lost on the way here")

// read goes on where the last call had to stop.
func (r *reader) read(ctx context.Context) (progress bool, err error) {
	before := r.seen
	err = r.pass(ctx)
	for errors.Is(err, errWithData) {
		r.data = true
		err = r.pass(ctx)
	}
	return r.seen > before, err
}

// pass reads with one consumer.
func (r *reader) pass(ctx context.Context) error {
	s := r.sink
	ctx, cancel := s.broker.call(ctx, nil)
	defer cancel()
	if r.end == 0 {
		if err := r.findEnd(ctx); err != nil || r.end <= r.seen {
			return err
		}
	}
	nc := s.broker.conn.Load()
	js, err := s.broker.jetstream(nc)
	if err != nil {
		return err
	}
	r.delivered = 0
	name, err := r.consumer(ctx, js)
	if err != nil {
		return err
	}
	// The answer is not waited for: when this ends, there may be no time for it.
	defer nc.PublishRequest(s.broker.api()+".CONSUMER.DELETE."+s.cfg.Stream+"."+name, nc.NewInbox(), nil) //nolint:errcheck // the broker forgets it by itself
	if r.q.LastOfKey {
		// What was the last of its key may not be any more: its successor is one that the consumer selects.
		if err := r.findEnd(ctx); err != nil {
			return err
		}
	}
	p := r.puller(nc, s.broker.api()+".CONSUMER.MSG.NEXT."+s.cfg.Stream+"."+name)
	sub, err := nc.ChanSubscribe(p.inbox+".*", p.messages)
	if err != nil {
		return err
	}
	defer sub.Unsubscribe() //nolint:errcheck // it ends with the connection at the latest
	return r.drain(ctx, p)
}

// drain pulls until the end.
func (r *reader) drain(ctx context.Context, p *puller) error {
	for idle := 1; r.seen < r.end; {
		before := r.seen
		err := p.pull(ctx, r.take)
		silent := errors.Is(err, errSilent)
		if err != nil && !silent {
			return r.sink.broker.unanswered(ctx, err)
		}
		if err == nil && r.seen > before {
			idle = 1
			continue
		}
		// Either the last messages were removed since, or this replica does not have them yet.
		last, err := r.lastSequence(ctx)
		if err != nil {
			return err
		}
		if last <= r.seen {
			return nil
		}
		r.end = min(r.end, last)
		if silent {
			return r.sink.broker.silence()
		}
		if err := pause.For(ctx, r.sink.cfg.backoff(idle)); err != nil {
			return r.sink.broker.unanswered(ctx, err)
		}
		idle++
	}
	return nil
}

// take deals with one message, and reports whether there is more.
func (r *reader) take(m *gonats.Msg) (more bool, err error) {
	meta, err := m.Metadata()
	if err != nil {
		return false, err
	}
	if r.delivered++; meta.Sequence.Consumer != r.delivered {
		return false, fmt.Errorf("%w: number %d came as number %d", errMissed, meta.Sequence.Consumer, r.delivered)
	}
	at := meta.Sequence.Stream
	switch {
	case at <= r.seen:
		return true, nil
	case at > r.end:
		r.seen = r.end
		return false, nil
	}
	if natsclient.CoveredByAny(r.sink.cfg.Subjects, m.Subject) {
		st := header.Decode(m.Header, m.Data)
		if !r.data && strings.HasPrefix(st.ContentType, structured) {
			return false, errWithData
		}
		st.Sequence, st.Subject, st.Time = at, m.Subject, meta.Timestamp
		if err := r.f(&st); err != nil {
			return false, &stoppedError{err}
		}
	}
	r.seen = at
	return at < r.end, nil
}

// findEnd sets the end to the last message there is now.
func (r *reader) findEnd(ctx context.Context) (err error) {
	r.end, err = r.lastSequence(ctx)
	return err
}

func (r *reader) lastSequence(ctx context.Context) (last uint64, err error) {
	for _, subject := range r.subjects {
		m, err := r.sink.broker.last(ctx, subject)
		if err != nil {
			return 0, fmt.Errorf("look the last message up: %w", err)
		}
		last = max(last, current(m))
	}
	return last, nil
}

// consumer makes a consumer of what comes after what was seen, and returns its name.
func (r *reader) consumer(ctx context.Context, js jetstream.JetStream) (string, error) {
	cfg := jetstream.ConsumerConfig{
		Description:       "kube-eventbridge reads back what it published",
		AckPolicy:         jetstream.AckNonePolicy,
		DeliverPolicy:     jetstream.DeliverByStartSequencePolicy,
		OptStartSeq:       r.seen + 1,
		HeadersOnly:       !r.data,
		InactiveThreshold: r.forgetAfter(),
		MemoryStorage:     true,
		Replicas:          1,
	}
	if r.q.LastOfKey {
		cfg.DeliverPolicy, cfg.OptStartSeq = jetstream.DeliverLastPerSubjectPolicy, 0
	}
	if len(r.subjects) == 1 {
		cfg.FilterSubject = r.subjects[0]
	} else {
		cfg.FilterSubjects = r.subjects
	}
	ctx, cancel := r.sink.broker.request(ctx)
	defer cancel()
	c, err := js.CreateConsumer(ctx, r.sink.cfg.Stream, cfg)
	if err != nil {
		return "", r.denied(r.sink.broker.unanswered(ctx, err))
	}
	r.refused = 0
	return c.CachedInfo().Name, nil
}

// forgetAfter is how long the broker is to keep a consumer that is not asked, as far as the stream allows it.
func (r *reader) forgetAfter() time.Duration {
	if found := r.sink.stream.seen.Load(); found != nil && found.ConsumerLimits.InactiveThreshold > 0 {
		return min(found.ConsumerLimits.InactiveThreshold, forgetAfter)
	}
	return forgetAfter
}

// denied says why no consumer can be made, and whether to believe that none ever will.
func (r *reader) denied(err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.Code < 400 || api.Code >= 500 || api.Code == 404 || api.Code == 408 {
		return fmt.Errorf("create a consumer: %w", err)
	}
	if r.refused++; r.refused == 1 {
		r.refusedSince = time.Now()
	}
	full := api.ErrorCode == natsclient.CodeMaxConsumers
	if r.refused < refusals || full && time.Since(r.refusedSince) < r.sink.occupied {
		return fmt.Errorf("create a consumer: %w", err)
	}
	advice := "correct the limits of the stream and of the account"
	if full {
		advice = "let it have one consumer more, or remove one that is not needed: nats consumer ls " + r.sink.cfg.Stream
	}
	return &sink.UnusableError{
		Target: "stream " + r.sink.cfg.Stream,
		Reason: "the broker refuses a consumer, which is needed to read back what was published: " + api.Description,
		Advice: advice,
	}
}
