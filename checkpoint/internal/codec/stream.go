// SPDX-License-Identifier: Apache-2.0

package codec

import (
	"encoding/binary"
	"math"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// AppendStream appends position, fingerprint, history, unannounced version and objects, gap's from and cause, repair, announced, what is owed, undone, alone (0 or 1).
func AppendStream(b []byte, s *checkpoint.Stream) []byte {
	b = AppendText(AppendText(b, s.Position), s.Fingerprint)
	b = AppendText(binary.AppendUvarint(b, uint64(s.History)), s.Unannounced.ResourceVersion)
	b = binary.AppendUvarint(b, uint64(s.Unannounced.Objects))
	for _, text := range []string{s.Gap.From, s.Gap.Cause, s.Repair, s.Announced, s.Owed.Version, s.Owed.Cause, s.Undone} {
		b = AppendText(b, text)
	}
	if s.Alone {
		return append(b, 1)
	}
	return append(b, 0)
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
	alone := d.Uvarint()
	if d.Done() != nil || alone > 1 || history > math.MaxInt || objects > math.MaxInt {
		return checkpoint.Stream{}, errRest
	}
	s.History, s.Unannounced.Objects, s.Alone = int(history), int(objects), alone == 1
	return s, nil
}
