// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Unnumbered is the number of a republished event that has none yet. It gets one before it is published.
const Unnumbered = -1

// Delta is one change on its way to the log.
type Delta struct {
	source.Change
	// Silent: it is remembered in its turn, and not published.
	Silent bool
	// Concluded: an end that no watch has shown. What the log has alive under the name is gone.
	Concluded bool
	// Precedes: it is the end of another object that had the name of the next one that is pending.
	Precedes bool
	// Repeated: the log has it, and gets it once more if it has nothing newer by then.
	Repeated bool
	// Rejected: a rejected event stands in its place.
	Rejected bool
	// Counted is how many of its changes the checkpoint has counted when their object was refused, and others not.
	Counted int
	// Digest is what the stream's filter wants to be told when the object changes again. Passed: it has let the change
	// through.
	Digest [16]byte
	Passed bool
	// Form is that of the data that the log has of it, where they are whole and kept.
	Form uint32
}

// Changes returns how many changes an event of d stands for.
func (d *Delta) Changes() int { return max(d.Count, 1) }

// Date finds when a state was written of which no event is made.
func (d *Delta) Date() {
	if d.Body != nil {
		d.Written = encode.Written(d.Body.Bytes())
	}
}

// Follow says which state the change follows. A change that is published again is no first state, whatever the row
// is of. If the row is of another object of that name, the time of the state before is not known.
func (d *Delta) Follow(row checkpoint.Row) {
	same := row.UID == d.UID && row.ResourceVersion != ""
	d.Follows, d.Before = same || d.Again != 0, 0
	if same {
		d.Before = row.Written
	}
}

// foldable: folding stays within one object and one epoch, and no deletion is folded away.
func foldable(older, newer *Delta) bool {
	return older.UID == newer.UID && older.Op != source.Deleted && older.Silent == newer.Silent &&
		older.Listed == newer.Listed && older.Epoch == newer.Epoch && older.Again == newer.Again &&
		older.Repeated == newer.Repeated
}

// Attempt is the publishing of one delta or marker, with what earlier tries have taught.
type Attempt struct {
	Active  bool
	Delta   Delta
	Marker  *Marker
	Message *sink.Message
	flight
	check
	Made
	// tooLarge is why the event is published without its object, Whole what that is, once it is known.
	tooLarge error
	Whole    *Whole
	// Rejected is why the broker does not take the event itself.
	Rejected error
	// blocked is since when the broker does not take the rejection, or the marker, either; zero where it does.
	blocked time.Time
}

// flight is an attempt's way to the broker.
type flight struct {
	Published time.Time
	// Written is when a watched object was, as far as it tells.
	Written time.Time
	// flying: it was handed to the sink, in this window of the acknowledged offsets.
	flying bool
	window uint8
	// Acknowledged: the broker has the message.
	Acknowledged bool
}

// check is what the broker has said of the last message of an attempt's object.
type check struct {
	// Previous is what the log was seen to have last, where a check failed before.
	Previous  uint64
	Conflicts int
	// renumbered: a republished event needs another number.
	renumbered bool
	// sought: a marker that met another message has to be looked for.
	sought bool
}

// Made is what an attempt's message is made of besides its change, and what is kept of it.
type Made struct {
	// State and Data are what is kept of the attempt once it has ended, Form what a row has of the latter. Based: the
	// message is made from what was before; Alone: it must not be.
	State, Data  []byte
	Form         uint32
	Based, Alone bool
	// Unknown: the filter has asked for the state before, and it was not known. Missed: that something was not known
	// has been counted.
	Unknown, Missed bool
}

// Whole is the data that an event is published without: how large it is, and where, if anywhere.
type Whole struct {
	Size int
	Ref  string
}

// Marker is a message about a stream.
type Marker struct {
	source.Marker
	Ticket source.Ticket
	// Settled, if not nil, is called when the broker has the marker, and Place is where.
	Settled func()
	Place   uint64
	// Again: a process that crashed may have published it already.
	Again bool

	acked chan struct{}
}

// Wait returns when the broker has the marker; at once where there is none. The error is ctx's.
func (m *Marker) Wait(ctx context.Context) error {
	if m == nil {
		return nil
	}
	select {
	case <-m.acked:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// waits reports whether the next step of an attempt waits for something else than an acknowledgement.
func (a *Attempt) waits(o Oversize) bool {
	uploads := o == StoreOversize && a.tooLarge != nil && a.Whole == nil && a.Rejected == nil
	return uploads || a.sought || a.renumbered || a.Delta.Again == Unnumbered
}

// reducible reports whether what the broker refused because of err is to be published without its object.
func (a *Attempt) reducible(o Oversize, err error) bool {
	return o != RejectOversize && a.Marker == nil && a.Rejected == nil && a.tooLarge == nil && sink.IsTooLarge(err)
}

// writtenAt returns when the object of an encoded attempt was written; zero where it was not watched, or does not tell.
func writtenAt(a *Attempt) (t time.Time) {
	if c := &a.Delta.Change; a.Marker == nil && c.Reason == source.ReasonWatch && c.Wrote(c.Written) {
		t = time.Unix(c.Written, 0)
	}
	return t
}
