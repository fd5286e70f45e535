// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// The flags say what a stream has. What they say follows them in this order.
const (
	streamNamespaced = 1 << iota
	streamResyncDue
	streamRetiring
	streamOwes
	streamUnannounced
	streamAnnounced
	streamResynced
	streamReplay
	streamKind
	streamCalled
	streamEntered
	streamAlone
	streamFloors
	streamRefused
	streamReselected
)

// AppendStream appends a stream:
//
//	position, fingerprint   texts
//	epoch, since, counter   uvarints
//	flags                   uvarint
//	owes                    list, from, version, cause, message, number
//	unannounced             version, objects
//	announced, resynced     text, uvarint
//	replay                  version, number
//	kind                    text
//	called                  their number, texts
//	entered                 text
//	floors                  their number, and of each the namespace and the position
//	refused                 their number, and of each the key, the version and the changes
//
// What follows the flags is there where they say so.
func AppendStream(b []byte, s *checkpoint.Stream) []byte {
	f, own := form{b: b}, *s
	f.stream(&own)
	return f.b
}

// DecodeStream returns the stream that all of b holds.
func DecodeStream(b []byte) (s checkpoint.Stream, err error) {
	f := form{d: NewDecoder(b)}
	f.stream(&s)
	if f.d.Done() != nil {
		return checkpoint.Stream{}, errRest
	}
	return s, nil
}

// form goes through the fields of a value in their order. It appends them to b, or where d is not nil sets them to
// what it reads.
type form struct {
	b []byte
	d *Decoder
}

func (f *form) texts(all ...*string) {
	for _, s := range all {
		if f.d != nil {
			*s = f.d.Text()
		} else {
			f.b = AppendText(f.b, *s)
		}
	}
}

// number is one that is not negative.
func number[N int | int64 | uint64 | sequence.Owes](f *form, n *N) {
	if f.d == nil {
		f.b = binary.AppendUvarint(f.b, uint64(*n))
		return
	}
	read := f.d.Uvarint()
	*n = N(read)
	f.d.bad = f.d.bad || *n < 0 || uint64(*n) != read
}

// list returns the length of a list, to which all is set where it is read.
func list[V any](f *form, all *[]V) int {
	n := len(*all)
	number(f, &n)
	if f.d == nil {
		return n
	}
	if f.d.bad = f.d.bad || n > len(f.d.rest); f.d.bad { // each has a byte at least
		return 0
	}
	*all = make([]V, n)
	return n
}

func (f *form) stream(s *checkpoint.Stream) {
	f.texts(&s.Position, &s.Fingerprint)
	number(f, &s.Epoch)
	number(f, &s.Since)
	number(f, &s.Counter)
	flags := streamHas(s)
	number(f, &flags)
	s.Namespaced, s.ResyncDue = flags&streamNamespaced != 0, flags&streamResyncDue != 0
	s.Retiring, s.Alone = flags&streamRetiring != 0, flags&streamAlone != 0
	s.Reselected = flags&streamReselected != 0
	if flags&streamOwes != 0 {
		f.owes(&s.Owes)
	}
	if flags&streamUnannounced != 0 {
		f.texts(&s.Unannounced.ResourceVersion)
		number(f, &s.Unannounced.Objects)
	}
	if flags&streamAnnounced != 0 {
		f.texts(&s.Announced)
	}
	if flags&streamResynced != 0 {
		number(f, &s.Resynced)
	}
	if flags&streamReplay != 0 {
		f.texts(&s.Replay.To)
		number(f, &s.Replay.Number)
	}
	if flags&streamKind != 0 {
		f.texts(&s.Kind)
	}
	if flags&streamCalled != 0 {
		for i := range list(f, &s.Called) {
			f.texts(&s.Called[i])
		}
	}
	if flags&streamEntered != 0 {
		f.texts(&s.Entered)
	}
	if flags&streamFloors != 0 {
		for i := range list(f, &s.Floors) {
			f.texts(&s.Floors[i].Namespace)
			number(f, &s.Floors[i].Position)
		}
	}
	if flags&streamRefused != 0 {
		for i := range list(f, &s.Refused) {
			f.texts(&s.Refused[i].Key, &s.Refused[i].Version)
			number(f, &s.Refused[i].Changes)
		}
	}
	if f.d != nil && flags != streamHas(s) {
		f.d.bad = true // there is one form of each
	}
}

func (f *form) owes(o *checkpoint.Owes) {
	number(f, &o.List)
	f.texts(&o.From, &o.Version, &o.Cause, &o.Message)
	number(f, &o.Number)
	if f.d != nil && o.List > sequence.Repair {
		f.d.bad = true // it is not known what to do
	}
}

// streamHas returns the flags of what a stream has.
func streamHas(s *checkpoint.Stream) (flags int) {
	for _, has := range []struct {
		flag int
		is   bool
	}{
		{streamNamespaced, s.Namespaced},
		{streamResyncDue, s.ResyncDue},
		{streamAlone, s.Alone},
		{streamRetiring, s.Retiring},
		{streamOwes, s.Owes != checkpoint.Owes{}},
		{streamUnannounced, s.Unannounced != checkpoint.Snapshot{}},
		{streamAnnounced, s.Announced != ""},
		{streamResynced, s.Resynced > 0},
		{streamReplay, s.Replay != checkpoint.Replay{}},
		{streamKind, s.Kind != ""},
		{streamCalled, len(s.Called) > 0},
		{streamEntered, s.Entered != ""},
		{streamFloors, len(s.Floors) > 0},
		{streamRefused, len(s.Refused) > 0},
		{streamReselected, s.Reselected},
	} {
		if has.is {
			flags |= has.flag
		}
	}
	return flags
}
