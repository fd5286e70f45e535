// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// What ends a stream while its session goes on. In each, nothing of the stream is read any more, and all that was read is in the log.

// close makes an open stream one that is only stored, as a session begins with.
func (p *session) close(s *stream) {
	p.committing.Lock()
	defer p.committing.Unlock()
	saved, _, _ := s.checkpoint()
	rows := s.ledger.Rows()
	if saved != s.committed || !s.stored { // another stream may have ended its history since it was saved
		p.unopenedChanged(s.name, saved)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(s)
	p.state.Streams[s.name] = saved
	if p.state.Rows == nil {
		p.state.Rows = map[string]map[string]checkpoint.Row{}
	}
	p.state.Rows[s.name] = rows
}

// drop takes a stream from those that are committed and shown; the caller holds committing and mu.
func (p *session) drop(s *stream) {
	left := make([]*stream, 0, len(p.streams))
	for _, o := range p.streams {
		if o != s {
			left = append(left, o)
		}
	}
	p.streams = left
	s.metrics.drop()
	p.pasts.forget(s.name)
}

// carry has what is stored of one stream under the name of another, at once and for good. Versions of a resource have one history: what the log has of it in
// the one it has in the other. The error is ctx's, or permanent.
func (p *session) carry(ctx context.Context, from, to source.Stream) error {
	return p.insist(ctx, func() error {
		p.committing.Lock()
		defer p.committing.Unlock()
		p.mu.Lock()
		saved, rows := p.state.Streams[from.Name()], inAnotherForm(p.state.Rows[from.Name()])
		p.mu.Unlock()
		b := &checkpoint.Batch{
			Identity: p.cfg.Identity, Log: &p.logged, Forget: []string{from.Name()},
			Streams: map[string]checkpoint.Stream{to.Name(): saved}, Put: map[string]map[string]checkpoint.Row{to.Name(): rows},
		}
		if err := p.cfg.Store.Commit(ctx, b); err != nil {
			return err
		}
		p.unlogged = false
		delete(p.unopenedSaved, from.Name())
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.state.Streams, from.Name())
		delete(p.state.Rows, from.Name())
		p.state.Streams[to.Name()], p.state.Rows[to.Name()] = saved, rows
		p.log.Info("stream goes on as another version", "stream", from.Name(), "as", to.Name(), "objects", len(rows))
		return nil
	})
}

// inAnotherForm returns rows of objects that are read in another version from now on: nothing that is made of their data compares with what was.
func inAnotherForm(rows map[string]checkpoint.Row) map[string]checkpoint.Row {
	other := make(map[string]checkpoint.Row, len(rows))
	for key, row := range rows {
		row.Form, row.Digest = 0, [16]byte{}
		other[key] = row
	}
	return other
}

// bury publishes the end of everything that a stream's resource had, and forgets the stream. The error is ctx's, or permanent.
func (p *session) bury(ctx context.Context, s *stream) error {
	return p.retire(ctx, s, source.ReasonRelist, "what it reads does not exist any more")
}

// retire publishes the end of everything that a stream has under an epoch of its own, forgets the stream, and says why. The
// epoch is durable before anything is published under it: a process that dies in between is followed by one that does the
// rest. The error is ctx's, or permanent.
func (p *session) retire(ctx context.Context, s *stream, reason source.Reason, why string) error {
	s.mu.Lock()
	if !s.saved.Retiring {
		s.saved.Retiring = true
		s.takeEpoch(checkpoint.Owes{
			List: sequence.Reselect, From: cmp.Or(s.saved.Owes.From, s.position(), "0"),
			Cause: string(source.CauseSelection), Message: why,
		})
	}
	s.mu.Unlock()
	if err := p.save(ctx); err != nil {
		return err
	}
	n := s.deleteAll(reason)
	if err := s.tracker.Await(ctx); err != nil {
		return err
	}
	if err := p.save(ctx); err != nil { // no mark may pass what the stream has published
		return err
	}
	if err := p.forget(ctx, s); err != nil {
		return err
	}
	p.log.Info("stream has ended", "stream", s.name, "why", why, "deleted", n)
	return nil
}

// deleteAll queues the end of all that the log has as existing, and returns of how many objects.
func (s *stream) deleteAll(reason source.Reason) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	position := numeric(s.position())
	for key, row := range s.ledger.All() {
		last := row.Last()
		d := s.end(key, &row, sequence.Deselected(&last, s.epoch, position), reason, now)
		d.Ticket = source.Ticket(s.tracker.Open("", now))
		s.enqueue(key, d)
		n++
	}
	return n
}

// forget removes a stream for good. A stream of its name that begins later takes a new epoch.
func (p *session) forget(ctx context.Context, s *stream) error {
	return p.insist(ctx, func() error {
		p.committing.Lock()
		defer p.committing.Unlock()
		b := &checkpoint.Batch{Identity: p.cfg.Identity, Log: &p.logged, Forget: []string{s.name}}
		if err := p.cfg.Store.Commit(ctx, b); err != nil {
			return err
		}
		p.unlogged = false
		delete(p.unopenedSaved, s.name)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.drop(s)
		delete(p.state.Streams, s.name)
		delete(p.state.Rows, s.name)
		return nil
	})
}
