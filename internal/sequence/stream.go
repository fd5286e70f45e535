// SPDX-License-Identifier: Apache-2.0

package sequence

// Row is what the log has of one object: its last event.
type Row struct {
	UID string
	Sequence
	// Hash stands for the content; zero is unknown.
	Hash uint64
	// Behind: the log's last message of the object is an older state, published again by a rewind.
	Behind bool
	// Rejected: a rejected event stands in the place of this one, so that no patch can start from it.
	Rejected bool
}

// Ended reports whether the row is of an object that is gone.
func (r *Row) Ended() bool { return r.Step == End }

// Owes is the list that a stream has to make, and to have acknowledged, before its watch goes on. A greater one
// includes a smaller one.
type Owes uint8

// The lists.
const (
	// Nothing: the watch goes on from the position.
	Nothing Owes = iota
	// Relist: a watch expired. Versions compare, and the selection is the one of the rows.
	Relist
	// Reselect is the second case: no position is stored, the selection changed, or the checkpoint was lost.
	Reselect
	// Republish is the first case: everything that exists is published again.
	Republish
	// Repair is Republish between resync markers: the log has lost what it had acknowledged.
	Repair
)

// Stream is what the numbers of a stream's events depend on. It is stored with the stream's position. The commit
// that gives a number stores it for each stream concerned, before an event carries the number.
type Stream struct {
	// Epoch is that of the next change.
	Epoch uint64
	// Since is the number of the stream's last first case. Rows of earlier epochs do not compare by version.
	Since uint64
	// Position is a version up to which everything is in the log; zero is none.
	Position uint64
	Owes     Owes
	// Floors are the positions of the streams that this one took objects from. Each holds until Position has passed
	// it.
	Floors []Floor
	// Rewound is the version up to which a rewind publishes again; zero is none.
	Rewound uint64
}

// Floor is the position up to which the objects of a namespace are in the log.
type Floor struct {
	Namespace string // empty: of all namespaces
	Position  uint64
}

// Compares reports whether versions of the stream compare with that of r.
func (s *Stream) Compares(r *Row) bool { return r.Epoch >= s.Since }

// Incomparable begins the first case with a new number. Position is the one that holds now.
func (s *Stream) Incomparable(epoch, position uint64, owes Owes) {
	*s = Stream{Epoch: epoch, Since: epoch, Position: position, Owes: max(s.Owes, owes)}
}

// Reselected begins the second case with a new number.
func (s *Stream) Reselected(epoch uint64, owes Owes) {
	s.Epoch, s.Owes = epoch, max(s.Owes, owes)
}

// Resume has a stream that goes on, or has taken over rows, hold the greatest epoch of its rows.
func (s *Stream) Resume(newest uint64) { s.Epoch = max(s.Epoch, newest) }

// TakeOver returns the stream that continues the given ones, each with the namespace that it was of. If the selection
// is not the same the caller adds a number of the second case.
func TakeOver(from []Stream, namespaces []string) Stream {
	var to Stream
	for i := range from {
		f := &from[i]
		to.Epoch, to.Since, to.Owes = max(to.Epoch, f.Epoch), max(to.Since, f.Since), max(to.Owes, f.Owes)
		if i == 0 || f.Position < to.Position {
			to.Position = f.Position
		}
	}
	for i := range from {
		f := &from[i]
		if f.Epoch < to.Since { // its versions are of another time than those of the others
			to.Owes = max(to.Owes, Republish)
		}
		if f.Position > to.Position {
			to.Floors = append(to.Floors, Floor{namespaces[i], f.Position})
		}
		to.Floors = append(to.Floors, f.Floors...)
	}
	return to
}

// Below reports whether a watch event is one that the stream, from which the object was taken over, has published.
func (s *Stream) Below(namespace string, version uint64) bool {
	for _, f := range s.Floors {
		if version <= f.Position && (f.Namespace == "" || f.Namespace == namespace) {
			return true
		}
	}
	return false
}

