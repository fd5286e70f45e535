// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// stream is the far side of one source.Reader: its Feed and its History. The reader calls Deliver and Note one at a
// time, but for bookmarks.
type stream struct {
	source.Stream
	name    string
	spec    *StreamSpec
	session *session
	encoder *encode.Encoder
	metrics streamMetrics
	status  *status
	tracker *checkpoint.Tracker
	// olds is nil where nothing is kept of what was before.
	olds *olds

	// mu guards the ledger, the pending changes of the objects, and what follows.
	mu      sync.Mutex
	ledger  *checkpoint.Ledger
	pending map[string]*object
	// saved is what the store has to say of the stream besides its position; committed what was committed last, and the committer's own.
	saved       checkpoint.Stream
	committed   checkpoint.Stream
	fingerprint string
	// stored: the store knows the stream. It is the committer's own, as committed is.
	stored bool
	// losses is how often the log lost something; it is in the ids of what is repaired.
	losses int
	// listing is the reason of the changes that the running list brings, at its version; suffix what their ids end in.
	listing   source.Reason
	listingAt string
	suffix    string
	// revoked is why what is read shows another history than the one that the log has; then nothing more that is listed is published. The log
	// was seen to have events of the history revokedBy. Where a watch has shown it, the position stays at held until that history begins.
	revoked   *source.RewoundError
	revokedBy int
	held      string
	// again makes the stream list, when it is sent why. Distrusted: the log was seen to lack something that exists, and no list was made since.
	again      chan string
	distrusted bool
	// yield, of a wildcard's stream, has something when it is to end for one that a name has.
	yield  chan struct{}
	resync resyncs
	past   *diary
	flow   flow
	// often is for saying what may be true of every event.
	often often
}

// often limits how often a stream says each.
type often struct{ unencodable, contested, rejected, refused, undecided, oversized, unkept rate.Sometimes }

func (o *often) set(interval time.Duration) {
	for _, s := range []*rate.Sometimes{&o.unencodable, &o.contested, &o.rejected, &o.refused, &o.undecided, &o.oversized, &o.unkept} {
		s.Interval = interval
	}
}

// Admit implements source.Feed.
func (s *stream) Admit(ctx context.Context, version string, size int) (source.Ticket, error) {
	if err := s.session.budget.acquire(ctx, size, version == ""); err != nil {
		return 0, err
	}
	return source.Ticket(s.tracker.Open(version, time.Now())), nil
}

// Deliver implements source.Feed: what is not news is dropped, the rest waits for its turn.
func (s *stream) Deliver(c source.Change) {
	key := c.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Listed && c.Reason != source.ReasonRecovered {
		s.ledger.Seen(key)
		c.Reason, c.IDSuffix = s.listing, s.suffix
	}
	s.repair(&c)
	s.replayed(&c)
	known, exists := s.known(key)
	if exists {
		s.doubt(&c, known)
	}
	switch {
	case s.disowned(&c, known):
		s.drop(&c)
		return
	case exists && !s.goesBack(known, &c) && (!news(known, &c) || s.dead(known, &c)):
		s.metrics.suppressed.Inc()
		s.drop(&c)
		return
	}
	s.enqueue(key, delta{Change: c, silent: s.spec.SkipSnapshot && s.begins(&c, exists)})
}

// begins reports whether a change only shows what there was when the stream began. Where the checkpoint was lost it begins again, but for what the log has.
func (s *stream) begins(c *source.Change, known bool) bool {
	return c.Reason == source.ReasonSnapshot || c.Reason == source.ReasonRelist && !known && s.saved.Gap.Cause == lostCheckpoint
}

// known is the newest that was handed over of an object, published or not.
func (s *stream) known(key string) (checkpoint.Row, bool) {
	if o := s.pending[key]; o != nil {
		return o.known, true
	}
	return s.ledger.Get(key)
}

// news reports whether a change says more of an object than row does. A selection that changed can bring back what another one
// had put away, at the version it had.
func news(row checkpoint.Row, c *source.Change) bool {
	deleted := c.Op == source.Deleted
	return row.Deleted && !deleted && strings.HasPrefix(c.IDSuffix, ".s") || checkpoint.Newer(row, c.ResourceVersion, deleted)
}

// vanished is the deletion of the object that row is about, which no watch has shown.
func (s *stream) vanished(namespace, name string, row checkpoint.Row, reason source.Reason, seen time.Time) delta {
	s.metrics.synthesized.Inc()
	return delta{concluded: true, Change: source.Change{
		Op:     source.Deleted,
		Ident:  source.Ident{Namespace: namespace, Name: name, UID: row.UID, ResourceVersion: row.ResourceVersion},
		Reason: reason, Seen: seen, Listed: true, Superseded: row.Superseded,
	}}
}

