// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// stream is the far side of one reader.Reader: its Feed and its History. The reader calls Deliver and Note one at a
// time, but for bookmarks.
type stream struct {
	source.Stream
	name    string
	spec    *StreamSpec
	session *session
	encoder *encode.Encoder
	metrics *health.Stream
	status  *status
	tracker *ledger.Tracker
	// olds are the previous states; nil where nothing needs them.
	olds *previous.Objects

	// mu guards the ledger, the pending changes of the objects, and what follows.
	mu      sync.Mutex
	ledger  *ledger.Ledger
	pending map[string]*object
	// saved is what the store has to say of the stream besides its position; committed what was committed last, and the
	// committer's own.
	saved       checkpoint.Stream
	committed   checkpoint.Stream
	fingerprint string
	// stored: the store knows the stream. It is the committer's own, as committed is.
	stored bool
	// savedAt is the position that the store has.
	savedAt atomic.Pointer[string]
	// epoch and since are those of what is read now. Saved may have those of the list that follows already.
	epoch uint64
	since atomic.Uint64
	// completing is the marker that a dead process owed; nil if it owed none. Nothing that is read may precede it.
	completing *marker
	// announcing is the marker of a list that began, until the broker has it.
	announcing *marker
	// listing is the reason of the changes that the running list brings, at its version.
	listing   source.Reason
	listingAt uint64
	// opened is where the log has the marker with which the repair or resync began that runs. Untold: before it the log
	// has a state that this process does not publish again, because another process has published it.
	opened uint64
	untold bool
	// complete is a list that is complete, until its version is the position.
	complete *source.Progress
	// mismatch is why what is read does not compare with what the log has; then nothing more that is listed is
	// published. Where a watch has shown it, the position stays at held until the next epoch begins.
	mismatch *source.RewoundError
	held     string
	// again makes the stream list, when it is sent why. Distrusted: the log was seen to lack something that exists, and
	// no list was made since.
	again      chan source.Why
	distrusted bool
	// left are the namespaces of what was to be deleted when the stream began to retire; nil if it does not.
	left      map[string]struct{}
	refused   *refused.Objects
	resync    resyncs
	incidents *health.StreamIncidents
	rate      health.Rate
	// often is for saying what may be true of every event.
	often often
}

// often limits how often a stream says each.
type often struct{ unencodable, contested, rejected, refused, undecided, oversized, unkept rate.Sometimes }

func (o *often) set(interval time.Duration) {
	for _, s := range []*rate.Sometimes{
		&o.unencodable, &o.contested, &o.rejected, &o.refused, &o.undecided, &o.oversized,
		&o.unkept,
	} {
		s.Interval = interval
	}
}

// Admit implements source.Feed.
func (s *stream) Admit(ctx context.Context, version string, size int) (source.Ticket, error) {
	budget, listed := s.session.budget, version == ""
	if !listed {
		if err := budget.AwaitGone(ctx, s.mayRead); err != nil {
			return 0, err
		}
	}
	if err := budget.Acquire(ctx, size, listed); err != nil {
		return 0, err
	}
	return source.Ticket(s.tracker.Open(version, time.Now())), nil
}

// mayRead reports whether a watch may be read although much is held of deleted objects: where the stream itself holds
// no more of them than its share, so that one whose position stays does not stop others, or all that it has read is in
// the log, and its position saved. Then the next object shows that the version before is complete, and where the
// position moves it makes room.
func (s *stream) mayRead() bool {
	if s.ledger.Held() < s.session.share() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tracker.Pending() == 0 && *s.savedAt.Load() == s.resumable()
}

// share is how much each stream may hold of deleted objects when all together hold half of the limit or more: with
// those that hold most they take the limit then.
func (p *session) share() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.budget.Limit() / 2 / int64(max(len(p.streams), 1))
}

