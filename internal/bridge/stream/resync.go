// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// resyncLook is how often it is looked whether a stream can be resynced now, or is due.
const resyncLook = 200 * time.Millisecond

// resyncer publishes everything that a stream has once more.
type resyncer struct {
	*Stream
	Resync resyncs.Queue
	// opened is where the log has the marker with which the repair or resync began that runs. Untold: before it the log
	// has a state that this process does not publish again, because another process has published it.
	opened uint64
	untold bool
}

// Run publishes everything that exists again, when it is asked for or due, once at a time, until ctx ends.
func (s *resyncer) Run(ctx context.Context) {
	log := s.Env.Log.With("stream", s.Name)
	for {
		n, scheduled, err := s.awaitResync(ctx)
		if err != nil {
			return
		}
		began := time.Now()
		log.Info("resync begins: everything is published again", "number", n, "scheduled", scheduled)
		err = s.Republish(ctx, n)
		if ctx.Err() != nil {
			return // a slot begins again with the next process
		}
		told := s.Resync.End(err)
		if err != nil {
			s.Resync.Postpone()
			log.Warn("resync failed", "number", n, "published", told.Published, "err", err)
			continue
		}
		s.Figures.Metrics.Resyncs.Inc()
		if s.Resync.Missed() || s.Refusals.Lacks() {
			s.Resync.Postpone()
		} else {
			s.NotDue()
		}
		if scheduled {
			s.Resynced(n)
		}
		log.Info("resync is complete", "number", n, "objects", told.Listed, "published", told.Published, "after",
			time.Since(began).Round(time.Millisecond).String())
	}
}

// awaitResync waits until one is asked for or due, and returns the number that the ids of its events have. The error is
// ctx's.
func (s *resyncer) awaitResync(ctx context.Context) (n int64, scheduled bool, err error) {
	for {
		s.AskIfDue()
		if n, ok := s.Resync.Begin(); ok {
			return n, false, nil
		}
		now := time.Now()
		due, wait := s.DueResync(now)
		if slot := s.Slot(now); due && s.Resync.BeginSlot(now, slot) {
			return slot, true, nil
		}
		if err := s.Resync.Wait(ctx, wait); err != nil {
			return 0, false, err
		}
	}
}

// DueResync reports whether the slot that now is in was not resynced yet, and when to look again. In the slot in which
// the stream first watches with a schedule nothing is due: what exists has just been listed, or was published before
// there was one.
func (s *resyncer) DueResync(now time.Time) (due bool, wait time.Duration) {
	slot := s.Slot(now)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	switch {
	case s.Spec.Resync == 0:
		s.Saved.Resynced = 0 // a schedule that the file has again later starts from its first slot
		if s.Saved.ResyncDue {
			return false, resyncLook
		}
		return false, resyncs.FailedDelay
	case !s.Steady():
		return false, resyncLook
	case s.Saved.Resynced == 0 || s.Saved.Resynced > now.Unix():
		s.Saved.Resynced = slot
	}
	return s.Saved.Resynced < slot, min(time.Unix(slot, 0).Add(s.Spec.Resync).Sub(now), resyncs.FailedDelay)
}

// Slot returns when the slot began that now is in. Slots of a stream are apart by the time that its schedule says,
// whatever process asks; those of different streams begin at different times.
func (s *resyncer) Slot(now time.Time) int64 {
	every := max(int64(s.Spec.Resync/time.Second), 1)
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.Env.Pipeline + "\x00" + s.Name))
	shift := int64(h.Sum64() % uint64(every))
	return now.Unix() - (now.Unix()-shift)%every
}

// Resynced takes note that the slot is complete. The next commit has it.
func (s *resyncer) Resynced(slot int64) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Saved.Resynced = slot
}

// AskIfDue asks for the resync that is due because the log may lack the last event of an object.
func (s *resyncer) AskIfDue() {
	s.Mu.Lock()
	due := s.Saved.ResyncDue && s.Steady()
	s.Mu.Unlock()
	if now := time.Now(); due && s.Resync.MayBegin(now, s.Refusals.Lacks()) {
		s.Resync.Ask(now)
	}
}

// NotDue takes note that the resync that was due is in the log.
func (s *resyncer) NotDue() {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.Saved.ResyncDue = false
	s.Resync.Told()
}

