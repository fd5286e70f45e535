// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
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
		p.renameTrail(from.Name(), to.Name())
		b := &checkpoint.Batch{
			Identity: p.cfg.Identity, Log: &p.logged, Forget: []string{from.Name()},
			Streams: map[string]checkpoint.Stream{to.Name(): saved}, Put: map[string]map[string]checkpoint.Row{to.Name(): rows},
		}
		if err := p.cfg.Store.Commit(ctx, b); err != nil {
			return err
		}
		p.unlogged = false
		delete(p.undone, from.Name())
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

// bury publishes the deletion of everything that a stream's resource had, and forgets the stream. If a crash comes between, what is not published yet is all that is
// left to do. The error is ctx's, or permanent.
func (p *session) bury(ctx context.Context, s *stream) error {
	return p.finishOff(ctx, s, "", "what it reads does not exist any more")
}

// finishOff publishes the deletion of everything that a stream has, with ids that end in suffix, forgets the stream, and says why.
func (p *session) finishOff(ctx context.Context, s *stream, suffix, why string) error {
	n := s.deleteAll(suffix)
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

// deleteAll queues the deletion of all that the log has as existing, and returns of how many objects.
func (s *stream) deleteAll(suffix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	for key, row := range s.ledger.All() {
		at := ident(key, row)
		d := s.vanished(at.Namespace, at.Name, row, source.ReasonRelist, now)
		d.IDSuffix = suffix
		s.repair(&d.Change)
		d.Ticket = source.Ticket(s.tracker.Open("", now))
		s.enqueue(key, d)
		n++
	}
	return n
}

// forget removes a stream for good. Of its history only what the log does not know is remembered, so that the next of its name goes on in it. Where the log loses the deletions
// that ended it, what it has alive brings the stream back ([session.reread]). Until it is forgotten the stream is open, and is told what others find out.
func (p *session) forget(ctx context.Context, s *stream) error {
	return p.insist(ctx, func() error {
		p.committing.Lock()
		defer p.committing.Unlock()
		p.cutTrail(s.name)
		kept, keep := p.afterlife(s)
		b := &checkpoint.Batch{Identity: p.cfg.Identity, Log: &p.logged, Forget: []string{s.name}}
		if keep {
			b.Streams = map[string]checkpoint.Stream{s.name: kept}
		}
		if err := p.cfg.Store.Commit(ctx, b); err != nil {
			return err
		}
		p.unlogged = false
		delete(p.undone, s.name)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.drop(s)
		delete(p.state.Streams, s.name)
		delete(p.state.Rows, s.name)
		if keep {
			p.state.Streams[s.name] = kept
		}
		return nil
	})
}

// afterlife returns what has to be remembered of a stream's history, and whether anything has to: not where a stream that nothing is known of begins in a later
// one. The caller holds committing.
func (p *session) afterlife(s *stream) (kept checkpoint.Stream, keep bool) {
	p.mu.Lock()
	first := p.firstHistory(s.Stream)
	p.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	kept = checkpoint.Stream{History: s.saved.History, Undone: s.saved.Undone, Alone: s.saved.Alone}
	next := kept.History
	if kept.Undone != "" {
		next++
	}
	return kept, kept != (checkpoint.Stream{}) && next > first
}
