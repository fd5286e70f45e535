// SPDX-License-Identifier: Apache-2.0

package natslog

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// newestInactive is how long the consumer of the newest messages is kept while those of Config.Whole are read.
const newestInactive = 5 * time.Minute

// readNewest reads the newest message of each subject, and then what follows.
//
// The server chooses the newest ones when it makes the consumer, and gives all that is stored later. Of Config.Whole
// this would leave out what was stored before and is not the newest. So those subjects are read up to what the stream
// has after the consumer was made.
func (r *reader) readNewest(ctx context.Context, first uint64, follow bool) error {
	c := r.consumerFrom(0, r.cfg.Subjects)
	c.DeliverPolicy, c.InactiveThreshold = jetstream.DeliverLastPerSubjectPolicy, newestInactive
	if len(r.cfg.Subjects) == 0 {
		c.FilterSubject = ">" // the server wants one
	}
	next := max(first, 1)
	end := uint64(0)
	all := func() error {
		r.next = next
		r.catchUp()
		if !follow {
			return errDone
		}
		return nil
	}
	return r.read(ctx, &stretch{
		consumer: c, surely: true,
		made: func(ctx context.Context, last uint64) error {
			end = last
			return r.readWhole(ctx, last)
		},
		all: all,
		do: func(m event.Message) error {
			if err := r.give(ctx, m); err != nil {
				return err
			}
			next = m.Sequence + 1
			switch {
			case r.next != 0:
				r.next = next
			case m.Sequence >= end:
				return all()
			}
			return nil
		},
	})
}

// readWhole reads the subjects of Config.Whole up to a sequence.
func (r *reader) readWhole(ctx context.Context, to uint64) error {
	if len(r.cfg.Whole) == 0 || r.whole > to {
		return nil
	}
	err := r.read(ctx, &stretch{
		consumer: r.consumerFrom(max(r.whole, 1), r.cfg.Whole), surely: true, after: max(r.whole, 1) - 1,
		all: func() error { return errDone },
		do: func(m event.Message) error {
			if m.Sequence > to {
				return errDone
			}
			if err := r.give(ctx, m); err != nil {
				return err
			}
			r.whole = m.Sequence + 1
			return nil
		},
	})
	if !errors.Is(err, errDone) {
		return err
	}
	r.whole = to + 1
	return nil
}
