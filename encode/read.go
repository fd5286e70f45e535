// SPDX-License-Identifier: Apache-2.0

package encode

import "iter"

// Members yields the names of a JSON object, with their quotes, and the values, all as they are written. Nothing is
// copied. JSON is taken to be valid; where it cannot be followed, as where it is no object, that is its end.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i := space(object, 0)
		if i == len(object) || object[i] != '{' {
			return
		}
		o := members{b: object, pos: i + 1}
		for o.next() {
			end := skip(object, o.value)
			if end < 0 || !yield(object[o.name.from-1:o.name.to+1], object[o.value:end]) {
				return
			}
			o.keep(end)
		}
	}
}

// Elements is Members for the values of a JSON array.
func Elements(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := space(list, 0)
		if i == len(list) || list[i] != '[' {
			return
		}
		for {
			i = space(list, i+1)
			if i == len(list) || list[i] == ']' {
				return
			}
			end := skip(list, i)
			if end < 0 || !yield(list[i:end]) {
				return
			}
			if i = space(list, end); i == len(list) || list[i] != ',' {
				return
			}
		}
	}
}
