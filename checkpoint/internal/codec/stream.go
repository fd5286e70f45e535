// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"math"

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
	streamFlags      = streamAlone | streamResynced | streamReplay | streamKind | streamSelected | streamNamespaced | streamCalled
)

// AppendStream appends position, fingerprint, history, unannounced version and objects, gap's from and cause, repair, announced, what is owed, undone, flags,
// and where these say so resynced; a replay's version and number; kind; entered and leaving; what it is called.
func AppendStream(b []byte, s *checkpoint.Stream) []byte {
	b = AppendText(AppendText(b, s.Position), s.Fingerprint)
	b = AppendText(binary.AppendUvarint(b, uint64(s.History)), s.Unannounced.ResourceVersion)
	b = binary.AppendUvarint(b, uint64(s.Unannounced.Objects))
	for _, text := range []string{s.Gap.From, s.Gap.Cause, s.Repair, s.Announced, s.Owed.Version, s.Owed.Cause, s.Undone} {
		b = AppendText(b, text)
	}
	flags := streamHas(s)
	b = append(b, flags)
	if flags&streamResynced != 0 {
		b = binary.AppendUvarint(b, uint64(s.Resynced))
	}
	if flags&streamReplay != 0 {
		b = binary.AppendUvarint(AppendText(b, s.Replay.To), uint64(s.Replay.Number))
	}
	if flags&streamKind != 0 {
		b = AppendText(b, s.Kind)
	}
	if flags&streamSelected != 0 {
		b = AppendText(AppendText(b, s.Entered), s.Leaving)
	}
	if flags&streamCalled != 0 {
		b = AppendText(b, s.Called)
	}
	return b
}

// streamHas returns the flags of what a stream has.
func streamHas(s *checkpoint.Stream) (flags byte) {
	for _, has := range []struct {
		flag byte
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

// DecodeStream returns the stream that all of b holds.
func DecodeStream(b []byte) (s checkpoint.Stream, err error) {
	d := NewDecoder(b)
	s.Position, s.Fingerprint = d.Text(), d.Text()
	history := d.Uvarint()
	s.Unannounced.ResourceVersion = d.Text()
	objects := d.Uvarint()
	for _, text := range []*string{&s.Gap.From, &s.Gap.Cause, &s.Repair, &s.Announced, &s.Owed.Version, &s.Owed.Cause, &s.Undone} {
		*text = d.Text()
	}
	flags := d.Uvarint()
	resynced, number := d.flagged(flags, &s)
	if d.Done() != nil || flags > streamFlags || max(history, objects) > math.MaxInt || max(resynced, number) > math.MaxInt64 {
		return checkpoint.Stream{}, errRest
	}
	s.History, s.Unannounced.Objects, s.Alone, s.Resynced = int(history), int(objects), flags&streamAlone != 0, int64(resynced)
	s.Replay.Number = int64(number)
	if uint64(streamHas(&s)) != flags {
		return checkpoint.Stream{}, errRest // there is one form of each
	}
	return s, nil
}

// flagged reads what is there only where a flag says so.
func (d *Decoder) flagged(flags uint64, s *checkpoint.Stream) (resynced, number uint64) {
	if flags&streamResynced != 0 {
		resynced = d.Uvarint()
	}
	if flags&streamReplay != 0 {
		s.Replay.To, number = d.Text(), d.Uvarint()
	}
	s.Namespaced = flags&streamNamespaced != 0
	if flags&streamKind != 0 {
		s.Kind = d.Text()
	}
	if flags&streamSelected != 0 {
		s.Entered, s.Leaving = d.Text(), d.Text()
	}
	if flags&streamCalled != 0 {
		s.Called = d.Text()
	}
	return resynced, number
}
