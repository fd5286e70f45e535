// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// lookup is a message that was not stored, and needs the last message of its subject to be settled. Its slot is still
// taken.
type lookup struct {
	slot int
	m    *sink.Message
	done sink.Done
	// cause is the refusal, because another message is the last of the subject; nil where the server recognised the id.
	cause *jetstream.APIError
	// duplicate is the sequence that the server has for the id; 0 where it refused the message.
	duplicate uint64
}

// lookAll works until ctx ends.
func (p *publisher) lookAll(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case l := <-p.lookups:
			rc, err := p.resolve(ctx, l)
			p.finish(l.slot, l.m, l.done, rc, err)
		}
	}
}

// resolve finds out whether the last message of the subject is ours: published before, with its acknowledgement lost.
func (p *publisher) resolve(ctx context.Context, l lookup) (sink.Receipt, error) {
	last, err := p.broker.last(ctx, l.m.Subject)
	if l.duplicate > 0 {
		return p.resolveDuplicate(ctx, l, last, err)
	}
	switch {
	case err != nil:
		return sink.Receipt{}, orEnded(ctx, fmt.Errorf("%w; look the last message up: %w", l.cause, err))
	case last != nil && last.ID == l.m.ID:
		p.duplicates.Add(1)
		p.acked.add(mark{last.Sequence, last.ID}, true)
		return sink.Receipt{Sequence: last.Sequence, Duplicate: true}, nil
	case current(last) == l.m.Previous:
		// Another message of the subject was under way, and did not get through.
		return sink.Receipt{}, l.cause
	default:
		p.conflicts.Add(1)
		return sink.Receipt{}, &sink.ConflictError{Last: last}
	}
}

// resolveDuplicate finds out whether a message that the server recognised is the last of its subject.
func (p *publisher) resolveDuplicate(
	ctx context.Context, l lookup, last *sink.Stored, err error,
) (sink.Receipt, error) {
	switch {
	case err != nil:
		err = fmt.Errorf("stored already at %d; look the last message up: %w", l.duplicate, err)
		return sink.Receipt{}, orEnded(ctx, err)
	case current(last) == l.duplicate:
		p.duplicates.Add(1)
		return sink.Receipt{Sequence: l.duplicate, Duplicate: true}, nil
	default:
		p.conflicts.Add(1)
		return sink.Receipt{}, &sink.ConflictError{Last: last, Duplicate: l.duplicate}
	}
}

func current(last *sink.Stored) uint64 {
	if last == nil {
		return 0
	}
	return last.Sequence
}
