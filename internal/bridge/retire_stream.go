// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// close makes an open stream one that is only stored, as a session begins with. Nothing of it is read any more, and all
// that was read is in the log.
func (o *opener) close(s *stream.Stream) {
	o.journal.Close(s.Name, s.Ledger.Rows)
	o.closed(s)
}

// closed ends what is counted and shown of a stream.
func (o *opener) closed(s *stream.Stream) {
	s.Close()
	o.incidents.Forget(s.Name)
}

// Between two requests for what exists there is a wait, which grows with each that fails.
const firstAsk, maxAsk = time.Second, 10 * time.Second

// reasonOf returns why an object of a stream that retires is deleted, by its uid.
type reasonOf func(uid string) source.Reason

func always(r source.Reason) reasonOf { return func(string) source.Reason { return r } }

// reasons asks the API server which objects exist in the namespace of a stream that is not selected any more. Where it
// does not permit that, all may. It asks until it has an answer, less and less often: without one, deletions would have
// the wrong reason. The error is ctx's.
func (o *opener) reasons(ctx context.Context, at source.Stream) (reasonOf, error) {
	rows := o.journal.Objects(at.Name())
	for delay := firstAsk; rows > 0; delay = min(2*delay, maxAsk) {
		exists := map[string]struct{}{}
		_, err := kube.Current(ctx, o.cfg.Client, at, func(item *kube.Item) error {
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
		case delay == firstAsk && ctx.Err() == nil:
			o.cfg.Log.Warn("objects that are not selected any more are deleted in the log once the API server tells which exist",
				"stream", at.Name(), "objects", rows, "err", err)
		}
		if err := pause.For(ctx, delay); err != nil {
			return nil, err
		}
	}
	return always(source.ReasonDeselected), nil
}

// retire publishes the end of everything that a stream has under an epoch of its own, forgets the stream, and says why.
// The epoch is durable before anything is published under it: a process that dies in between is followed by one that
// does the rest. Where the broker refuses an end, asked may end before that: then the stream is only stored. The error
// is ctx's, or permanent.
func (o *opener) retire(ctx, asked context.Context, s *stream.Stream, reason reasonOf, why string) error {
	s.Retire(o.epochs.Next, why)
	if err := o.journal.Save(ctx); err != nil {
		return err
	}
	n := s.Lists.DeleteAll(reason)
	if err := s.Tracker.Await(ctx); err != nil {
		return err
	}
	for s.Refusals.Lacks() { // the stream is not read, and does not try them again itself
		if err := pause.For(asked, refused.FirstDelay); err != nil {
			if err := o.journal.Save(ctx); err != nil {
				return err
			}
			o.close(s)
			return nil
		}
		s.Lists.DeleteAll(reason)
		if err := s.Tracker.Await(ctx); err != nil {
			return err
		}
	}
	if err := o.journal.Save(ctx); err != nil { // no mark may pass what the stream has published
		return err
	}
	if err := o.forget(ctx, s); err != nil {
		return err
	}
	o.cfg.Log.Info("stream has ended", "stream", s.Name, "why", why, "deleted", n)
	return nil
}

// forget removes a stream for good. A stream of its name that begins later takes a new epoch.
func (o *opener) forget(ctx context.Context, s *stream.Stream) error {
	if err := o.journal.Forget(ctx, s.Name); err != nil {
		return err
	}
	o.closed(s)
	return nil
}