// ErrOtherEpoch ends a resync.
var ErrOtherEpoch = errors.New("versions do not compare any more, and everything is published again because of that")

// Republish publishes everything that exists again, between two markers. What changes meanwhile is published by that.
// It returns when the log has all of it.
func (s *resyncer) Republish(ctx context.Context, n int64) error {
	s.Env.Exclusive(func() { n = s.Env.NextResync(n) })
	if err := s.Env.Save(ctx); err != nil {
		return err
	}
	s.Mu.Lock()
	epoch, position := s.Epoch, s.position()
	s.Mu.Unlock()
	started := s.Lists.QueueMarker(&delivery.Marker{Marker: source.Marker{
		Kind: source.MarkerResyncStarted, Epoch: epoch, To: position, Number: n, Seen: time.Now(),
	}})
	if err := started.Wait(ctx); err != nil {
		return err
	}
	s.open(started)
	// An event that was on its way may stand before the marker. Its object has to be told again.
	if err := s.Tracker.Await(ctx); err != nil {
		return err
	}
	// The list is made after the marker: an object that was published before it and created after the list would be
	// taken for gone.
	limit := rate.NewLimiter(s.Env.ResyncRate, 1)
	listed, coming := map[string]struct{}{}, map[string]uint64{}
	version, err := kube.Current(ctx, s.Env.Client, s.At(), func(item *kube.Item) error {
		published, err := s.RepublishOne(ctx, item.Ident, item, n, limit)
		if err != nil {
			return err
		}
		if listed[item.Key()] = struct{}{}; !published {
			coming[item.Key()] = s.Coming(item, epoch)
		}
		s.Resync.Count(published)
		return nil
	})
	if ledger.Numeric(version) < ledger.Numeric(position) {
		s.Resync.Leave() // an etcd that was restored, which lacks what the log has got since
	}
	if err == nil {
		err = s.Resync.Await(ctx)
	}
	if err == nil {
		err = s.awaitChanges(ctx, coming, s.unlisted(listed, ledger.Numeric(version)), ledger.Numeric(version), epoch)
	}
	if err != nil {
		return err
	}
	s.Mu.Lock()
	position = s.position()
	s.Mu.Unlock()
	completed := s.Lists.QueueMarker(&delivery.Marker{Marker: source.Marker{
		Kind: source.MarkerResyncCompleted, Epoch: epoch, To: position, Number: n, Objects: len(listed),
		Complete: s.Spec.Filter == nil && !s.Resync.Missed() && !s.Refusals.Lacks(), Seen: time.Now(),
	}})
	if err := completed.Wait(ctx); err != nil {
		return err
	}
	s.open(completed)
	return nil
}

// Coming returns the version of what is published instead of a listed object's state: that state, or a newer one that
// is on its way. If the list does not compare with what was published in the epoch, the stream lists under another one.
func (s *resyncer) Coming(listed *kube.Item, epoch uint64) uint64 {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	row, exists := s.known(listed.Key())
	version, last, order := ledger.Numeric(listed.ResourceVersion), ledger.LastOf(&row, exists), s.order()
	// What has happened since explains the difference.
	ahead := max(row.Version, order.Position) > ledger.Numeric(listed.At)
	object := ledger.ObjectOf(listed.UID, version, listed.Bytes(), last)
	object.Pending = s.Refusals.refused.Has(listed.Key())
	if !ahead && s.Epoch == epoch && s.Steady() && order.Listed(object, last) != "" {
		s.Epochs.Revoke(&source.Change{Ident: listed.Ident}, strconv.FormatUint(max(row.Version, order.Position), 10))
	}
	return max(version, row.Version)
}

// unlisted returns what the log has as existing and a list at a version has not: its end is on its way.
func (s *resyncer) unlisted(listed map[string]struct{}, version uint64) map[string]struct{} {
	ending := map[string]struct{}{}
	for key, row := range s.Ledger.All() {
		if _, ok := listed[key]; !ok && row.Version <= version {
			ending[key] = struct{}{}
		}
	}
	return ending
}

