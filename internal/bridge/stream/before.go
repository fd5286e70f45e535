// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// PrimeTime bounds how long a stream waits for what was before a restart: an API server that answers has told of some
// hundred thousand objects by then, and events are late meanwhile.
const PrimeTime = 20 * time.Second

// PreviousStates is what was before a change.
type PreviousStates struct {
	*Stream
	// Cache has the previous states; nil where nothing needs them.
	Cache *previous.Objects
}

// see takes the object of an attempt over as what was seen last, once the attempt has ended.
func (s *PreviousStates) see(a *delivery.Attempt) {
	if s.Cache != nil && s.Cache.KeepsObjects && a.State == nil && a.Delta.Body != nil && a.Delta.Op != source.Deleted {
		a.State = s.Cache.Pack(a.Delta.Body.Bytes())
	}
}

// stateBefore returns what finds out how the object of an attempt was before, and what is to be called when that is
// needed no more; nil where that is not kept. What is published again is published whatever was before.
func (s *PreviousStates) stateBefore(
	key string, a *delivery.Attempt, row checkpoint.Row,
) (find func() []byte, done func()) {
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
func (s *PreviousStates) missed(a *delivery.Attempt) {
	if !a.Missed {
		a.Missed = true
		s.Figures.Metrics.UnknownOlds.Inc()
	}
}

// EncodeFrom is Encoder.ChangeFrom with what the log has. What the log turned out to have is not known, and an event
// that is published again, or is the first of an epoch, may be for a consumer that has nothing: these are whole.
func (s *PreviousStates) EncodeFrom(o *delivery.Object, row checkpoint.Row) error {
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
func (s *PreviousStates) continues(c *source.Change, row *checkpoint.Row) bool {
	last := row.Last()
	if c.Op == source.Deleted { // it tells the state before, and consumers need not have that
		return c.Again == 0 && s.compares(row) && !row.Behind && !row.Rejected
	}
	order := sequence.Stream{Since: s.Since.Load()}
	return order.FromPatch(eventOf(c), &last)
}

// separable reports whether an event that is too large has the object twice, so that it may not be too large without
// what was before.
func (s *PreviousStates) separable(a *delivery.Attempt, err error) bool {
	return a.Based && !a.Alone && a.Rejected == nil && a.Whole == nil && s.Spec.Encoding.Payload == encode.Change &&
		sink.IsTooLarge(err)
}

// keep takes over what an attempt has left, at its place in the log: from now on that was before. Published: the log
// has the attempt's event, and not something in its place.
//
// What is published again is no base: it has the version of an event that consumers have already, perhaps with other
// data, and they pass over it. Nor is an event in another partition than what it was made from: who reads that
// partition alone needs a whole object there.
func (s *PreviousStates) keep(key string, a *delivery.Attempt, place *checkpoint.Row) {
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
		o = previous.State{UID: d.UID}
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

// Prime finds out what was before the process began, of what is still so at the API server and told in time; of other
// objects it is not known. The error is ctx's.
func (s *PreviousStates) Prime(ctx context.Context) error {
	at := s.primeAt()
	if s.Cache == nil || at == "" {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, s.Env.PrimeTime)
	defer cancel()
	began := time.Now()
	err := kube.ObjectsAt(bounded, s.Env.Client, s.At(), at, s.primeObject)
	objects, _ := s.Cache.Total()
	log := s.Env.Log.With("stream", s.Name, "objects", objects, "of", s.Ledger.Len())
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		log.Info("the previous state of some objects is not known: the first update of each is published whole, and "+
			"filters that need the state publish it", "err", err)
	default:
		log.Info("previous states are read", "after", time.Since(began).Round(time.Millisecond).String())
	}
	return nil
}

// primeAt returns the version at which most objects are as the rows have them: the position's, or a newer one's that
// the log has. It is empty where nothing is to be resumed.
func (s *PreviousStates) primeAt() string {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	at := s.position()
	if s.Cache == nil || at == "" || s.Saved.Owes.List >= sequence.Reselect {
		return ""
	}
	for _, row := range s.Ledger.All() {
		if s.compares(&row) && ledger.After(row.ResourceVersion, at) {
			at = row.ResourceVersion
		}
	}
	return at
}

// primeObject keeps an object that is as its row has it. Of its data the row's form has the last word: an API server of
// another version, or with another schema, serves another object at the same version.
func (s *PreviousStates) primeObject(id source.Ident, body *source.Body) error {
	key := id.Key()
	row, ok := s.Ledger.Get(key)
	o := previous.State{UID: id.UID}
	if !ok || !o.Alive(row) || row.ResourceVersion != id.ResourceVersion {
		return nil
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
		s.Cache.Put(key, o)
	}
	return nil
}
