// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Oversize says what becomes of an event that is larger than the broker takes.
type Oversize uint8

// What may become of it. The zero Oversize is RejectOversize.
const (
	// RejectOversize lets it be refused like anything else that the broker does not take.
	RejectOversize Oversize = iota
	// ReduceOversize publishes it with the object's metadata alone.
	ReduceOversize
	// StoreOversize does that too, and the sink, which has to be a [sink.Keeper], keeps the whole data.
	StoreOversize
)

// reduce finds out what the event is published without, and keeps it where that is asked for. It reports false where
// the object comes back later.
func (p *Deliverer) reduce(ctx context.Context, o *Object) bool {
	a, s := &o.Attempt, o.Stream
	of := s.Account()
	data, err := s.Data(&a.Delta.Change)
	if err != nil {
		return true // what cannot be encoded is rejected
	}
	left := Whole{Size: len(data)}
	if p.Oversize == StoreOversize {
		left.Ref, err = keep(ctx, p.Sink, a.Message.ID, data)
		switch {
		case sink.IsPermanent(err):
			p.refused(o, err)
			return false
		case err != nil:
			p.unkept(ctx, o, err)
			return false
		}
	}
	a.Whole = &left
	of.Metrics.Oversized.Inc()
	of.often.oversized.Do(func() {
		p.Log.Warn("event published without its object", "stream", of.Name, "object", o.Key, "bytes", left.Size, "dataref",
			left.Ref, "err", a.tooLarge)
	})
	return true
}

func keep(ctx context.Context, to sink.Sink, name string, data []byte) (ref string, err error) {
	keeper, ok := to.(sink.Keeper)
	if !ok {
		panic("BUG: the sink keeps nothing")
	}
	if ref, err = keeper.Keep(ctx, name, data); err != nil {
		return "", fmt.Errorf("keep the data of %s: %w", name, err)
	}
	return ref, nil
}

// unkept lets an object wait whose data could not be kept, in sight of log and readiness.
func (p *Deliverer) unkept(ctx context.Context, o *Object, err error) {
	a, s := &o.Attempt, o.Stream
	of := s.Account()
	if ctx.Err() != nil {
		p.again(o, startDelay)
		return
	}
	of.often.unkept.Do(func() {
		p.Log.Warn("what is too large for an event cannot be stored; it is tried again", "stream", of.Name, "object", o.Key,
			"err", err)
	})
	p.block(a, err)
	p.again(o, unkeptDelay)
}
