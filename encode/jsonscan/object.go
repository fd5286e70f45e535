// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// Span is a range of bytes.
type Span struct{ From, To int }

// Object goes through the members of one object. After each Next the caller says with Keep or Drop where the value
// ends.
type Object struct {
	b   []byte
	pos int
	// start is the first byte of the member.
	start int
	// Name is what is between the quotes of the member's name, Value the first byte of its value.
	Name  Span
	Value int
	// last is the end of the last member that stays, 0 before there is one.
	last int
	// comma says that a comma belongs between pos and the next member.
	comma bool
	// bad says that the object cannot be followed further.
	bad bool
}

// Open returns the members of the object that opens at i.
func Open(b []byte, i int) Object { return Object{b: b, pos: i + 1} }

// Next goes to the next member. It returns false at the end of the object and when that cannot be found.
func (o *Object) Next() bool {
	if o.bad {
		return false
	}
	i := Space(o.b, o.pos)
	if o.comma && i < len(o.b) && o.b[i] == ',' {
		i = Space(o.b, i+1)
	} else if i < len(o.b) && o.b[i] == '}' {
		o.pos = i + 1
		return false
	} else if o.comma {
		return o.fail()
	}
	if i == len(o.b) || o.b[i] != '"' {
		return o.fail()
	}
	o.start = i
	if i = skipString(o.b, i); i < 0 {
		return o.fail()
	}
	o.Name = Span{o.start + 1, i - 1}
	if i = Space(o.b, i); i == len(o.b) || o.b[i] != ':' {
		return o.fail()
	}
	if o.Value = Space(o.b, i+1); o.Value == len(o.b) {
		return o.fail()
	}
	return true
}

func (o *Object) fail() bool {
	o.bad = true
	return false
}

// End returns the first byte behind the object, or -1.
func (o *Object) End() int {
	if o.bad {
		return -1
	}
	return o.pos
}

// Keep says that the member ends before end, which is -1 when its end was not found.
func (o *Object) Keep(end int) {
	o.pos, o.last, o.comma, o.bad = end, end, true, end < 0
}

// Drop is Keep of a member that is to be left out, with the comma before it, or, where nothing stays before it, the one
// behind it.
func (o *Object) Drop(end int, c *Cuts) {
	if end < 0 {
		o.bad = true
		return
	}
	if o.last > 0 {
		c.Add(Span{o.last, end})
		o.pos, o.last, o.comma = end, end, true
		return
	}
	o.pos, o.comma = end, true
	if i := Space(o.b, end); i < len(o.b) && o.b[i] == ',' {
		o.pos, o.comma = i+1, false
	}
	c.Add(Span{o.start, o.pos})
}

// Is reports whether the member has this name, however it is spelt. The name consists of ASCII.
func (o *Object) Is(name string) bool {
	v := o.b[o.Name.From:o.Name.To]
	if len(v) == len(name) {
		return string(v) == name
	}
	// An escape is longer than what it stands for.
	if len(v) < len(name) || bytes.IndexByte(v, '\\') < 0 {
		return false
	}
	u, err := jsontext.AppendUnquote(nil, o.Quoted())
	return err == nil && string(u) == name
}

// Quoted returns the member's name as it is written, with its quotes.
func (o *Object) Quoted() []byte { return o.b[o.Name.From-1 : o.Name.To+1] }

// Text returns the member's name; nothing where it is no text.
func (o *Object) Text() string {
	u, err := jsontext.AppendUnquote(nil, o.Quoted())
	if err != nil {
		return ""
	}
	return string(u)
}
