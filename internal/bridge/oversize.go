// SPDX-License-Identifier: Apache-2.0

package bridge

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

// whole is the data that an event is published without: how large it is, and where, if anywhere.
type whole struct {
	size int
	ref  string
}

// reducible reports whether what the broker refused because of err is to be published without its object.
func (p *session) reducible(a *attempt, err error) bool {
	return p.cfg.Oversize != RejectOversize && a.marker == nil && a.rejected == nil && a.tooLarge == nil &&
		sink.IsTooLarge(err)
}

// reduce finds out what the event is published without, and keeps it where that is asked for. It reports false where
// the object comes back later.
func (p *session) reduce(ctx context.Context, o *object) bool {
	a, s := &o.attempt, o.stream
	data, err := s.encoder.Data(&a.delta.Change)
	if err != nil {
		return true // what cannot be encoded is rejected
	}
	left := whole{size: len(data)}
	if p.cfg.Oversize == StoreOversize {
		left.ref, err = p.keep(ctx, a.message.ID, data)
		switch {
		case sink.IsPermanent(err):
			p.refused(o, err)
			return false
		case err != nil:
			p.unkept(ctx, o, err)
			return false
		}
	}
	a.whole = &left
	s.metrics.Oversized.Inc()
	s.often.oversized.Do(func() {
		p.log.Warn("event published without its object", "stream", s.name, "object", o.key, "bytes", left.size, "dataref",
			left.ref, "err", a.tooLarge)
	})
	return true
}

func (p *session) keep(ctx context.Context, name string, data []byte) (ref string, err error) {
	keeper, ok := p.sink.(sink.Keeper)
	if !ok {
		panic("BUG: the sink keeps nothing")
	}
	if ref, err = keeper.Keep(ctx, name, data); err != nil {
		return "", fmt.Errorf("keep the data of %s: %w", name, err)
	}
	return ref, nil
}

// unkept lets an object wait whose data could not be kept, in sight of log and readiness.
func (p *session) unkept(ctx context.Context, o *object, err error) {
	a, s := &o.attempt, o.stream
	if ctx.Err() != nil {
		p.again(o, startDelay)
		return
	}
	s.often.unkept.Do(func() {
		p.log.Warn("what is too large for an event cannot be stored; it is tried again", "stream", s.name, "object", o.key,
			"err", err)
	})
	p.block(a, err)
	p.again(o, unkeptDelay)
}