// Mismatch says why versions do not compare: the first case begins. The zero Mismatch is none.
type Mismatch string

// The mismatches.
const (
	ServerOlder   Mismatch = "the server's version is below the position"
	RowNewer      Mismatch = "the server's version is below that of an object in the log"
	ObjectOlder   Mismatch = "an object is older than its last event"
	OtherObject   Mismatch = "an object of another uid is not newer than the last event of its name"
	OtherContent  Mismatch = "an object has the version of its last event, and other content"
	EndNotOlder   Mismatch = "an object exists that would come before the end of its name"
	UnknownObject Mismatch = "an object that is older than the position has no event"
)

// Server compares the version of a server, or of its list, with the stream. Newest is the greatest version of the
// rows that compare.
func (s *Stream) Server(version, newest uint64) Mismatch {
	switch {
	case s.Owes < Republish && version < s.highest():
		return ServerOlder
	case version < newest:
		return RowNewer
	default:
		return ""
	}
}

// highest returns the greatest position that the stream has, or has taken over.
func (s *Stream) highest() uint64 {
	p := s.Position
	for _, f := range s.Floors {
		p = max(p, f.Position)
	}
	return p
}

// Object is one that a list has.
type Object struct {
	UID     string
	Version uint64
	Hash    uint64
	// Pending: its event was refused, and it is recorded as pending.
	Pending bool
}

// Listed compares an object of a list with its row; nil is none.
func (s *Stream) Listed(o Object, last *Row) Mismatch {
	switch {
	case last == nil:
		if s.Owes <= Relist && s.Rewound == 0 && o.Version <= s.Position && !o.Pending {
			return UnknownObject
		}
	case !s.Compares(last):
	case last.Ended():
		if !(Sequence{s.Epoch, o.Version, State}).After(last.Sequence) {
			return EndNotOlder
		}
	case o.Version < last.Version:
		return ObjectOlder
	case o.Version == last.Version && o.UID != last.UID:
		return OtherObject
	case o.Version == last.Version && o.Hash != 0 && last.Hash != 0 && o.Hash != last.Hash:
		return OtherContent
	}
	return ""
}

// Event is one event to publish.
type Event struct {
	UID string
	Sequence
	// Again: the event is a republished one.
	Again bool
}

// Seen is what a watch shows.
type Seen struct {
	UID     string
	Version uint64
	Deleted bool
}

// Watch returns the events of a watch event. Last is the newest state that is published or waits to be; nil is none.
func (s *Stream) Watch(e Seen, last *Row) []Event {
	again := e.Version <= s.Rewound
	switch {
	case last != nil && s.Compares(last) && e.Version <= last.Version:
		if !again && !last.Behind || last.other(e) {
			return nil
		}
		return []Event{{UID: e.UID, Sequence: last.replayed(e), Again: true}}
	case !e.Deleted:
		return s.state(e.UID, e.Version, last, again)
	case last == nil || last.Ended() && !last.Behind:
		return nil
	default:
		return []Event{{UID: last.UID, Sequence: Sequence{s.Epoch, e.Version, End}, Again: again}}
	}
}

// other reports whether a watch shows another object at the row's version: a restore that nothing else has shown
// yet. It is left to the next list, which finds it.
func (r *Row) other(e Seen) bool {
	return !e.Deleted && !r.Ended() && e.Version == r.Version && e.UID != r.UID
}

// replayed returns the sequence of an event that is not newer than the row.
func (r *Row) replayed(e Seen) Sequence {
	switch {
	case !e.Deleted:
		return Sequence{r.Epoch, e.Version, State}
	case r.Ended() && r.UID == e.UID:
		return r.Sequence
	default:
		return Sequence{r.Epoch, e.Version, End}
	}
}

// state returns the events of a new state: before it, the end of another object that had the name.
func (s *Stream) state(uid string, version uint64, last *Row, again bool) []Event {
	return behind(Event{UID: uid, Sequence: Sequence{s.Epoch, version, State}, Again: again}, last)
}

