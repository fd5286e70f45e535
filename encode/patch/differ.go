// SPDX-License-Identifier: Apache-2.0

package patch

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

// differ compares two JSON objects, a and b, and writes what leads from one to the other. Neither is decoded: what is
// spelt the same is the same, and only where it is not the members of objects are looked at, in whatever order they
// are. JSON is taken to be valid; of anything else the outcome is arbitrary, but never a panic.
type differ struct {
	a, b []byte
	out  []byte
	// start is where out begins, most how long it may become.
	start, most int
	// path is the JSON pointer of what is compared, as the inside of a JSON string.
	path []byte
	// stack has the members and elements of what is compared, a's before b's, those of the innermost last.
	stack []field
	depth int
}

// field is a member of an object, or an element of a list, which has no name.
type field struct {
	// name has its quotes. Escaped: some character in it is.
	name, value jsonscan.Span
	escaped     bool
	// met says that the other side has it too.
	met bool
}

// newDiffer compares a with b and writes behind dst, at most as much as b has.
func newDiffer(dst, a, b []byte, stack []field) differ {
	return differ{a: a, b: b, out: dst, start: len(dst), most: len(b), stack: stack[:0]}
}

func (d *differ) same(a, b jsonscan.Span) bool {
	return bytes.Equal(d.a[a.From:a.To], d.b[b.From:b.To])
}

// room reports whether what is written is still shorter than b.
func (d *differ) room() bool { return len(d.out)-d.start < d.most }

// enter opens the objects at a and b, or the lists, and returns where on the stack their fields are: a's from there,
// b's from mid. It is not ok where they cannot be compared. Leave must follow.
func (d *differ) enter(a, b jsonscan.Span) (frame, mid int, ok bool) {
	frame = len(d.stack)
	if d.depth++; d.depth > jsonscan.MaxDepth {
		return frame, frame, false
	}
	ok = d.fields(d.a, a)
	mid = len(d.stack)
	return frame, mid, ok && d.fields(d.b, b)
}

func (d *differ) fields(text []byte, at jsonscan.Span) bool {
	if text[at.From] == '[' {
		return d.elements(text, at)
	}
	return d.members(text, at)
}

func (d *differ) leave(frame int) {
	d.depth--
	d.stack = d.stack[:frame]
}

// members pushes the members of the object at a place. It returns false where they cannot be told apart: where a name
// repeats, or is not text.
func (d *differ) members(text []byte, at jsonscan.Span) bool {
	frame := len(d.stack)
	o := jsonscan.Open(text, at.From)
	for o.Next() {
		end := jsonscan.Skip(text, o.Value)
		if o.Keep(end); end < 0 {
			return false
		}
		f := field{
			name:  jsonscan.Span{From: o.Name.From - 1, To: o.Name.To + 1},
			value: jsonscan.Span{From: o.Value, To: end},
		}
		if f.escaped = bytes.IndexByte(text[o.Name.From:o.Name.To], '\\') >= 0; f.escaped ||
			!ascii(text[o.Name.From:o.Name.To]) {
			if _, ok := nameOf(text, &f); !ok {
				return false
			}
		}
		d.stack = append(d.stack, f)
	}
	return o.End() >= 0 && unique(text, d.stack[frame:])
}

// elements is members for lists.
func (d *differ) elements(text []byte, at jsonscan.Span) bool {
	i := jsonscan.Space(text, at.From+1)
	for i < len(text) && text[i] != ']' {
		end := jsonscan.Skip(text, i)
		if end < 0 {
			return false
		}
		d.stack = append(d.stack, field{value: jsonscan.Span{From: i, To: end}})
		if i = jsonscan.Space(text, end); i < len(text) && text[i] == ',' {
			i = jsonscan.Space(text, i+1)
		}
	}
	return i < len(text)
}

func ascii(b []byte) bool {
	for _, c := range b {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// nameOf returns the name that a member has, whose characters may be escaped; false where it is not text.
func nameOf(text []byte, f *field) ([]byte, bool) {
	quoted := text[f.name.From:f.name.To]
	if !f.escaped {
		return quoted[1 : len(quoted)-1], utf8.Valid(quoted)
	}
	name, err := jsontext.AppendUnquote(nil, quoted)
	return name, err == nil
}

// few is up to how many members are compared with each other one by one.
const few = 24

// unique reports whether no two members have the same name.
func unique(text []byte, fields []field) bool {
	if len(fields) > few {
		names := make(map[string]struct{}, len(fields))
		for i := range fields {
			name, _ := nameOf(text, &fields[i])
			names[string(name)] = struct{}{}
		}
		return len(names) == len(fields)
	}
	for i := range fields {
		for k := range i {
			if sameName(text, &fields[i], text, &fields[k]) {
				return false
			}
		}
	}
	return true
}

func sameName(ta []byte, a *field, tb []byte, b *field) bool {
	if !a.escaped && !b.escaped {
		return bytes.Equal(ta[a.name.From:a.name.To], tb[b.name.From:b.name.To])
	}
	x, _ := nameOf(ta, a)
	y, _ := nameOf(tb, b)
	return bytes.Equal(x, y)
}

// pairing finds the member of a that one of b has the name of. Next is where it is if both have the same order.
type pairing struct {
	d          *differ
	frame, mid int
	next       int
	byName     map[string]int
}

// of returns where on the stack the member of a is, and marks it as met; -1 for none.
func (p *pairing) of(b *field) int {
	d := p.d
	if p.next < p.mid && sameName(d.a, &d.stack[p.next], d.b, b) {
		return p.meet(p.next)
	}
	if p.mid-p.frame > few {
		return p.lookUp(b)
	}
	for i := p.frame; i < p.mid; i++ {
		if sameName(d.a, &d.stack[i], d.b, b) {
			return p.meet(i)
		}
	}
	return -1
}

func (p *pairing) lookUp(b *field) int {
	d := p.d
	if p.byName == nil {
		p.byName = make(map[string]int, p.mid-p.frame)
		for i := p.frame; i < p.mid; i++ {
			name, _ := nameOf(d.a, &d.stack[i])
			p.byName[string(name)] = i
		}
	}
	name, _ := nameOf(d.b, b)
	if i, ok := p.byName[string(name)]; ok {
		return p.meet(i)
	}
	return -1
}

func (p *pairing) meet(i int) int {
	p.d.stack[i].met, p.next = true, i+1
	return i
}

// opening returns the places of two objects; false where one is none.
func opening(a, b []byte) (x, y jsonscan.Span, ok bool) {
	x, y = jsonscan.Span{From: jsonscan.Space(a, 0), To: len(a)}, jsonscan.Span{From: jsonscan.Space(b, 0), To: len(b)}
	return x, y, x.From < len(a) && y.From < len(b) && a[x.From] == '{' && b[y.From] == '{'
}
