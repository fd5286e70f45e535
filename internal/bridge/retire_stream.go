// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// close makes an open stream one that is only stored, as a session begins with. Nothing of it is read any more, and all
// that was read is in the log.
func (p *session) close(s *stream.Stream) {
	p.committing.Lock()
	defer p.committing.Unlock()
	saved, other, _, _ := s.Changes()
	rows := s.Ledger.Rows()
	if other { // another stream may have ended its history since it was saved
		p.unopenedChanged(s.Name, saved)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(s)
	p.state.Streams[s.Name], p.state.Rows[s.Name] = saved, rows
}

// drop takes a stream from those that are committed and shown; the caller holds committing and mu.
func (p *session) drop(s *stream.Stream) {
	left := make([]*stream.Stream, 0, len(p.streams))
	for _, o := range p.streams {
		if o != s {
			left = append(left, o)
		}
	}
	p.streams = left
	s.Close()
	p.incidents.Forget(s.Name)
}

// reasonOf returns why an object of a stream that retires is deleted, by its uid.
type reasonOf func(uid string) source.Reason

func always(r source.Reason) reasonOf { return func(string) source.Reason { return r } }

// reasons asks the API server which objects exist in the namespace of a stream that is not selected any more. Where it
// does not permit that, all may. It asks until it has an answer, less and less often: without one, deletions would have
// the wrong reason. The error is ctx's.
func (p *session) reasons(ctx context.Context, at source.Stream) (reasonOf, error) {
	p.mu.Lock()
	rows := len(p.state.Rows[at.Name()])
	p.mu.Unlock()
	for delay := commitEvery; rows > 0; delay = min(2*delay, maxCommitDelay) {
		exists := map[string]struct{}{}
		_, err := kube.Current(ctx, p.cfg.Client, at, func(item *kube.Item) error {
			exists[item.UID] = struct{}{}
			return nil
		})
		switch {
		case err == nil:
			return func(uid string) source.Reason {
				if _, is := exists[uid]; is {
					return source.ReasonDeselected
				}
				return source.ReasonRelist
			}, nil
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err), apierrors.IsMethodNotSupported(err):
			return always(source.ReasonDeselected), nil
		case delay == commitEvery && ctx.Err() == nil:
			p.log.Warn("objects that are not selected any more are deleted in the log once the API server tells which exist",
				"stream", at.Name(), "objects", rows, "err", err)
		}
		if err := pause.For(ctx, delay); err != nil {
			return nil, err
		}
	}
	return always(source.ReasonDeselected), nil
}

// openRetiring opens a stored stream whose objects are to be deleted in the log.
func (p *session) openRetiring(spec *StreamSpec, at source.Stream, why string) (*stream.Stream, error) {
	p.committing.Lock() // the next commit has to save that it retires
	defer p.committing.Unlock()
	p.mu.Lock()
	name := at.Name()
	saved := p.state.Streams[name]
	before := saved.Retiring
	p.state.Streams[name] = ledger.Retiring(&saved, p.epochs.Next, saved.Position, why)
	p.mu.Unlock()
	s, err := p.open(spec, at)
	if err != nil {
		return nil, err
	}
	s.Forgotten(before)
	s.Status.Retires()
	return s, nil
}

// retire publishes the end of everything that a stream has under an epoch of its own, forgets the stream, and says why.
// The epoch is durable before anything is published under it: a process that dies in between is followed by one that
// does the rest. Where the broker refuses an end, asked may end before that: then the stream is only stored. The error
// is ctx's, or permanent.
func (p *session) retire(ctx, asked context.Context, s *stream.Stream, reason reasonOf, why string) error {
	s.Retire(p.epochs.Next, why)
	if err := p.save(ctx); err != nil {
		return err
	}
	n := s.Lists.DeleteAll(reason)
	if err := s.Tracker.Await(ctx); err != nil {
		return err
	}
	for s.Refusals.Lacks() { // the stream is not read, and does not try them again itself
		if err := pause.For(asked, refused.FirstDelay); err != nil {
			if err := p.save(ctx); err != nil {
				return err
			}
			p.close(s)
			return nil
		}
		s.Lists.DeleteAll(reason)
		if err := s.Tracker.Await(ctx); err != nil {
			return err
		}
	}
	if err := p.save(ctx); err != nil { // no mark may pass what the stream has published
		return err
	}
	if err := p.forget(ctx, s); err != nil {
		return err
	}
	p.log.Info("stream has ended", "stream", s.Name, "why", why, "deleted", n)
	return nil
}

// forget removes a stream for good. A stream of its name that begins later takes a new epoch.
func (p *session) forget(ctx context.Context, s *stream.Stream) error {
	return p.insist(ctx, func() error {
		p.committing.Lock()
		defer p.committing.Unlock()
		b := &checkpoint.Batch{Identity: p.cfg.Identity, Log: &p.logged, Forget: []string{s.Name}}
		if err := p.cfg.Store.Commit(ctx, b); err != nil {
			return err
		}
		p.unlogged = false
		delete(p.unopenedSaved, s.Name)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.drop(s)
		delete(p.state.Streams, s.Name)
		delete(p.state.Rows, s.Name)
		return nil
	})
}
