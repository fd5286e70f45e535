// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// delta is one change on its way to the log.
type delta struct {
	source.Change
	// silent: it is remembered in its turn, and not published.
	silent bool
	// concluded: an end that no watch has shown. What the log has alive under the name is gone.
	concluded bool
	// precedes: it is the end of another object that had the name of the next one that is pending.
	precedes bool
	// repeated: the log has it, and gets it once more if it has nothing newer by then.
	repeated bool
	// rejected: a rejected event stands in its place.
	rejected bool
	// counted is how many of its changes the checkpoint has counted when their object was refused, and others not.
	counted int
	// digest is what the stream's filter wants to be told when the object changes again. Passed: it has let the change
	// through.
	digest [16]byte
	passed bool
	// form is that of the data that the log has of it, where they are whole and kept.
	form uint32
}

// object is a key with changes pending, or a marker. The workqueue holds objects; at most one worker, and after it one
// acknowledgement, has an object at a time.
type object struct {
	stream *stream
	key    string

	// pending is oldest first, and known what the newest of all changes handed over says. Both are guarded by
	// stream.mu.
	pending []delta
	known   checkpoint.Row

	// What follows belongs to whoever has the object.
	attempt attempt
	done    sink.Done
	// delayed: a timer may still put the object into the queue, so it must not become another one.
	delayed bool
}

// attempt is the publishing of one delta or marker, with what earlier tries have taught.
type attempt struct {
	active    bool
	delta     delta
	marker    *marker
	message   *sink.Message
	published time.Time
	// written is when a watched object was, as far as it tells.
	written time.Time
	// flying: it was handed to the sink, in this window of the acknowledged offsets.
	flying bool
	window uint8
	// previous is what the log was seen to have last, where a check failed before.
	previous  uint64
	conflicts int
	// renumbered: a republished event needs another number.
	renumbered bool
	// sought: a marker that met another message has to be looked for.
	sought bool
	// tooLarge is why the event is published without its object, whole what that is, once it is known.
	tooLarge error
	whole    *whole
	// rejected is why the broker does not take the event itself.
	rejected error
	// state and data are what olds keep of the attempt once it has ended, form what a row has of the latter. Based: the
	// message is made from what was before; alone: it must not be.
	state, data  []byte
	form         uint32
	based, alone bool
	// unknown: the filter has asked for the state before, and it was not known. Missed: that something was not known
	// has been counted.
	unknown, missed bool
	// acknowledged: the broker has the message.
	acknowledged bool
	// blocked is since when the broker does not take the rejection, or the marker, either; zero where it does.
	blocked time.Time
}

// marker is a message about a stream.
type marker struct {
	source.Marker
	ticket source.Ticket
	acked  chan struct{}
	// settled, if not nil, is called when the broker has the marker, and place is where.
	settled func()
	place   uint64
	// again: a process that crashed may have published it already.
	again bool
}

// wait returns when the broker has the marker; at once where there is none. The error is ctx's.
func (m *marker) wait(ctx context.Context) error {
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

// memory is used again: an object for each key with changes pending, a message for each that is unacknowledged.
type memory struct{ objects, messages sync.Pool }

func newMemory() *memory {
	return &memory{
		objects:  sync.Pool{New: func() any { return newObject() }},
		messages: sync.Pool{New: func() any { return &sink.Message{} }},
	}
}

func newObject() *object {
	o := &object{}
	o.done = func(r sink.Receipt, err error) { o.stream.session.settled(o, r, err) }
	return o
}

// recycle gives an object back that no queue holds.
func (o *object) recycle(m *memory) {
	if o.delayed {
		return
	}
	o.stream, o.key, o.known = nil, "", checkpoint.Row{}
	m.objects.Put(o)
}

// push appends a change; the caller holds stream.mu. In latest mode it folds what has not been taken yet. The ticket of
// the oldest stays open, so that all are counted again if the process dies before the event is in the log.
func (o *object) push(d delta, fold bool) (folded *delta) {
	known, exists := o.known, o.known != (checkpoint.Row{})
	if !exists {
		known, exists = o.stream.ledger.Get(o.key)
	}
	o.known = ledger.Apply(known, exists, ledger.RowOfChange(&d.Change))
	if n := len(o.pending); fold && n > 0 {
		if last := &o.pending[n-1]; foldable(last, &d) {
			old := *last
			d.Count, d.counted = count(last)+count(&d), last.counted+d.counted
			d.Ticket, old.Ticket = old.Ticket, d.Ticket
			*last = d
			return &old
		}
	}
	o.pending = append(o.pending, d)
	return nil
}

// foldable: folding stays within one object and one epoch, and no deletion is folded away.
func foldable(older, newer *delta) bool {
	return older.UID == newer.UID && older.Op != source.Deleted && older.silent == newer.silent &&
		older.Listed == newer.Listed && older.Epoch == newer.Epoch && older.Again == newer.Again &&
		older.repeated == newer.repeated
}

// count returns how many changes an event of d stands for.
func count(d *delta) int { return max(d.Count, 1) }

// take makes the oldest pending change the attempt, unless one is under way; the caller holds stream.mu.
func (o *object) take() {
	if o.attempt.active || len(o.pending) == 0 {
		return
	}
	o.attempt = attempt{active: true, delta: o.pending[0]}
	o.stream.carry(o.key, &o.attempt.delta)
	n := copy(o.pending, o.pending[1:])
	o.pending[n] = delta{}
	o.pending = o.pending[:n]
}
