// SPDX-License-Identifier: Apache-2.0

package previous

import (
	"sync/atomic"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// States is what the attempts of one stream take from the cache, and what they leave in it.
type States struct {
	// Cache has the previous states; nil where nothing needs them.
	Cache   *Objects
	Encoder *encode.Encoder
	// Since is the epoch since which versions compare.
	Since *atomic.Uint64
	// Unknown counts the attempts that needed a previous state which is not known.
	Unknown interface{ Inc() }
}

// See takes the object of an attempt over as what was seen last, once the attempt has ended.
func (s *States) See(a *delivery.Attempt) {
	if s.Cache != nil && s.Cache.KeepsObjects && a.State == nil && a.Delta.Body != nil && a.Delta.Op != source.Deleted {
		a.State = s.Cache.Pack(a.Delta.Body.Bytes())
	}
}

// Before returns what finds out how the object of an attempt was before, and what is to be called when that is needed
// no more; nil where that is not kept. What is published again is published whatever was before.
func (s *States) Before(key string, a *delivery.Attempt, row checkpoint.Row) (find func() []byte, done func()) {
	if s.Cache == nil || !s.Cache.KeepsObjects {
		return nil, func() {}
	}
	r := s.Cache.Scratch()
	find = func() []byte {
		if a.Unknown = a.Delta.Again != 0 || !s.compares(&row); a.Unknown {
			return nil
		}
		b := s.Cache.Before(key, row, r.Old)
		if a.Unknown = b == nil; a.Unknown {
			s.missed(a)
			return nil
		}
		r.Old = b
		return b
	}
	return find, func() { s.Cache.Return(r) }
}

// missed counts an attempt that needed a previous state which is not known.
func (s *States) missed(a *delivery.Attempt) {
	if !a.Missed {
		a.Missed = true
		s.Unknown.Inc()
	}
}

// EncodeFrom is Encoder.ChangeFrom with what the log has. What the log turned out to have is not known, and an event
// that is published again, or is the first of an epoch, may be for a consumer that has nothing: these are whole.
func (s *States) EncodeFrom(o *delivery.Object, row checkpoint.Row) error {
	a, k := &o.Attempt, s.Cache
	d := &a.Delta
	r := k.Scratch()
	defer k.Return(r)
	var was encode.Old
	if d.Op != source.Added && a.Conflicts == 0 && s.continues(&d.Change, &row) && !a.Alone {
		if was = k.Logged(o.Key, row, r.Old); was.Data != nil {
			r.Old = was.Data
		} else if d.Op == source.Updated {
			s.missed(a)
		}
	}
	a.Based = was.Data != nil
	data, err := s.Encoder.ChangeFrom(a.Message, &d.Change, was, r.Data)
	if err != nil {
		return err
	}
	r.Data = data
	if d.Op != source.Deleted {
		a.Data, a.Form = k.Pack(data), s.Encoder.Form(data)
	}
	return nil
}

// continues reports whether a change may be told as what differs from the row's state.
func (s *States) continues(c *source.Change, row *checkpoint.Row) bool {
	last := row.Last()
	if c.Op == source.Deleted { // it tells the state before, and consumers need not have that
		return c.Again == 0 && s.compares(row) && !row.Behind && !row.Rejected
	}
	order := sequence.Stream{Since: s.Since.Load()}
	return order.FromPatch(ledger.EventOf(c), &last)
}

// compares reports whether versions of the stream compare with that of a row.
func (s *States) compares(row *checkpoint.Row) bool { return row.Epoch >= s.Since.Load() }

// Keep takes over what an attempt has left, at its place in the log: from now on that was before. Published: the log
// has the attempt's event, and not something in its place.
//
// What is published again is no base: it has the version of an event that consumers have already, perhaps with other
// data, and they pass over it. Nor is an event in another partition than what it was made from: who reads that
// partition alone needs a whole object there.
func (s *States) Keep(key string, a *delivery.Attempt, place *checkpoint.Row) {
	k, d := s.Cache, &a.Delta
	if k == nil {
		return
	}
	if d.Op == source.Deleted {
		k.Drop(key)
		return
	}
	o := k.Get(key)
	if o.UID != d.UID {
		o = State{UID: d.UID}
	}
	if k.KeepsObjects {
		o.Object, o.Seen = a.State, d.ResourceVersion
	}
	if !a.Acknowledged && place.UID == d.UID && place.ResourceVersion == d.ResourceVersion {
		d.Form = place.Form // it is the state that the row had
	}
	if a.Acknowledged {
		moved := a.Based && place.Partition != o.Partition
		o.Data = nil
		// The event that the broker had already may have been encoded otherwise.
		if k.KeepsData && place.Fresh && a.Rejected == nil && a.Whole == nil && d.Again == 0 && !moved {
			d.Form = a.Form
			o.Data, o.Version, o.Sequence, o.Partition = a.Data, d.ResourceVersion, place.Sequence, place.Partition
		}
	}
	k.Put(key, o)
}

// Load keeps an object that was read, if it is as its row has it. Of its data the row's form has the last word: an API
// server of another version, or with another schema, serves another object at the same version.
func (s *States) Load(row checkpoint.Row, id source.Ident, body *source.Body) {
	o := State{UID: id.UID}
	if !o.Alive(row) || row.ResourceVersion != id.ResourceVersion {
		return
	}
	if s.Cache.KeepsObjects {
		o.Object, o.Seen = s.Cache.Pack(body.Bytes()), id.ResourceVersion
	}
	if s.Cache.KeepsData && row.Form != 0 {
		data, err := s.Encoder.Data(&source.Change{Op: source.Updated, Ident: id, Body: body})
		if err == nil && s.Encoder.Form(data) == row.Form {
			o.Data, o.Version, o.Sequence, o.Partition = s.Cache.Pack(data), id.ResourceVersion, row.Sequence,
				row.Partition
		}
	}
	if o.Data != nil || o.Object != nil {
		s.Cache.Put(id.Key(), o)
	}
}
