// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/encode/redact"
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
