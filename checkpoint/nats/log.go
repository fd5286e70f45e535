// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
)

// log reads the messages of a checkpoint.
type log struct {
	messages
	session *session.Session
}

// stateOf returns what was read.
func (l log) stateOf(r *replay) (*checkpoint.State, error) {
	state, err := r.content.state()
	if err != nil {
		return nil, damaged(l.session.Path, err)
	}
	return state, nil
}

// readings is how often a checkpoint is read that seems torn: a base may have been written, and what was before it
// purged, while it was read.
const readings = 5

// look reads what the bucket has of the checkpoint now, whoever writes to it.
func (l log) look(ctx context.Context) (*replay, error) {
	for n := 1; ; n++ {
		r, err := l.replay(ctx)
		if err != nil || r.torn == nil {
			return r, err
		}
		if n == readings {
			return nil, r.damage(l.session.Path)
		}
	}
}

// replay reads what the bucket has of the checkpoint now, which may seem torn.
func (l log) replay(ctx context.Context) (*replay, error) {
	var end uint64
	err := again(ctx, l.session.Patience, func() error {
		last, err := l.last(ctx)
		end = last.sequence
		return err
	})
	r := newReplay()
	if err != nil || end == 0 {
		return r, err
	}
	return r, l.readTo(ctx, r, end)
}

// readTo has r read on up to a message that is there.
func (l log) readTo(ctx context.Context, r *replay, to uint64) error {
	if r.sequence >= to {
		return nil
	}
	return again(ctx, l.session.Patience, func() error {
		return l.read(ctx, r.sequence, to, r.take)
	})
}

// newest returns the newest message and its sequence, zero where there is none.
func (l log) newest(ctx context.Context) (m message, sequence uint64, err error) {
	found, err := l.last(ctx)
	if err != nil || found.sequence == 0 {
		return m, 0, err
	}
	return l.decoded(found)
}

func (l log) decoded(found raw) (m message, sequence uint64, err error) {
	if m, err = decodeMessage(found.data); err != nil {
		r := newReplay()
		r.skip(found.sequence, err)
		return m, found.sequence, r.damage(l.session.Path)
	}
	return m, found.sequence, nil
}