// behind returns an event, and before it the end of another object of the name, unless the event is an older one.
func behind(e Event, last *Row) []Event {
	if last == nil || last.Ended() || last.UID == e.UID || e.Step == End || !e.After(last.Sequence) {
		return []Event{e}
	}
	return []Event{{UID: last.UID, Sequence: Sequence{last.Epoch, last.Version, End}}, e}
}

// Publish returns what is to be published for an event when its turn comes: nothing if the log has that state or
// what comes after it, and before it the end of another object that has the name in the log. Last is the log's last
// event; nil is none. It differs from what was known before only if another bridge has published.
func (s *Stream) Publish(e Event, last *Row) []Event {
	if !e.Again && last != nil {
		same := last.UID == e.UID && last.Version == e.Version && last.Step == e.Step
		if !e.After(last.Sequence) || same && s.Compares(last) {
			return nil
		}
	}
	return behind(e, last)
}

// List returns the events of an object that an owed list has.
func (s *Stream) List(o Object, last *Row) []Event {
	if !s.has(o, last) {
		return s.state(o.UID, o.Version, last, false)
	}
	if last.Behind || s.Owes == Repair { // a repair that begins again tells everything between its own markers
		return []Event{{UID: o.UID, Sequence: last.Sequence, Again: true}}
	}
	return nil
}

// Resync returns the event of an object that the list of a resync has, beside the watch; false if there is none.
// Another state than the log's last one comes with the watch. The resync is complete when the watch has passed the
// list's version.
func (s *Stream) Resync(o Object, last *Row) (Event, bool) {
	if !s.has(o, last) {
		return Event{}, false
	}
	return Event{UID: o.UID, Sequence: last.Sequence, Again: true}, true
}

// has reports whether the row is of this state.
func (s *Stream) has(o Object, last *Row) bool {
	return last != nil && s.Compares(last) && !last.Ended() && last.UID == o.UID && last.Version == o.Version
}

// Missing returns the event of an object that a list at a version does not have; false if there is none.
func (s *Stream) Missing(last *Row, version uint64) (Event, bool) {
	if last.Ended() {
		return Event{UID: last.UID, Sequence: last.Sequence, Again: true}, last.Behind
	}
	return Event{UID: last.UID, Sequence: Sequence{s.Epoch, version, End}}, true
}

// Deselected returns the event of an object that no stream selects any more; false if there is none. Epoch is the
// number of the change, position the one that the object's stream had.
func Deselected(last *Row, epoch, position uint64) (Event, bool) {
	if last.Ended() {
		return Event{UID: last.UID, Sequence: last.Sequence, Again: true}, last.Behind
	}
	return Event{UID: last.UID, Sequence: Sequence{epoch, max(position, last.Version), End}}, true
}

// Apply returns the row that an event in the log leaves, after last; nil is none.
func Apply(last *Row, next Row) Row {
	if last == nil || !last.After(next.Sequence) {
		if last != nil && last.Sequence == next.Sequence {
			next.Rejected = next.Rejected || last.Rejected
			if last.Hash != 0 { // what consumers have; other content at the same sequence has to be found
				next.Hash = last.Hash
			}
		}
		return next
	}
	row := *last
	row.Behind = true
	return row
}

// Late reports whether an event that is found behind the marks of the checkpoint, and is news to the rows, comes
// from a process that another one has replaced: the position says that everything up to it is known. The stream
// owes a list then, because the object may be gone.
func (s *Stream) Late(found Sequence) bool {
	return found.Epoch < s.Epoch || found.Version <= s.Position
}

// FromPatch reports whether an event may be a patch that starts from the object's last published state. All
// consumers have that state then.
func (s *Stream) FromPatch(e Event, last *Row) bool {
	return !e.Again && last != nil && s.Compares(last) && !last.Ended() && !last.Behind && !last.Rejected &&
		last.UID == e.UID && e.Step == State
}
