// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

// Written returns when an object was written, in seconds since 1970, as the newest entry of its managedFields says. It
// is 0 where none says so, or body is not a JSON object. Some writes leave no time: those through the scale
// subresource, and those that only remove fields. Two writes of an object in the same second are not told apart.
func Written(body []byte) int64 {
	var w walk
	if w.object(body) != nil {
		return 0
	}
	return w.changed.seconds()
}

// managed reads managedFields, the value at i, and returns where it ends, or -1.
func (w *walk) managed(b []byte, i int) int {
	w.changed, w.manager = stamp{}, nil
	if b[i] != '[' {
		return jsonscan.Skip(b, i)
	}
	if end, ok := w.landmarks(b, i); ok {
		return end
	}
	w.changed, w.manager = stamp{}, nil
	return w.entries(b, i)
}

// entries reads managedFields from byte to byte.
func (w *walk) entries(b []byte, i int) int {
	for i++; ; i++ {
		if i = jsonscan.Space(b, i); i == len(b) {
			return -1
		}
		switch b[i] {
		case ']':
			return i + 1
		case '{':
			o := jsonscan.Open(b, i)
			w.entry(b, &o, false)
			i = o.End()
		default:
			i = jsonscan.Skip(b, i)
		}
		if i < 0 {
			return -1
		}
		if i = jsonscan.Space(b, i); i == len(b) {
			return -1
		}
		if b[i] == ']' {
			return i + 1
		}
		if b[i] != ',' {
			return -1
		}
	}
}

// entry reads one entry: of members that repeat the first. If early it stops when it knows what it wants, or at the
// first value that is not a string, and reports which it was.
func (w *walk) entry(b []byte, o *jsonscan.Object, early bool) bool {
	var at stamp
	var time, manager []byte
	for (time == nil || manager == nil || !early) && o.Next() {
		if early && b[o.Value] != '"' {
			return false
		}
		end := jsonscan.Skip(b, o.Value)
		if o.Keep(end); end < 0 {
			return false
		}
		switch {
		case time == nil && o.Is("time"):
			time = b[o.Value:end]
			at = stampOf(time)
		case manager == nil && o.Is("manager"):
			manager = b[o.Value:end]
		}
	}
	// Which of two managers wrote last within a second is not told: API servers put what was applied before what was
	// updated. An entry without a time is older than all others.
	switch order := bytes.Compare(at[:], w.changed[:]); {
	case order > 0:
		w.changed, w.manager = at, manager
	case order == 0 && !bytes.Equal(manager, w.manager):
		w.manager = nil
	}
	return time != nil && manager != nil
}

// landmarks reads managedFields in the form in which API servers send those of built-in objects: without white space,
// without an array in it, and in each entry manager and time before the fields. The fields, which are most of it, are
// only searched:
//
//   - Behind a quote that closes a string there is never a letter. So a quote with a letter behind it opens one, and
//     the punctuation before it is not in a string.
//   - A bracket ] that is not in a string, with no other bracket before it, ends the array.
//   - Where there is no other array, a comma with a brace { behind it that are not in a string begin the next entry.
//
// Where any of this is in doubt it reports false, and what it has found so far is worth nothing.
func (w *walk) landmarks(b []byte, i int) (end int, ok bool) {
	n := bytes.IndexByte(b[i:], ']')
	if n < 0 || !opens(bytes.TrimLeft(b[i+n+1:], "},")) {
		return 0, false
	}
	end = i + n + 1
	list := b[i+1 : i+n]
	if bytes.IndexByte(list, '[') >= 0 || len(list) == 0 || list[0] != '{' {
		return 0, false
	}
	for {
		first := jsonscan.Open(list, 0)
		if !w.entry(list, &first, true) {
			return 0, false
		}
		n, ok := nextEntry(list)
		if !ok {
			return 0, false
		}
		if n < 0 {
			return end, true
		}
		list = list[n:]
	}
}

// opens reports whether b begins with a quote that opens a string, beyond doubt.
func opens(b []byte) bool {
	return len(b) > 1 && b[0] == '"' && (b[1]|0x20) >= 'a' && (b[1]|0x20) <= 'z'
}

// nextEntry returns where the next entry opens, -1 where there is none, and not ok where that cannot be told.
func nextEntry(list []byte) (n int, ok bool) {
	for i := 0; ; i++ {
		n, ok := commaBrace(list[i:])
		if n < 0 || !ok {
			return -1, ok
		}
		i += n + 1
		switch rest := list[i+1:]; {
		case opens(rest):
			return i, true
		case len(rest) > 0 && rest[0] == '\\':
			// An escape: this is in a string.
		default:
			return -1, false
		}
	}
}

// commaBrace returns the first place of ",{" in b, -1 if there is none. It is not ok if there is white space in b, and
// may not look behind the place it returns. It looks at eight bytes at a time.
func commaBrace(b []byte) (n int, ok bool) {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i, white := 0, uint64(0)
	for ; i <= len(b)-9; i += 8 {
		w := (*[9]byte)(b[i:])
		first, second := binary.LittleEndian.Uint64(w[:8]), binary.LittleEndian.Uint64(w[1:])
		// The highest bit of each byte: whether it is less than ' '+1, whether ",{" is here.
		white |= (first - (' '+1)*ones) &^ first
		differ := (first ^ ','*ones) | (second ^ '{'*ones)
		if zero := (differ - ones) &^ differ & highs; zero != 0 {
			return i + bits.TrailingZeros64(zero)/8, white&highs == 0
		}
	}
	for ; i < len(b); i++ {
		if b[i] <= ' ' {
			return -1, false
		}
		if b[i] == ',' && i+1 < len(b) && b[i+1] == '{' {
			return i, white&highs == 0
		}
	}
	return -1, white&highs == 0
}