// Deliver implements source.Feed: what is not news is dropped, the rest waits for its turn.
func (s *stream) Deliver(c source.Change) {
	key := c.Key()
	s.mu.Lock()
	defer s.mu.Unlock()
	known, exists := s.known(key)
	last := ledger.LastOf(&known, exists)
	c.Epoch, c.Version = s.epoch, s.number(c.ResourceVersion, &known)
	listed := c.Listed && c.Reason != source.ReasonRecovered
	if listed {
		s.ledger.Seen(key)
		c.Reason = s.listing
	}
	if !listed {
		s.refused.Shown(key, c.ResourceVersion)
	}
	s.compare(&c, last, listed)
	if s.leaves(&c, last) {
		s.drop(&c)
		return
	}
	if !listed && s.taken(&c) || !s.next(&c, last, listed) {
		s.metrics.Suppressed.Inc()
		s.drop(&c)
		return
	}
	d := delta{Change: c, silent: s.spec.SkipSnapshot && s.begins(&c, exists)}
	if !listed && s.refused.Counted(key, c.ResourceVersion) {
		d.counted = 1
	}
	s.enqueue(key, d)
}

// taken reports whether a watch shows what the stream has published from which the object was taken over. The caller
// holds mu.
func (s *stream) taken(c *source.Change) bool {
	if len(s.saved.Floors) == 0 {
		return false
	}
	order := s.order()
	return order.Below(c.Namespace, c.Version)
}

// compare finds out whether a change cannot be of the time that the log has the object's last event of. The caller
// holds mu.
func (s *stream) compare(c *source.Change, last *sequence.Row, listed bool) {
	if s.revived(c, last) {
		s.revoke(c, strconv.FormatUint(last.Version, 10))
		return
	}
	if !listed || last != nil && last.Version > s.listingAt { // a list behind a gap may be older than what was published
		return
	}
	object := objectOf(c.UID, c.Version, c.Body.Bytes(), last)
	object.Pending = s.refused.Has(c.Key())
	if order := s.order(); order.Listed(object, last) == "" {
		return
	}
	logged := s.position()
	if last != nil {
		logged = strconv.FormatUint(last.Version, 10)
	}
	s.revoke(c, logged)
}

// objectOf returns a listed object for the rules of package sequence. Of one that has the version of its row, when it
// was written stands for what it holds. Raw, its JSON, is looked at where the row says that too.
func objectOf(uid string, version uint64, raw []byte, last *sequence.Row) sequence.Object {
	o := sequence.Object{UID: uid, Version: version}
	if last != nil && last.Hash != 0 && last.Version == version {
		o.Hash = uint64(encode.Written(raw))
	}
	return o
}

// leaves reports whether a change that does not compare is left to the list of the next epoch, which shows what came of
// it. The caller holds mu.
func (s *stream) leaves(c *source.Change, last *sequence.Row) bool {
	return s.mismatch != nil && c.Epoch == s.epoch && (c.Listed || s.revived(c, last))
}

// revived reports whether an object is there again, and newer, that was deleted: a uid has one life. Into a selection
// it can come back: an end of an epoch before may be of an object that was not selected any more.
func (s *stream) revived(c *source.Change, last *sequence.Row) bool {
	if last == nil || c.Op == source.Deleted || !last.Ended() || last.UID != c.UID || s.Selective() {
		return false
	}
	order := s.order()
	return last.Epoch >= order.Epoch && c.Version > max(last.Version, order.Rewound)
}

// next decides by the rules of package sequence whether a change is to be published, and completes it.
func (s *stream) next(c *source.Change, last *sequence.Row, listed bool) bool {
	order := s.order()
	var events []sequence.Event
	if listed {
		events = order.List(sequence.Object{UID: c.UID, Version: c.Version}, last)
	} else {
		events = order.Watch(sequence.Seen{UID: c.UID, Version: c.Version, Deleted: c.Op == source.Deleted}, last)
	}
	if len(events) == 0 {
		return false
	}
	e := events[len(events)-1]
	if c.Op != source.Deleted || e.Again { // else classify finds whose end it is
		c.UID = e.UID
	}
	c.Epoch, c.Version = e.Epoch, e.Version
	if listed && s.saved.Owes.List == sequence.Repair {
		c.Reason = source.ReasonRepair
	}
	if !e.Again {
		return true
	}
	c.Again = s.repetition()
	if c.Reason == source.ReasonWatch {
		c.Reason = source.ReasonResync
	}
	return true
}

// unnumbered is the number of a republished event that has none yet. It gets one before it is published.
const unnumbered = -1

// repetition returns the number of an event that is published again, of a repair or a rewind. The caller holds mu.
func (s *stream) repetition() int64 {
	return cmp.Or(s.saved.Owes.Number, s.saved.Replay.Number, unnumbered)
}

