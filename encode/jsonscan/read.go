// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"iter"

	"github.com/go-json-experiment/json/jsontext"
)

// Members yields the names of a JSON object, with their quotes, and the values, all as they are written. Nothing is
// copied. JSON is taken to be valid; where it cannot be followed, as where it is no object, that is its end.
func Members(object []byte) iter.Seq2[[]byte, []byte] {
	return func(yield func(name, value []byte) bool) {
		i := Space(object, 0)
		if i == len(object) || object[i] != '{' {
			return
		}
		o := Open(object, i)
		for o.Next() {
			end := Skip(object, o.Value)
			if end < 0 || !yield(o.Quoted(), object[o.Value:end]) {
				return
			}
			o.Keep(end)
		}
	}
}

// Elements is Members for the values of a JSON array.
func Elements(list []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		i := Space(list, 0)
		if i == len(list) || list[i] != '[' {
			return
		}
		for {
			i = Space(list, i+1)
			if i == len(list) || list[i] == ']' {
				return
			}
			end := Skip(list, i)
			if end < 0 || !yield(list[i:end]) {
				return
			}
			if i = Space(list, end); i == len(list) || list[i] != ',' {
				return
			}
		}
	}
}

// AppendQuoted appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendQuoted(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // its only error is that it replaced something
	return dst
}
