// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"math"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// What follows a stream's texts.
const (
	streamAlone    = 1 << 0
	streamResynced = 1 << 1
	streamReplay   = 1 << 2
	streamKind     = 1 << 3
	streamFlags    = streamAlone | streamResynced | streamReplay | streamKind
)

// AppendStream appends position, fingerprint, history, unannounced version and objects, gap's from and cause, repair, announced, what is owed, undone, flags,
// and where these say so resynced; a replay's version and number; kind.
func AppendStream(b []byte, s *checkpoint.Stream) []byte {
	b = AppendText(AppendText(b, s.Position), s.Fingerprint)
	b = AppendText(binary.AppendUvarint(b, uint64(s.History)), s.Unannounced.ResourceVersion)
	b = binary.AppendUvarint(b, uint64(s.Unannounced.Objects))
	for _, text := range []string{s.Gap.From, s.Gap.Cause, s.Repair, s.Announced, s.Owed.Version, s.Owed.Cause, s.Undone} {
		b = AppendText(b, text)
	}
	flags := byte(0)
	for flag, is := range map[byte]bool{
		streamAlone: s.Alone, streamResynced: s.Resynced > 0, streamReplay: s.Replay != checkpoint.Replay{}, streamKind: s.Kind != "",
	} {
		if is {
			flags |= flag
		}
	}
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
	return b
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
	flags, resynced := d.Uvarint(), uint64(0)
	if flags&streamResynced != 0 {
		if resynced = d.Uvarint(); resynced == 0 {
			return checkpoint.Stream{}, errRest
		}
	}
	number := uint64(0)
	if flags&streamReplay != 0 {
		s.Replay.To, number = d.Text(), d.Uvarint()
		if s.Replay.To == "" && number == 0 {
			return checkpoint.Stream{}, errRest
		}
	}
	if flags&streamKind != 0 {
		if s.Kind = d.Text(); s.Kind == "" {
			return checkpoint.Stream{}, errRest
		}
	}
	if d.Done() != nil || number > math.MaxInt64 || flags > streamFlags || max(history, objects) > math.MaxInt || resynced > math.MaxInt64 {
		return checkpoint.Stream{}, errRest
	}
	s.History, s.Unannounced.Objects, s.Alone, s.Resynced = int(history), int(objects), flags&streamAlone != 0, int64(resynced)
	s.Replay.Number = int64(number)
	return s, nil
}
