// SPDX-License-Identifier: Apache-2.0

// Package sequence orders and identifies the events of a pipeline: the format of the attributes sequence and id,
// and the rules for the numbers of the next event.
//
// A sequence has three numbers: epoch, version and step. Sequences of one object compare as text. Versions compare
// within one epoch. A stream takes a greater epoch when they stop to compare, and when its selection or its
// checkpoint changes. The functions are pure. The model test drives them through restores, crashes and losses.
package sequence

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// The steps of a sequence.
const (
	State uint8 = iota
	End         // of an object, seen live or not
)

// Sequence orders the events of one object within a pipeline.
type Sequence struct {
	Epoch, Version uint64
	Step           uint8
}

const (
	epochDigits, versionDigits = 10, 20
	// MaxEpoch is the greatest epoch that has a text.
	MaxEpoch = 9_999_999_999
)

// Compare returns a negative number if s comes before o, and a positive one if it comes after.
func (s Sequence) Compare(o Sequence) int {
	return cmp.Or(cmp.Compare(s.Epoch, o.Epoch), cmp.Compare(s.Version, o.Version), cmp.Compare(s.Step, o.Step))
}

// After reports whether s is greater than o.
func (s Sequence) After(o Sequence) bool { return s.Compare(o) > 0 }

// String returns the value of the attribute sequence. Texts compare as the sequences do.
func (s Sequence) String() string {
	return string(s.Append(make([]byte, 0, epochDigits+versionDigits+3)))
}

// Append appends the value of the attribute sequence. The epoch is at most [MaxEpoch].
func (s Sequence) Append(b []byte) []byte {
	b = append(appendPadded(b, s.Epoch, epochDigits), '.')
	b = append(appendPadded(b, s.Version, versionDigits), '.')
	return append(b, '0'+s.Step)
}

func appendPadded(b []byte, n uint64, digits int) []byte {
	const zeros = "00000000000000000000"
	var stack [20]byte
	text := strconv.AppendUint(stack[:0], n, 10)
	return append(append(b, zeros[:max(0, digits-len(text))]...), text...)
}

// Parse returns the sequence that a text is. A text without dots is of a log that an older version has written.
func Parse(text string) (Sequence, error) {
	epoch, rest, _ := strings.Cut(text, ".")
	version, step, _ := strings.Cut(rest, ".")
	e, err1 := strconv.ParseUint(epoch, 10, 64)
	v, err2 := strconv.ParseUint(version, 10, 64)
	t, err3 := strconv.ParseUint(step, 10, 8)
	s := Sequence{Epoch: e, Version: v, Step: uint8(t)}
	padded := len(epoch) == epochDigits && len(version) == versionDigits && len(step) == 1
	if err1 != nil || err2 != nil || err3 != nil || !padded || s.Step > End {
		return Sequence{}, fmt.Errorf("sequence %q is not <epoch>.<version>.<step>", text)
	}
	return s, nil
}

// AppendID appends the id of an object's event: uid and the three numbers. The uid of an object without one is a
// hash of its partition key.
func (s Sequence) AppendID(b []byte, uid string) []byte {
	b = append(append(b, uid...), '.')
	b = append(strconv.AppendUint(b, s.Epoch, 10), '.')
	b = append(strconv.AppendUint(b, s.Version, 10), '.')
	return append(b, '0'+s.Step)
}

// ID returns what [Sequence.AppendID] appends.
func (s Sequence) ID(uid string) string { return string(s.AppendID(nil, uid)) }

// Republished returns the id of an event that is published again. The number n was committed before its first use.
func Republished(id string, n int64) string { return id + ".r" + strconv.FormatInt(n, 10) }

// Rejected returns the id of the event that replaces a refused one.
func Rejected(id string) string { return id + ".rejected" }

// Applies is the consumer's rule. Remembered is the sequence of the event that the consumer applied last to the
// object, or empty. An event applies if its sequence is greater. If atEqual, whole objects and rejected events
// apply at an equal one too.
func Applies(remembered, event string, whole, atEqual bool) bool {
	return event > remembered || whole && atEqual && event == remembered
}