// begins reports whether a change only shows what there was when the stream began. Where the checkpoint was lost it
// begins again, but for what the log has.
func (s *stream) begins(c *source.Change, known bool) bool {
	return c.Reason == source.ReasonSnapshot ||
		c.Reason == source.ReasonRelist && !known && s.saved.Owes.Cause == string(source.CauseCheckpointLost)
}

// known is the newest that was handed over of an object, published or not.
func (s *stream) known(key string) (checkpoint.Row, bool) {
	if o := s.pending[key]; o != nil {
		return o.known, true
	}
	return s.ledger.Get(key)
}

// end is the end of an object that no watch has shown, with the numbers of an event that the rules have given.
func (s *stream) end(key string, row *checkpoint.Row, e sequence.Event, reason source.Reason, seen time.Time) delta {
	s.metrics.Synthesized.Inc()
	at := ident(key, row)
	return delta{concluded: true, Change: source.Change{
		Op: source.Deleted, Ident: at, Reason: reason, Seen: seen, Listed: true, Epoch: e.Epoch, Version: e.Version,
	}}
}

// enqueue puts a change in its object's queue; the caller holds mu.
func (s *stream) enqueue(key string, d delta) {
	o := s.pending[key]
	if o == nil {
		if d.silent && s.spec.Filter == nil {
			row, _ := s.ledger.Get(key)
			d.date()
			s.remember(key, &d, row)
			s.drop(&d.Change)
			return
		}
		o = s.session.memory.objects.Get().(*object)
		o.stream, o.key = s, key
		s.pending[key] = o
		s.session.inFlight.Enter()
	}
	if folded := o.push(d, s.spec.Latest); folded != nil {
		// It waits already. If it were added once more, while a worker is about to take what waits, the queue would
		// have it when nothing does.
		s.drop(&folded.Change)
		return
	}
	s.session.queue.Add(o)
}

// classify makes the attempt what the log has to be told next of the object, as far as the log is known: an addition or
// an update, or before it the deletion of an object that had its name. row is what the ledger has of it, if it exists
// there. It reports false where the log has it already. The caller holds mu.
func (s *stream) classify(o *object, row checkpoint.Row, exists bool) (fresh bool) {
	d := &o.attempt.delta
	last := ledger.LastOf(&row, exists)
	if d.endsAnother(last) {
		d.concluded, d.Reason = true, source.ReasonRelist
		d.Body.Release()
		d.Body = nil
	}
	if d.concluded && last != nil && !last.Ended() {
		d.UID, d.ResourceVersion = row.UID, row.ResourceVersion
	}
	switch {
	case d.silent:
		return true
	case d.Op == source.Deleted && d.Again == 0 && last != nil && last.Ended() && last.UID == d.UID:
		return false // it has ended already
	case d.repeated: // only as long as it is the last state
		return exists && s.is(&row, d.Ident, d.Written)
	}
	order := s.order()
	events := order.Publish(eventOf(&d.Change), last)
	switch {
	case len(events) == 0:
		return false
	case len(events) == 2 && !lostFromLog(&row): // else the log has nothing that could end
		first := s.end(o.key, &row, events[0], d.Reason, d.Seen)
		first.Listed, first.precedes = d.Listed, true
		o.pending = slices.Insert(o.pending, 0, *d)
		o.attempt.delta, o.attempt.rejected = first, nil
		return true
	}
	switch {
	case d.Op == source.Deleted:
	case d.Again != 0 && !d.Listed: // the row is of a later state: it is what the watch says
	case last != nil && !last.Ended() && !lostFromLog(&row):
		d.Op = source.Updated
	default:
		d.Op = source.Added
	}
	return true
}

// endsAnother reports whether a watch has shown the end of an object, and the log has another one alive under its name.
// The broker has refused the end of that, and everything since.
func (d *delta) endsAnother(last *sequence.Row) bool {
	return d.Op == source.Deleted && d.Again == 0 && !d.concluded && last != nil && !last.Ended() && last.UID != d.UID
}

// lostFromLog reports whether the log had an event of a row's object, and has lost all of them.
func lostFromLog(row *checkpoint.Row) bool { return row.Behind && row.Sequence == 0 }