// awaitChanges waits until the log has what the watch brings of objects: of some their states at these versions, or
// later ones, and of others their ends. What the watch has not brought when it has passed the version of the list does
// not come. The error is ctx's, or says that the stream reads under another epoch.
func (s *resyncer) awaitChanges(
	ctx context.Context, coming map[string]uint64, ending map[string]struct{}, list, epoch uint64,
) error {
	for {
		s.Mu.Lock()
		now, position, compares := s.Epoch, ledger.Numeric(s.position()), s.Epochs.Mismatch == nil
		for key, version := range coming {
			row, ok := s.Ledger.Get(key)
			told, gone := ok && row.Version >= version, !ok && position >= version
			if told || gone || version <= list && position >= list {
				delete(coming, key)
			}
		}
		for key := range ending {
			row, ok := s.Ledger.Get(key)
			if !ok || row.Deleted || row.Version > list || position >= list {
				delete(ending, key)
			}
		}
		s.Mu.Unlock()
		switch {
		case now != epoch:
			return ErrOtherEpoch
		case len(coming)+len(ending) == 0 && compares:
			return nil
		}
		if err := pause.For(ctx, resyncLook); err != nil {
			return err
		}
	}
}

// content is what a listed object holds, as [source.Item] has it.
type content interface {
	Size() int
	Bytes() []byte
	Body() *source.Body
}

// RepublishOne queues the state of an object once more, unless it is not what the log has: a newer one is on its way
// then. The error is ctx's.
func (s *resyncer) RepublishOne(
	ctx context.Context, id source.Ident, item content, n int64, limit *rate.Limiter,
) (queued bool, err error) {
	written := encode.Written(item.Bytes())
	for steady := false; !steady; {
		s.Mu.Lock()
		logged := s.Logged(id.Key(), id, written)
		steady = s.Steady() // only then it is known what the log has
		s.Mu.Unlock()
		switch {
		case !steady:
			err = pause.For(ctx, resyncLook)
		case !logged:
			return false, nil
		default:
			queued, steady, err = s.RepublishNow(ctx, id, item, n, limit)
		}
		if err != nil {
			return false, err
		}
	}
	return queued, nil
}

// RepublishNow queues the state of an object once there is room for it, if the log has it then. Where the stream is not
// steady by then, that is not known, and nothing is queued. The error is ctx's.
func (s *resyncer) RepublishNow(
	ctx context.Context, id source.Ident, item content, n int64, limit *rate.Limiter,
) (queued, steady bool, err error) {
	if err := limit.Wait(ctx); err != nil {
		return false, false, err
	}
	if err := s.Resync.Room.Acquire(ctx, 1); err != nil {
		return false, false, err
	}
	size := item.Size()
	if err := s.Env.Budget.Acquire(ctx, size, true); err != nil {
		s.Resync.Room.Release(1)
		return false, false, err
	}
	now := time.Now()
	d := delivery.Delta{Repeated: true, Change: source.Change{
		Op: source.Updated, Ident: id, Body: item.Body(), Reason: source.ReasonResync, Seen: now,
		Ticket: source.Ticket(s.Tracker.Open("", now)), Size: size, Listed: true, Again: n,
		Written: encode.Written(item.Bytes()),
	}}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	key := d.Key()
	steady = s.Steady() // the ticket is open: whoever begins something from here on waits for it
	if !steady || !s.Logged(key, d.Ident, d.Written) {
		s.drop(&d.Change)
		return false, steady, nil
	}
	row, _ := s.Ledger.Get(key)
	d.Epoch, d.Version = row.Epoch, row.Version
	s.enqueue(key, d)
	return true, true, nil
}

// Logged reports whether the log has that state of the object last, and nothing else is on its way. The caller holds
// mu.
func (s *resyncer) Logged(key string, id source.Ident, written int64) bool {
	if s.Pending[key] != nil {
		return false
	}
	row, exists := s.Ledger.Get(key)
	return exists && s.is(&row, id, written)
}

// Steady reports whether the stream watches, and no list has begun, or is due. Then the ledger has what exists, except
// for what the watch is about to show. The caller holds mu.
func (s *Stream) Steady() bool {
	lists := s.Saved.Unannounced != (checkpoint.Snapshot{}) || s.Saved.Owes.List != sequence.Nothing ||
		s.Epochs.Distrusted || s.Epochs.Mismatch != nil || s.Saved.Replay.To != ""
	return !lists && s.position() != "" && s.Status.Watching()
}