// enqueue puts a change in its object's queue; the caller holds mu.
func (s *stream) enqueue(key string, d delta) {
	o := s.pending[key]
	if o == nil {
		if d.silent && s.spec.Filter == nil {
			row, _ := s.ledger.Get(key)
			s.remember(key, &d, row)
			s.drop(&d.Change)
			return
		}
		o = s.session.memory.objects.Get().(*object)
		o.stream, o.key = s, key
		s.pending[key] = o
		s.session.busy.enter()
	}
	if folded := o.push(d, s.spec.Latest); folded != nil {
		// It waits already. If it were added once more, while a worker is about to take what waits, the queue would have it when nothing does.
		s.drop(&folded.Change)
		return
	}
	s.session.queue.Add(o)
}

// classify makes the attempt what the log has to be told next of the object, as far as the log is known: an addition or an
// update, or before it the deletion of an object that had its name. row is what the ledger has of it, if it exists there. It reports false where
// the log has it already. The caller holds mu.
func (s *stream) classify(o *object, row checkpoint.Row, exists bool) (fresh bool) {
	alive := exists && !row.Deleted
	d := &o.attempt.delta
	switch {
	case d.silent:
		return true
	case d.again:
		return exists && is(row, d.Ident)
	case d.concluded:
		if alive {
			d.UID, d.ResourceVersion, d.Superseded = row.UID, row.ResourceVersion, row.Superseded
		}
		return !exists || alive && row.UID != d.successor
	case exists && s.goesBack(row, &d.Change): // it is told as the watch shows it
	case exists && (!news(row, &d.Change) || s.dead(row, &d.Change)):
		return false
	case alive && row.UID != d.UID:
		o.pending = slices.Insert(o.pending, 0, *d)
		first := s.vanished(d.Namespace, d.Name, row, d.Reason, d.Seen)
		first.successor, first.IDSuffix, first.Listed = d.UID, d.IDSuffix, d.Listed
		o.attempt.delta, o.attempt.rejected = first, nil
	case d.Op == source.Deleted:
	case alive:
		d.Op = source.Updated
	default:
		d.Op = source.Added
	}
	return true
}

// remember moves the ledger to what was just published, or passed over; place says where the object's last event is.
func (s *stream) remember(key string, d *delta, place checkpoint.Row) {
	place.UID, place.ResourceVersion, place.Deleted = d.UID, d.ResourceVersion, d.Op == source.Deleted
	place.Superseded, place.Digest, place.Form = d.Superseded, d.digest, d.form
	place.Again = false
	s.ledger.Put(key, place)
}

// drop ends a change's life: its ticket, its bytes and its body.
func (s *stream) drop(c *source.Change) {
	c.Body.Release()
	c.Body = nil
	s.session.budget.release(c.Size, c.Listed)
	if c.Reason == source.ReasonResync && c.Listed {
		s.resync.room.Release(1)
	}
	if c.Ticket != 0 {
		s.tracker.Settle(uint64(c.Ticket))
	}
}

// safe returns a position that the log is complete up to, also in what it has been told about the stream; empty if there is none.
func (s *stream) safe() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved.Unannounced != (checkpoint.Snapshot{}) || s.distrusted || s.saved.Fingerprint != s.fingerprint {
		return "" // of a position from before other selectors the log need not have everything
	}
	return s.position()
}

// position is the one from which a watch loses nothing; the caller holds mu.
func (s *stream) position() string {
	return cmp.Or(s.held, s.tracker.Position())
}

// Resume implements source.History.
func (s *stream) Resume() (string, iter.Seq[source.Ident], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	position := s.position()
	if position == "" {
		return s.reached(), nil, false
	}
	if s.saved.Fingerprint != s.fingerprint {
		return position, nil, false
	}
	return position, func(yield func(source.Ident) bool) {
		s.mu.Lock()
		defer s.mu.Unlock()
		for key, row := range s.ledger.All() {
			if !yield(ident(key, row)) {
				return
			}
		}
	}, true
}

// reached is the newest version that the log has, or may have had before it lost it; empty where there is none. A server that is older is of another history. The
// caller holds mu.
func (s *stream) reached() string {
	version := s.saved.Repair // a log that has to be filled again was filled from there
	for _, row := range s.ledger.All() {
		if !row.Superseded && (version == "" || after(row.ResourceVersion, version)) {
			version = row.ResourceVersion
		}
	}
	return version
}

// ident is the inverse of source.Ident.Key. Neither a namespace nor a name contains a slash.
func ident(key string, row checkpoint.Row) source.Ident {
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		namespace, name = "", key
	}
	return source.Ident{Namespace: namespace, Name: name, UID: row.UID, ResourceVersion: row.ResourceVersion}
}
