// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/previous"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// primeTime bounds how long a stream waits for what was before a restart: an API server that answers has told of some
// hundred thousand objects by then, and events are late meanwhile.
const primeTime = 20 * time.Second

// see takes the object of an attempt over as what was seen last, once the attempt has ended.
func (s *stream) see(a *attempt) {
	if s.olds != nil && s.olds.KeepsObjects && a.state == nil && a.delta.Body != nil && a.delta.Op != source.Deleted {
		a.state = s.olds.Pack(a.delta.Body.Bytes())
	}
}

// stateBefore returns what finds out how the object of an attempt was before, and what is to be called when that is
// needed no more; nil where that is not kept. What is published again is published whatever was before.
func (s *stream) stateBefore(key string, a *attempt, row checkpoint.Row) (find func() []byte, done func()) {
	if s.olds == nil || !s.olds.KeepsObjects {
		return nil, func() {}
	}
	r := s.olds.Scratch()
	find = func() []byte {
		if a.unknown = a.delta.Again != 0 || !s.compares(&row); a.unknown {
			return nil
		}
		b := s.olds.Before(key, row, r.Old)
		if a.unknown = b == nil; a.unknown {
			s.missed(a)
			return nil
		}
		r.Old = b
		return b
	}
	return find, func() { s.olds.Return(r) }
}

// missed counts an attempt that needed a previous state which is not known.
func (s *stream) missed(a *attempt) {
	if !a.missed {
		a.missed = true
		s.metrics.UnknownOlds.Inc()
	}
}

// encodeFrom is Encoder.ChangeFrom with what the log has. What the log turned out to have is not known, and an event
// that is published again, or is the first of an epoch, may be for a consumer that has nothing: these are whole.
func (s *stream) encodeFrom(o *object, row checkpoint.Row) error {
	a, k := &o.attempt, s.olds
	d := &a.delta
	r := k.Scratch()
	defer k.Return(r)
	var was encode.Old
	if d.Op != source.Added && a.conflicts == 0 && s.continues(&d.Change, &row) && !a.alone {
		if was = k.Logged(o.key, row, r.Old); was.Data != nil {
			r.Old = was.Data
		} else if d.Op == source.Updated {
			s.missed(a)
		}
	}
	a.based = was.Data != nil
	data, err := s.encoder.ChangeFrom(a.message, &d.Change, was, r.Data)
	if err != nil {
		return err
	}
	r.Data = data
	if d.Op != source.Deleted {
		a.data, a.form = k.Pack(data), s.encoder.Form(data)
	}
	return nil
}

// continues reports whether a change may be told as what differs from the row's state.
func (s *stream) continues(c *source.Change, row *checkpoint.Row) bool {
	last := row.Last()
	if c.Op == source.Deleted { // it tells the state before, and consumers need not have that
		return c.Again == 0 && s.compares(row) && !row.Behind && !row.Rejected
	}
	order := sequence.Stream{Since: s.since.Load()}
	return order.FromPatch(eventOf(c), &last)
}

// separable reports whether an event that is too large has the object twice, so that it may not be too large without
// what was before.
func (s *stream) separable(a *attempt, err error) bool {
	return a.based && !a.alone && a.rejected == nil && a.whole == nil && s.spec.Encoding.Payload == encode.Change &&
		sink.IsTooLarge(err)
}

// keep takes over what an attempt has left, at its place in the log: from now on that was before. Published: the log
// has the attempt's event, and not something in its place.
//
// What is published again is no base: it has the version of an event that consumers have already, perhaps with other
// data, and they pass over it. Nor is an event in another partition than what it was made from: who reads that
// partition alone needs a whole object there.
func (s *stream) keep(key string, a *attempt, place *checkpoint.Row) {
	k, d := s.olds, &a.delta
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
		o.Object, o.Seen = a.state, d.ResourceVersion
	}
	if !a.acknowledged && place.UID == d.UID && place.ResourceVersion == d.ResourceVersion {
		d.form = place.Form // it is the state that the row had
	}
	if a.acknowledged {
		moved := a.based && place.Partition != o.Partition
		o.Data = nil
		// The event that the broker had already may have been encoded otherwise.
		if k.KeepsData && place.Fresh && a.rejected == nil && a.whole == nil && d.Again == 0 && !moved {
			d.form = a.form
			o.Data, o.Version, o.Sequence, o.Partition = a.data, d.ResourceVersion, place.Sequence, place.Partition
		}
	}
	k.Put(key, o)
}

// prime finds out what was before the process began, of what is still so at the API server and told in time; of other
// objects it is not known. The error is ctx's.
func (s *stream) prime(ctx context.Context) error {
	at := s.primeAt()
	if s.olds == nil || at == "" {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, s.session.primeTime)
	defer cancel()
	began := time.Now()
	err := kube.ObjectsAt(bounded, s.session.cfg.Client, s.Stream, at, s.primeObject)
	objects, _ := s.olds.Total()
	log := s.session.log.With("stream", s.name, "objects", objects, "of", s.ledger.Len())
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
func (s *stream) primeAt() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.position()
	if s.olds == nil || at == "" || s.saved.Owes.List >= sequence.Reselect {
		return ""
	}
	for _, row := range s.ledger.All() {
		if s.compares(&row) && ledger.After(row.ResourceVersion, at) {
			at = row.ResourceVersion
		}
	}
	return at
}

// primeObject keeps an object that is as its row has it. Of its data the row's form has the last word: an API server of
// another version, or with another schema, serves another object at the same version.
func (s *stream) primeObject(id source.Ident, body *source.Body) error {
	key := id.Key()
	row, ok := s.ledger.Get(key)
	o := previous.State{UID: id.UID}
	if !ok || !o.Alive(row) || row.ResourceVersion != id.ResourceVersion {
		return nil
	}
	if s.olds.KeepsObjects {
		o.Object, o.Seen = s.olds.Pack(body.Bytes()), id.ResourceVersion
	}
	if s.olds.KeepsData && row.Form != 0 {
		data, err := s.encoder.Data(&source.Change{Op: source.Updated, Ident: id, Body: body})
		if err == nil && s.encoder.Form(data) == row.Form {
			o.Data, o.Version, o.Sequence, o.Partition = s.olds.Pack(data), id.ResourceVersion, row.Sequence,
				row.Partition
		}
	}
	if o.Data != nil || o.Object != nil {
		s.olds.Put(key, o)
	}
	return nil
}
