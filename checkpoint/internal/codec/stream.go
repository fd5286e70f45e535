// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// What follows a stream's texts, in this order.
const (
	streamAlone      = 1 << 0
	streamResynced   = 1 << 1
	streamReplay     = 1 << 2
	streamKind       = 1 << 3
	streamSelected   = 1 << 4
	streamNamespaced = 1 << 5
	streamCalled     = 1 << 6
)

// AppendStream appends position, fingerprint, history, unannounced version and objects, gap's from and cause, repair, announced, what is owed, undone, flags,
// and where these say so resynced; a replay's version and number; kind; entered and leaving; what it is called.
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

// form goes through what is written of something, in its order: it appends to b what it is shown, or where d is not nil, sets that to what it reads.
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
func number[N int | int64](f *form, n *N) {
	if f.d == nil {
		f.b = binary.AppendUvarint(f.b, uint64(*n))
		return
	}
	read := f.d.Uvarint()
	*n = N(read)
	f.d.bad = f.d.bad || *n < 0 || uint64(*n) != read
}

func (f *form) stream(s *checkpoint.Stream) {
	f.texts(&s.Position, &s.Fingerprint)
	number(f, &s.History)
	f.texts(&s.Unannounced.ResourceVersion)
	number(f, &s.Unannounced.Objects)
	f.texts(&s.Gap.From, &s.Gap.Cause, &s.Repair, &s.Announced, &s.Owed.Version, &s.Owed.Cause, &s.Undone)
	flags := streamHas(s)
	number(f, &flags)
	s.Alone, s.Namespaced = flags&streamAlone != 0, flags&streamNamespaced != 0
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
	if flags&streamSelected != 0 {
		f.texts(&s.Entered, &s.Leaving)
	}
	if flags&streamCalled != 0 {
		f.texts(&s.Called)
	}
	if f.d != nil && flags != streamHas(s) {
		f.d.bad = true // there is one form of each
	}
}

// streamHas returns the flags of what a stream has.
func streamHas(s *checkpoint.Stream) (flags int) {
	for _, has := range []struct {
		flag int
		is   bool
	}{
		{streamAlone, s.Alone},
		{streamResynced, s.Resynced > 0},
		{streamReplay, s.Replay != checkpoint.Replay{}},
		{streamKind, s.Kind != ""},
		{streamNamespaced, s.Namespaced},
		{streamSelected, s.Entered+s.Leaving != ""},
		{streamCalled, s.Called != ""},
	} {
		if has.is {
			flags |= has.flag
		}
	}
	return flags
}
