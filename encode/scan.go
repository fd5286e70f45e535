// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// walk is what is learnt about an object from its bytes.
//
// It goes from member to member without decoding, and jumps over what it does not need. JSON is taken to be
// valid; of anything else the outcome is arbitrary, or an error, but never a panic. Of members that repeat each is
// cut, and the last one is believed, as decoders do.
type walk struct {
	keepManaged, keepApplied bool
	// dropCopies removes all annotations that copy the object.
	dropCopies bool

	// edits is what to leave out, and what to replace.
	edits redact.Edits
	// metadata is the value of that name; the zero span if there is none, or it is not an object.
	metadata jsonscan.Span
	// managedFields is the last value of that name.
	managedFields jsonscan.Span

	created, changed stamp
	// manager is the JSON string, with its quotes, of the newest managedFields entry.
	manager []byte
}

// object walks an object up to the end of its metadata.
func (w *walk) object(b []byte) error {
	i := jsonscan.Space(b, 0)
	if i == len(b) || b[i] != '{' || b[jsonscan.LastByte(b)] != '}' {
		return jsonscan.ErrNotObject
	}
	o := jsonscan.Open(b, i)
	repeats := false
	for o.Next() {
		if !o.Is("metadata") {
			o.Keep(jsonscan.Skip(b, o.Value))
			continue
		}
		w.metadata, w.created = jsonscan.Span{}, stamp{}
		w.changed, w.manager = stamp{}, nil
		if b[o.Value] != '{' {
			o.Keep(jsonscan.Skip(b, o.Value))
			continue
		}
		end := w.meta(b, o.Value)
		if end < 0 || jsonscan.Space(b, end) == len(b) {
			return jsonscan.ErrNotObject
		}
		w.metadata = jsonscan.Span{From: o.Value, To: end}
		if repeats = repeats || mayRepeat(b[end:]); !repeats {
			return nil
		}
		o.Keep(end)
	}
	if o.End() < 0 {
		return jsonscan.ErrNotObject
	}
	return nil
}

// mayRepeat reports whether a member metadata may follow: its name is there, or escapes that can be its letters.
func mayRepeat(rest []byte) bool {
	const name = `metadata"`
	// Of the name's letters d is the rarest.
	for i := 0; ; i++ {
		n := bytes.IndexByte(rest[i:], 'd')
		if n < 0 {
			break
		}
		if i += n; i >= 4 && i+5 <= len(rest) && string(rest[i-4:i+5]) == name {
			return true
		}
	}
	return hasEscapedLetter(rest)
}

// hasEscapedLetter reports whether there is an escape for a character from 0x60 to 0x7F, as all letters of metadata
// are. Others are frequent: API servers escape <, > and &.
func hasEscapedLetter(b []byte) bool {
	escape := []byte(`\u00`)
	for {
		i := bytes.Index(b, escape)
		if i < 0 || i+len(escape) == len(b) {
			return false
		}
		b = b[i+len(escape):]
		if b[0] == '6' || b[0] == '7' {
			return true
		}
	}
}

// meta walks the object at i and returns where it ends, or -1.
func (w *walk) meta(b []byte, i int) int {
	o := jsonscan.Open(b, i)
	for o.Next() {
		switch {
		case o.Is("managedFields"):
			end := w.managed(b, o.Value)
			w.managedFields = jsonscan.Span{From: o.Value, To: end}
			if w.keepManaged {
				o.Keep(end)
			} else {
				o.Drop(end, &w.edits.Cuts)
			}
		case o.Is("annotations") && b[o.Value] == '{' && !w.keepApplied:
			o.Keep(w.annotations(b, o.Value))
		case o.Is("creationTimestamp"):
			end := jsonscan.Skip(b, o.Value)
			if o.Keep(end); end >= 0 {
				w.created = stampOf(b[o.Value:end])
			}
		default:
			o.Keep(jsonscan.Skip(b, o.Value))
		}
	}
	return o.End()
}

func (w *walk) annotations(b []byte, i int) int {
	o := jsonscan.Open(b, i)
	for o.Next() {
		end := jsonscan.Skip(b, o.Value)
		if o.Is(lastApplied) || w.dropCopies && redact.CopiesObject(&o) {
			o.Drop(end, &w.edits.Cuts)
		} else {
			o.Keep(end)
		}
	}
	return o.End()
}

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
