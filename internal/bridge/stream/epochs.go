// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"errors"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/reader"
)

// epochs is how a stream comes to its next epoch.
type epochs struct {
	*Stream
	// Mismatch is why what is read does not compare with what the log has; then nothing more that is listed is
	// published.
	Mismatch *source.RewoundError
	// Again makes the stream list, when it is sent why. Distrusted: the log was seen to lack something that exists, and
	// no list was made since.
	Again      chan source.Why
	Distrusted bool
}

// TakeEpoch gives the stream a new epoch in the second case of package sequence: versions still compare. The caller
// holds mu, or has the stream for itself.
func (s *epochs) TakeEpoch(owes checkpoint.Owes) {
	s.Saved.Epoch = s.Env.Epochs.Next()
	if s.Saved.Owes.List <= owes.List { // else what is owed already includes it
		s.Saved.Owes = owes
	}
	s.Epoch = s.Saved.Epoch
}

// Renew begins a new epoch, in which the reader lists next. Before the first event of that list the epoch is durable,
// so that a crash cannot lead to another one. The error is ctx's.
func (s *epochs) Renew(ctx context.Context, cause *source.RewoundError) error {
	// What was read before is of the epoch before, and precedes the new one in the log.
	if err := s.Tracker.Await(ctx); err != nil {
		return err
	}
	from := s.BeginEpoch(cause)
	s.Figures.Metrics.Histories.Inc()
	s.Env.Log.Warn("versions do not compare any more: everything is published again under another epoch",
		"stream", s.Name, "epoch", s.Epoch, "from", from, "cause", cause)
	return nil
}

// BeginEpoch gives the stream a new epoch and tells the other streams, unless another stream has told this one.
func (s *epochs) BeginEpoch(cause *source.RewoundError) (from string) {
	// No commit may have the epoch of one stream and not yet that of another.
	s.Env.Exclusive(func() {
		s.Mu.Lock()
		told := s.Saved.Epoch != s.Epoch
		if !told {
			ledger.BeginEpoch(&s.Saved, s.Env.Epochs.Next(), s.position(), s.Why(cause))
			s.Saved.Alone = !s.tells()
		}
		epoch := s.Saved.Epoch
		s.Tracker.Reset("")
		s.adopt()
		from = s.Saved.Owes.From
		s.Mu.Unlock()
		if !told && s.tells() {
			s.Env.Restored(s.Stream, epoch, cause)
		}
	})
	return from
}

// Why returns the cause of the gap behind a cluster that is not the one that was read before.
func (s *epochs) Why(cause *source.RewoundError) source.Why {
	if s.tells() {
		return source.Why{Cause: source.CauseRestored, Message: cause.Error()}
	}
	return source.Why{Cause: source.CauseRebuilt, Message: cause.Error()}
}

// adopt has the stream read under the epoch that saved has. Nothing of the epoch before is pending. The caller holds
// mu.
func (s *epochs) adopt() {
	s.Epoch = s.Saved.Epoch
	s.Since.Store(s.Saved.Since)
	s.Ledger.DropTombstones() // a watch of this epoch shows nothing of what they are for
	s.Refusals.refused.ForgetVersions()
	s.Mismatch, s.Held, s.Distrusted = nil, "", false
	s.listsNow()
}

// listsNow takes back what was asked for: the list that follows is that one. The caller holds mu.
func (s *epochs) listsNow() {
	select {
	case <-s.Again:
	default:
	}
}

// tells reports whether what the stream finds out is true of the others. An aggregated API server has versions of its
// own, and may start from nothing each time; a group that Kubernetes does not have itself may be one's. Events often
// have an etcd of their own (--etcd-servers-overrides).
func (s *epochs) tells() bool {
	events := s.At().Resource.Resource == "events" && (s.Group == "" || s.Group == "events.k8s.io")
	return scheme.Scheme.IsGroupRegistered(s.Group) && !events
}

// Restored makes the next list of a stream the one of an epoch that another stream has begun, and asks for it. A stream
// that retires has no such list: what ends its objects has an epoch of its own.
func (s *epochs) Restored(epoch uint64, why source.Why, cause *source.RewoundError) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Saved.Retiring {
		return
	}
	nothing := s.position() == "" && s.Saved.Owes.From == "" && s.Lists.listing == "" && s.Ledger.Len() == 0
	if nothing || s.Saved.Epoch >= epoch || s.Saved.Alone { // or it has begun one of this restoration by itself
		s.Saved.Alone = false
		return
	}
	ledger.BeginEpoch(&s.Saved, epoch, s.position(), why)
	if s.Mismatch == nil {
		s.Mismatch = cause
	}
	s.askForEpoch()
}

// Revoke ends the epoch: what is read does not compare with what the log has. What is listed from here on is left to
// the list of the next epoch. Where a watch has shown it, that list is asked for. The caller holds mu; the change has
// an open ticket.
func (s *epochs) Revoke(c *source.Change, logged string) {
	if s.Mismatch == nil {
		s.Mismatch = &source.RewoundError{Stream: s.Name, Position: logged, Server: c.ResourceVersion, Object: c.Key()}
	}
	if !c.Listed {
		s.askForEpoch()
	}
}

// askForEpoch asks for the list with which another epoch begins, and stops the position. The caller holds mu, and has
// set mismatch.
func (s *epochs) askForEpoch() {
	if s.Held != "" {
		return
	}
	s.Held = s.Tracker.Position()
	select {
	case s.Again <- s.Why(s.Mismatch):
	default: // a list is asked for already
	}
}

// AskForList asks for a list, unless one is owed or asked for: that sees all that this one would.
func (s *epochs) AskForList(why source.Why) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Saved.Owes.List != sequence.Nothing {
		return
	}
	select {
	case s.Again <- why:
	default:
	}
}

// Distrust says that the log lacks something that is older than the position.
func (s *epochs) Distrust() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Distrusted = true
}

// Mismatched returns why what is read does not compare; nil if it does.
func (s *epochs) Mismatched() error {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.Mismatch == nil {
		return nil
	}
	return s.Mismatch
}

// resumeEpoch adopts an epoch that another stream has begun while this one was about to be read. The error is ctx's.
func (s *epochs) resumeEpoch(ctx context.Context) error {
	s.Mu.Lock()
	cause := s.Mismatch
	s.Mu.Unlock()
	if cause == nil {
		return nil
	}
	return s.Renew(ctx, cause)
}

// readEpochs reads under one epoch after another, until ctx ends or end is closed.
func (s *epochs) readEpochs(ctx context.Context, end <-chan struct{}) error {
	if err := s.Lists.completing.Wait(ctx); err != nil {
		return Ended(err)
	}
	if err := s.resumeEpoch(ctx); err != nil {
		return Ended(err)
	}
	if err := s.Before.Prime(ctx); err != nil {
		return Ended(err)
	}
	for {
		r := reader.Reader{
			Client: s.Env.Client, Watches: s.Env.Watches, Stream: s.At(), Feed: s.Stream, History: s.Stream,
			Observer: s.Status, Recovery: s.Env.Recovery, Reached: s.Newest, Owed: s.Lists.Owed(), Again: s.Again, End: end,
		}
		err := r.Run(ctx)
		var rewound *source.RewoundError
		if errors.Is(err, reader.ErrEnded) {
			return nil
		}
		if !errors.As(err, &rewound) {
			return err
		}
		if err := s.Renew(ctx, rewound); err != nil {
			return Ended(err)
		}
	}
}
