// SPDX-License-Identifier: Apache-2.0

package bridge

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
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

const (
	// resyncRate is how many objects of a stream are published again in a second, at most.
	resyncRate = 200
	// resyncAhead is how many of them may be on their way to the log at a time: a change that happens waits behind no
	// more.
	resyncAhead = 32
	// resyncLook is how often it is looked whether a stream can be resynced now, or is due.
	resyncLook = 200 * time.Millisecond
	// resyncDelay is between a resync on schedule that failed and the next try.
	resyncDelay = time.Minute
	// firstResyncAgain and lastResyncAgain are between a resync that was due and did not tell everything, and the next
	// one.
	firstResyncAgain, lastResyncAgain = time.Second, time.Hour
)

// resyncer publishes everything that a stream has once more.
type resyncer struct {
	*stream
	resync resyncs
	// opened is where the log has the marker with which the repair or resync began that runs. Untold: before it the log
	// has a state that this process does not publish again, because another process has published it.
	opened uint64
	untold bool
}

// resyncs publishes everything that exists again, when it is asked for or due, once at a time, until ctx ends.
func (s *resyncer) run(ctx context.Context) {
	log := s.env.Log.With("stream", s.name)
	for {
		n, scheduled, err := s.awaitResync(ctx)
		if err != nil {
			return
		}
		began := time.Now()
		log.Info("resync begins: everything is published again", "number", n, "scheduled", scheduled)
		err = s.republish(ctx, n)
		if ctx.Err() != nil {
			return // a slot begins again with the next process
		}
		told := s.resync.end(err)
		if err != nil {
			s.resync.postpone()
			log.Warn("resync failed", "number", n, "published", told.Published, "err", err)
			continue
		}
		s.account.Metrics.Resyncs.Inc()
		if s.resync.missed() || s.refusals.lacks() {
			s.resync.postpone()
		} else {
			s.notDue()
		}
		if scheduled {
			s.resynced(n)
		}
		log.Info("resync is complete", "number", n, "objects", told.Listed, "published", told.Published, "after",
			time.Since(began).Round(time.Millisecond).String())
	}
}

// awaitResync waits until one is asked for or due, and returns the number that the ids of its events have. The error is
// ctx's.
func (s *resyncer) awaitResync(ctx context.Context) (n int64, scheduled bool, err error) {
	for {
		s.askIfDue()
		if n, ok := s.resync.begin(); ok {
			return n, false, nil
		}
		now := time.Now()
		due, wait := s.dueResync(now)
		if slot := s.slot(now); due && s.resync.beginSlot(now, slot) {
			return slot, true, nil
		}
		if err := s.resync.wait(ctx, wait); err != nil {
			return 0, false, err
		}
	}
}

// dueResync reports whether the slot that now is in was not resynced yet, and when to look again. In the slot in which
// the stream first watches with a schedule nothing is due: what exists has just been listed, or was published before
// there was one.
func (s *resyncer) dueResync(now time.Time) (due bool, wait time.Duration) {
	slot := s.slot(now)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.spec.Resync == 0:
		s.saved.Resynced = 0 // if there is a schedule again it begins anew
		if s.saved.ResyncDue {
			return false, resyncLook
		}
		return false, resyncDelay
	case !s.steady():
		return false, resyncLook
	case s.saved.Resynced == 0 || s.saved.Resynced > now.Unix():
		s.saved.Resynced = slot
	}
	return s.saved.Resynced < slot, min(time.Unix(slot, 0).Add(s.spec.Resync).Sub(now), resyncDelay)
}

// slot returns when the slot began that now is in. Slots of a stream are apart by the time that its schedule says,
// whatever process asks; those of different streams begin at different times.
func (s *resyncer) slot(now time.Time) int64 {
	every := max(int64(s.spec.Resync/time.Second), 1)
	h := fnv.New64a()
	_, _ = h.Write([]byte(s.env.Pipeline + "\x00" + s.name))
	shift := int64(h.Sum64() % uint64(every))
	return now.Unix() - (now.Unix()-shift)%every
}

// resynced takes note that the slot is complete. The next commit has it.
func (s *resyncer) resynced(slot int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved.Resynced = slot
}

// askIfDue asks for the resync that is due because the log may lack the last event of an object.
func (s *resyncer) askIfDue() {
	s.mu.Lock()
	due := s.saved.ResyncDue && s.steady()
	s.mu.Unlock()
	if now := time.Now(); due && s.resync.mayBegin(now, s.refusals.lacks()) {
		s.resync.ask(now)
	}
}

