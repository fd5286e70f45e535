// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"errors"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// slack is what there may be behind a base besides as much as the base costs itself.
const slack = 4 << 20

// tidy writes another base once there is more behind the last one than in it, and purges what is before. What it does
// not come to is for another commit.
func (s *Store) tidy(ctx context.Context) {
	if s.size.since > max(s.size.base+slack, s.size.due) && s.rebase(ctx) != nil {
		s.size.due = s.size.since + slack
		return
	}
	if s.size.before == 0 {
		return
	}
	if err := s.log.purge(ctx, s.size.before); err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("what is old of the checkpoint stays in the bucket until the next attempt", "checkpoint",
			s.session.Path, "err", err)
	}
	s.size.before = 0 // the next base purges all that is before it
}

// rebase writes all that holds as one commit that replaces what is there.
func (s *Store) rebase(ctx context.Context) error {
	r, err := s.catchUp(ctx, newReplay())
	if err != nil {
		return err
	}
	records := r.content.records(nil)
	r = nil                             // it is as large again
	if err := s.sign(ctx); err != nil { // which is not purged with what is before the base
		return err
	}
	first, since := s.sequence, s.size.since
	s.size.since = 0
	if err := s.write(ctx, kindBase, records); err != nil {
		s.size.since += since
		return err
	}
	// Of what was between only this store's own late messages can be, which the base replaces.
	s.size = size{base: s.size.since, before: first}
	return nil
}

// catchUp reads what there is up to the newest message that the store knows of. What is purged while it is read may
// seem torn, so that is read once more. The error is a [*LostError] where that message is not there any more.
func (s *Store) catchUp(ctx context.Context, r *replay) (*replay, error) {
	if err := s.readKnown(ctx, r); err != nil {
		return nil, err
	}
	if r.torn != nil {
		r = newReplay()
		if err := s.readKnown(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, r.damage(s.session.Path)
}

// readKnown has r read on up to the newest message that the store knows of. A consumer waits for one that is lost, as
// for one that is to come: the stream is asked then.
func (s *Store) readKnown(ctx context.Context, r *replay) error {
	err := s.log.readTo(ctx, r, s.sequence)
	if err == nil || checkpoint.IsPermanent(err) || ctx.Err() != nil {
		return err
	}
	found, unknown := s.log.last(ctx)
	if errors.Is(unknown, errNoBucket) || unknown == nil && found.sequence < s.sequence {
		return s.session.Breaks(&LostError{Path: s.session.Path, Has: found.sequence, Want: s.sequence})
	}
	return err
}
