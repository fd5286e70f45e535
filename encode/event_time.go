// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// appendTime appends when c was written, if the object tells. Of the first state that is known it tells when it was
// created.
func (w *walk) appendTime(dst []byte, c *source.Change) []byte {
	switch {
	case c.Wrote(w.changed.seconds()):
		return append(dst, w.changed[:]...)
	case !c.Follows && c.Op != source.Deleted && w.created != stamp{}:
		return append(dst, w.created[:]...)
	default:
		return dst
	}
}

// appendManager appends who wrote c, if the object tells.
func (w *walk) appendManager(dst []byte, c *source.Change) []byte {
	if !c.Wrote(w.changed.seconds()) || len(w.manager) < 2 || w.manager[0] != '"' {
		return dst
	}
	if bytes.IndexByte(w.manager, '\\') < 0 {
		return append(dst, w.manager[1:len(w.manager)-1]...)
	}
	dst, _ = jsontext.AppendUnquote(dst, w.manager)
	return dst
}

// stamp is a time as RFC 3339 in UTC with seconds; the zero stamp is none. Stamps compare as bytes.
type stamp [len("2006-01-02T15:04:05Z")]byte

// stampOf reads a JSON value. What is not a string with a time gives none.
func stampOf(v []byte) (s stamp) {
	if v[0] != '"' {
		return stamp{}
	}
	if in := v[1 : len(v)-1]; canonical(in) {
		return stamp(in)
	}
	u, err := jsontext.AppendUnquote(nil, v)
	if err != nil {
		return stamp{}
	}
	t, err := time.Parse(time.RFC3339, string(u))
	if t = t.UTC(); err != nil || t.Year() < 0 || t.Year() > 9999 {
		return stamp{}
	}
	t.AppendFormat(s[:0], time.RFC3339)
	return s
}

// seconds returns the seconds since 1970 that a stamp stands for; 0 of the zero stamp.
func (s *stamp) seconds() int64 {
	if *s == (stamp{}) {
		return 0
	}
	n := func(from, to int) (n int) {
		for _, digit := range s[from:to] {
			n = 10*n + int(digit-'0')
		}
		return n
	}
	return time.Date(n(0, 4), time.Month(n(5, 7)), n(8, 10), n(11, 13), n(14, 16), n(17, 19), 0, time.UTC).Unix()
}

// canonical reports whether v is a stamp beyond doubt. It doubts the ends of months.
func canonical(v []byte) bool {
	const like = "dddd-dd-ddTdd:dd:ddZ"
	if len(v) != len(like) {
		return false
	}
	for i, c := range v {
		if digit := c >= '0' && c <= '9'; like[i] == 'd' && !digit || like[i] != 'd' && c != like[i] {
			return false
		}
	}
	two := func(i int) byte { return 10*(v[i]-'0') + v[i+1] - '0' }
	return two(5) >= 1 && two(5) <= 12 && two(8) >= 1 && two(8) <= 28 && two(11) < 24 && two(14) < 60 && two(17) < 60
}