// notDue takes note that the resync that was due is in the log.
func (s *resyncer) notDue() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved.ResyncDue = false
	s.resync.told()
}

// publishesAll reports whether every object that the stream reads is published.
func (s *stream) publishesAll() bool { return s.spec.Filter == nil }

// errOtherEpoch ends a resync.
var errOtherEpoch = errors.New("versions do not compare any more, and everything is published again because of that")

// republish publishes everything that exists again, between two markers. What changes meanwhile is published by that.
// It returns when the log has all of it.
func (s *resyncer) republish(ctx context.Context, n int64) error {
	s.env.Exclusive(func() { n = s.env.NextResync(n) })
	if err := s.env.Save(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	epoch, position := s.epoch, s.position()
	s.mu.Unlock()
	started := s.lists.queueMarker(&delivery.Marker{Marker: source.Marker{
		Kind: source.MarkerResyncStarted, Epoch: epoch, To: position, Number: n, Seen: time.Now(),
	}})
	if err := started.Wait(ctx); err != nil {
		return err
	}
	s.open(started)
	// An event that was on its way may stand before the marker. Its object has to be told again.
	if err := s.tracker.Await(ctx); err != nil {
		return err
	}
	// The list is made after the marker: an object that was published before it and created after the list would be
	// taken for gone.
	limit := rate.NewLimiter(s.env.ResyncRate, 1)
	listed, coming := map[string]struct{}{}, map[string]uint64{}
	version, err := kube.Current(ctx, s.env.Client, s.At(), func(item *kube.Item) error {
		published, err := s.republishOne(ctx, item.Ident, item, n, limit)
		if err != nil {
			return err
		}
		if listed[item.Key()] = struct{}{}; !published {
			coming[item.Key()] = s.coming(item, epoch)
		}
		s.resync.count(published)
		return nil
	})
	if ledger.Numeric(version) < ledger.Numeric(position) {
		s.resync.leave() // an etcd that was restored, which lacks what the log has got since
	}
	if err == nil {
		err = s.resync.await(ctx)
	}
	if err == nil {
		err = s.awaitChanges(ctx, coming, s.unlisted(listed, ledger.Numeric(version)), ledger.Numeric(version), epoch)
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	position = s.position()
	s.mu.Unlock()
	completed := s.lists.queueMarker(&delivery.Marker{Marker: source.Marker{
		Kind: source.MarkerResyncCompleted, Epoch: epoch, To: position, Number: n, Objects: len(listed),
		Complete: s.publishesAll() && !s.resync.missed() && !s.refusals.lacks(), Seen: time.Now(),
	}})
	if err := completed.Wait(ctx); err != nil {
		return err
	}
	s.open(completed)
	return nil
}

// coming returns the version of what is published instead of a listed object's state: that state, or a newer one that
// is on its way. If the list does not compare with what was published in the epoch, the stream lists under another one.
func (s *resyncer) coming(listed *kube.Item, epoch uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	row, exists := s.known(listed.Key())
	version, last, order := ledger.Numeric(listed.ResourceVersion), ledger.LastOf(&row, exists), s.order()
	// What has happened since explains the difference.
	ahead := max(row.Version, order.Position) > ledger.Numeric(listed.At)
	object := objectOf(listed.UID, version, listed.Bytes(), last)
	object.Pending = s.refusals.refused.Has(listed.Key())
	if !ahead && s.epoch == epoch && s.steady() && order.Listed(object, last) != "" {
		s.epochs.revoke(&source.Change{Ident: listed.Ident}, strconv.FormatUint(max(row.Version, order.Position), 10))
	}
	return max(version, row.Version)
}

// unlisted returns what the log has as existing and a list at a version has not: its end is on its way.
func (s *resyncer) unlisted(listed map[string]struct{}, version uint64) map[string]struct{} {
	ending := map[string]struct{}{}
	for key, row := range s.ledger.All() {
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
		s.mu.Lock()
		now, position, compares := s.epoch, ledger.Numeric(s.position()), s.epochs.mismatch == nil
		for key, version := range coming {
			row, ok := s.ledger.Get(key)
			told, gone := ok && row.Version >= version, !ok && position >= version
			if told || gone || version <= list && position >= list {
				delete(coming, key)
			}
		}
		for key := range ending {
			row, ok := s.ledger.Get(key)
			if !ok || row.Deleted || row.Version > list || position >= list {
				delete(ending, key)
			}
		}
		s.mu.Unlock()
		switch {
		case now != epoch:
			return errOtherEpoch
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

// republishOne queues the state of an object once more, unless it is not what the log has: a newer one is on its way
// then. The error is ctx's.
func (s *resyncer) republishOne(
	ctx context.Context, id source.Ident, item content, n int64, limit *rate.Limiter,
) (queued bool, err error) {
	written := encode.Written(item.Bytes())
	for steady := false; !steady; {
		var repeats bool
		if repeats, steady = s.repeats(id, written); steady && !repeats {
			return false, nil
		}
		if !steady {
			if err := s.awaitSteady(ctx); err != nil {
				return false, err
			}
			continue
		}
		if queued, steady, err = s.republishNow(ctx, id, item, n, limit); err != nil {
			return false, err
		}
	}
	return queued, nil
}

// republishNow queues the state of an object once there is room for it, if the log has it then. Where the stream is not
// steady by then, that is not known, and nothing is queued. The error is ctx's.
func (s *resyncer) republishNow(
	ctx context.Context, id source.Ident, item content, n int64, limit *rate.Limiter,
) (queued, steady bool, err error) {
	if err := limit.Wait(ctx); err != nil {
		return false, false, err
	}
	if err := s.resync.room.Acquire(ctx, 1); err != nil {
		return false, false, err
	}
	size := item.Size()
	if err := s.env.Budget.Acquire(ctx, size, true); err != nil {
		s.resync.room.Release(1)
		return false, false, err
	}
	now := time.Now()
	d := delivery.Delta{Repeated: true, Change: source.Change{
		Op: source.Updated, Ident: id, Body: item.Body(), Reason: source.ReasonResync, Seen: now,
		Ticket: source.Ticket(s.tracker.Open("", now)), Size: size, Listed: true, Again: n,
		Written: encode.Written(item.Bytes()),
	}}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := d.Key()
	steady = s.steady() // the ticket is open: whoever begins something from here on waits for it
	if !steady || !s.logged(key, d.Ident, d.Written) {
		s.drop(&d.Change)
		return false, steady, nil
	}
	row, _ := s.ledger.Get(key)
	d.Epoch, d.Version = row.Epoch, row.Version
	s.enqueue(key, d)
	return true, true, nil
}

// repeats reports whether publishing that state says nothing but what the log has. Only a stream that is steady knows.
func (s *resyncer) repeats(id source.Ident, written int64) (repeats, steady bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logged(id.Key(), id, written), s.steady()
}

// logged reports whether the log has that state of the object last, and nothing else is on its way. The caller holds
// mu.
func (s *resyncer) logged(key string, id source.Ident, written int64) bool {
	if s.pending[key] != nil {
		return false
	}
	row, exists := s.ledger.Get(key)
	return exists && s.is(&row, id, written)
}

// is reports whether a row is that state, which was written then.
func (s *stream) is(row *checkpoint.Row, id source.Ident, written int64) bool {
	return !row.Deleted && s.compares(row) && same(row, id, written)
}

// same reports whether a row has that version of an object. Where when it was written is known of both, that is the
// same too.
func same(row *checkpoint.Row, id source.Ident, written int64) bool {
	return row.UID == id.UID && row.ResourceVersion == id.ResourceVersion &&
		(row.Written == written || row.Written == 0 || written == 0)
}

// steady reports whether the stream watches, and the ledger is what exists but for what the watch is about to show: no
// list has begun, or is due. The caller holds mu.
func (s *stream) steady() bool {
	lists := s.saved.Unannounced != (checkpoint.Snapshot{}) || s.saved.Owes.List != sequence.Nothing ||
		s.epochs.distrusted || s.epochs.mismatch != nil || s.saved.Replay.To != ""
	return !lists && s.position() != "" && s.status.watching()
}

// awaitSteady waits until the stream is steady. The error is ctx's.
func (s *resyncer) awaitSteady(ctx context.Context) error {
	for {
		s.mu.Lock()
		steady := s.steady()
		s.mu.Unlock()
		if steady {
			return nil
		}
		if err := pause.For(ctx, resyncLook); err != nil {
			return err
		}
	}
}