// eventOf returns a change for the rules of package sequence.
func eventOf(c *source.Change) sequence.Event {
	e := sequence.Event{
		UID: c.UID, Sequence: sequence.Sequence{Epoch: c.Epoch, Version: c.Version}, Again: c.Again != 0,
	}
	if c.Op == source.Deleted {
		e.Step = sequence.End
	}
	return e
}

// remember moves the ledger to what was just published, or passed over; place says where the object's last event is.
func (s *stream) remember(key string, d *delta, place checkpoint.Row) {
	next := ledger.RowOfChange(&d.Change)
	next.Rejected, next.Digest, next.Form = d.rejected, d.digest, d.form
	next.Sequence, next.Partition, next.Fresh = place.Sequence, place.Partition, place.Fresh
	known, exists := s.ledger.Get(key)
	s.ledger.Put(key, ledger.Apply(known, exists, next))
}

// date finds when a state was written of which no event is made.
func (d *delta) date() {
	if d.Body != nil {
		d.Written = encode.Written(d.Body.Bytes())
	}
}

// drop ends a change's life: its ticket, its bytes and its body.
func (s *stream) drop(c *source.Change) {
	c.Body.Release()
	c.Body = nil
	s.session.budget.Release(c.Size, c.Listed)
	if c.Reason == source.ReasonResync && c.Listed {
		s.resync.room.Release(1)
	}
	if c.Ticket != 0 {
		s.tracker.Settle(uint64(c.Ticket))
	}
}

// safe returns a position that the log is complete up to, also in what it has been told about the stream; empty if
// there is none.
func (s *stream) safe() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.saved.Unannounced != (checkpoint.Snapshot{}) || s.distrusted || s.saved.Owes.List >= sequence.Reselect {
		return "" // of a position from before another selection the log need not have everything
	}
	return s.position()
}

// position is the one from which a watch loses nothing; the caller holds mu.
func (s *stream) position() string {
	return cmp.Or(s.held, s.tracker.Position())
}

// resumable returns the position that a commit saves: none where everything is listed again. The caller holds mu.
func (s *stream) resumable() string {
	if s.saved.Owes.List >= sequence.Republish {
		return ""
	}
	return s.position()
}

// Resume implements source.History.
func (s *stream) Resume() (string, iter.Seq2[source.Ident, bool], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	position := s.position()
	if position == "" || s.saved.Owes.List >= sequence.Reselect {
		return s.reached(position), nil, false
	}
	return position, s.knownIdents, true
}

// knownIdents yields what the log has, or is about to get, and whether it is what the object is, each as it is when its
// turn comes. Changes go on meanwhile.
func (s *stream) knownIdents(yield func(id source.Ident, current bool) bool) {
	tell := func(key string) bool {
		s.mu.Lock()
		row, exists := s.known(key)
		lacks := s.refused.Has(key)
		s.mu.Unlock()
		return !exists || row.Deleted || yield(ident(key, &row), !lacks)
	}
	for key := range s.ledger.All() {
		if !tell(key) {
			return
		}
	}
	for _, key := range s.unacknowledged() {
		if !tell(key) {
			return
		}
	}
}

// unacknowledged returns the keys of the objects that are on their way to the log, and that it does not have.
func (s *stream) unacknowledged() (keys []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.pending {
		if row, exists := s.ledger.Get(key); !exists || row.Deleted {
			keys = append(keys, key)
		}
	}
	return keys
}

// reached is the newest version that compares: of the position, or of what the log has; empty where there is none. A
// server that is older does not compare. The caller holds mu.
func (s *stream) reached(position string) string {
	newest := s.ledger.Newest(s.since.Load())
	for _, f := range s.saved.Floors {
		newest = max(newest, f.Position)
	}
	switch {
	case s.saved.Owes.List < sequence.Republish && ledger.Numeric(position) >= newest:
		return position
	case newest == 0 || s.saved.Counter > 0:
		return ""
	}
	return strconv.FormatUint(newest, 10)
}

// newest is [stream.reached] of what was published by now.
func (s *stream) newest() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reached(s.position())
}

// ident is the inverse of source.Ident.Key. Neither a namespace nor a name contains a slash.
func ident(key string, row *checkpoint.Row) source.Ident {
	namespace, name, found := strings.Cut(key, "/")
	if !found {
		namespace, name = "", key
	}
	return source.Ident{Namespace: namespace, Name: name, UID: row.UID, ResourceVersion: row.ResourceVersion}
}
