// SPDX-License-Identifier: Apache-2.0

package bridge

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
	*stream
	// mismatch is why what is read does not compare with what the log has; then nothing more that is listed is
	// published. Where a watch has shown it, the position stays at held until the next epoch begins.
	mismatch *source.RewoundError
	held     string
	// again makes the stream list, when it is sent why. Distrusted: the log was seen to lack something that exists, and
	// no list was made since.
	again      chan source.Why
	distrusted bool
}

// number returns the number of a version: of one that is no number, the one that the row has for it, or a new one. The
// caller holds mu.
func (s *stream) number(version string, row *checkpoint.Row) uint64 {
	n, ok := checkpoint.Number(version)
	switch {
	case ok:
		return n
	case row != nil && row.ResourceVersion == version:
		return row.Version
	}
	s.saved.Counter++
	return s.saved.Counter
}

// order returns what the numbers of the stream's events depend on now; the caller holds mu.
func (s *stream) order() sequence.Stream {
	return sequence.Stream{
		Epoch: s.epoch, Since: s.since.Load(), Position: ledger.Numeric(s.position()), Owes: s.saved.Owes.List,
		Rewound: ledger.Numeric(s.saved.Replay.To), Floors: s.saved.Floors,
	}
}

// compares reports whether versions of the stream compare with that of a row.
func (s *stream) compares(row *checkpoint.Row) bool { return row.Epoch >= s.since.Load() }

// takeEpoch gives the stream a new epoch in the second case of package sequence: versions still compare. The caller
// holds mu, or has the stream for itself.
func (s *epochs) takeEpoch(owes checkpoint.Owes) {
	s.saved.Epoch = s.env.Epochs.Next()
	if s.saved.Owes.List <= owes.List { // else what is owed already includes it
		s.saved.Owes = owes
	}
	s.epoch = s.saved.Epoch
}

// renew begins a new epoch, in which the reader lists next. Before the first event of that list the epoch is durable,
// so that a crash cannot lead to another one. The error is ctx's.
func (s *epochs) renew(ctx context.Context, cause *source.RewoundError) error {
	// What was read before is of the epoch before, and precedes the new one in the log.
	if err := s.tracker.Await(ctx); err != nil {
		return err
	}
	from := s.beginEpoch(cause)
	s.account.Metrics.Histories.Inc()
	s.env.Log.Warn("versions do not compare any more: everything is published again under another epoch",
		"stream", s.name, "epoch", s.epoch, "from", from, "cause", cause)
	return nil
}

// beginEpoch gives the stream a new epoch and tells the other streams, unless another stream has told this one.
func (s *epochs) beginEpoch(cause *source.RewoundError) (from string) {
	// No commit may have the epoch of one stream and not yet that of another.
	s.env.Exclusive(func() {
		s.mu.Lock()
		told := s.saved.Epoch != s.epoch
		if !told {
			ledger.BeginEpoch(&s.saved, s.env.Epochs.Next(), s.position(), s.why(cause))
			s.saved.Alone = !s.tells()
		}
		epoch := s.saved.Epoch
		s.tracker.Reset("")
		s.adopt()
		from = s.saved.Owes.From
		s.mu.Unlock()
		if !told && s.tells() {
			s.env.Restored(s.stream, epoch, cause)
		}
	})
	return from
}

// why returns the cause of the gap behind a cluster that is not the one that was read before.
func (s *epochs) why(cause *source.RewoundError) source.Why {
	if s.tells() {
		return source.Why{Cause: source.CauseRestored, Message: cause.Error()}
	}
	return source.Why{Cause: source.CauseRebuilt, Message: cause.Error()}
}

// adopt has the stream read under the epoch that saved has. Nothing of the epoch before is pending. The caller holds
// mu.
func (s *epochs) adopt() {
	s.epoch = s.saved.Epoch
	s.since.Store(s.saved.Since)
	s.ledger.DropTombstones() // a watch of this epoch shows nothing of what they are for
	s.refusals.refused.ForgetVersions()
	s.mismatch, s.held, s.distrusted = nil, "", false
	s.listsNow()
}

// listsNow takes back what was asked for: the list that follows is that one. The caller holds mu.
func (s *epochs) listsNow() {
	select {
	case <-s.again:
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

// restored makes the next list of a stream the one of an epoch that another stream has begun, and asks for it. A stream
// that retires has no such list: what ends its objects has an epoch of its own.
func (s *epochs) restored(epoch uint64, why source.Why, cause *source.RewoundError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved.Retiring {
		return
	}
	nothing := s.position() == "" && s.saved.Owes.From == "" && s.lists.listing == "" && s.ledger.Len() == 0
	if nothing || s.saved.Epoch >= epoch || s.saved.Alone { // or it has begun one of this restoration by itself
		s.saved.Alone = false
		return
	}
	ledger.BeginEpoch(&s.saved, epoch, s.position(), why)
	if s.mismatch == nil {
		s.mismatch = cause
	}
	s.askForEpoch()
}

// revoke ends the epoch: what is read does not compare with what the log has. What is listed from here on is left to
// the list of the next epoch. Where a watch has shown it, that list is asked for. The caller holds mu; the change has
// an open ticket.
func (s *epochs) revoke(c *source.Change, logged string) {
	if s.mismatch == nil {
		s.mismatch = &source.RewoundError{Stream: s.name, Position: logged, Server: c.ResourceVersion, Object: c.Key()}
	}
	if !c.Listed {
		s.askForEpoch()
	}
}

// askForEpoch asks for the list with which another epoch begins, and stops the position. The caller holds mu, and has
// set mismatch.
func (s *epochs) askForEpoch() {
	if s.held != "" {
		return
	}
	s.held = s.tracker.Position()
	select {
	case s.again <- s.why(s.mismatch):
	default: // a list is asked for already
	}
}

// mismatched returns why what is read does not compare; nil if it does.
func (s *epochs) mismatched() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mismatch == nil {
		return nil
	}
	return s.mismatch
}

// resumeEpoch adopts an epoch that another stream has begun while this one was about to be read. The error is ctx's.
func (s *epochs) resumeEpoch(ctx context.Context) error {
	s.mu.Lock()
	cause := s.mismatch
	s.mu.Unlock()
	if cause == nil {
		return nil
	}
	return s.renew(ctx, cause)
}

// replaying reports whether the stream was rewound, and is not yet where it was: the ledger may lack what existed at
// the position.
func (s *epochs) replaying() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.saved.Replay.To != ""
}

// readEpochs reads under one epoch after another, until ctx ends or end is closed.
func (s *epochs) readEpochs(ctx context.Context, end <-chan struct{}) error {
	if err := s.lists.completing.Wait(ctx); err != nil {
		return ended(err)
	}
	if err := s.resumeEpoch(ctx); err != nil {
		return ended(err)
	}
	if err := s.before.prime(ctx); err != nil {
		return ended(err)
	}
	for {
		r := reader.Reader{
			Client: s.env.Client, Watches: s.env.Watches, Stream: s.At(), Feed: s.stream, History: s.stream,
			Observer: s.status, Recovery: s.env.Recovery, Reached: s.newest, Owed: s.lists.owed(), Again: s.again, End: end,
		}
		err := r.Run(ctx)
		var rewound *source.RewoundError
		if errors.Is(err, reader.ErrEnded) {
			return nil
		}
		if !errors.As(err, &rewound) {
			return err
		}
		if err := s.renew(ctx, rewound); err != nil {
			return ended(err)
		}
	}
}
