// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"
)

// members goes through the members of one object. After each next the caller says with keep or drop where the value
// ends.
type members struct {
	b   []byte
	pos int
	// start is the first byte of the member, name what is between its quotes, value the first byte of its value.
	start, value int
	name         span
	// last is the end of the last member that stays, 0 before there is one.
	last int
	// comma says that a comma belongs between pos and the next member.
	comma bool
	// bad says that the object cannot be followed further.
	bad bool
}

// next goes to the next member. It returns false at the end of the object and when that cannot be found.
func (o *members) next() bool {
	if o.bad {
		return false
	}
	i := space(o.b, o.pos)
	if o.comma && i < len(o.b) && o.b[i] == ',' {
		i = space(o.b, i+1)
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
	o.name = span{o.start + 1, i - 1}
	if i = space(o.b, i); i == len(o.b) || o.b[i] != ':' {
		return o.fail()
	}
	if o.value = space(o.b, i+1); o.value == len(o.b) {
		return o.fail()
	}
	return true
}

func (o *members) fail() bool {
	o.bad = true
	return false
}

// end returns the first byte behind the object, or -1.
func (o *members) end() int {
	if o.bad {
		return -1
	}
	return o.pos
}

// keep says that the member ends before end, which is -1 when its end was not found.
func (o *members) keep(end int) {
	o.pos, o.last, o.comma, o.bad = end, end, true, end < 0
}

// drop is keep of a member that is to be left out, with the comma before it, or, where nothing stays before it, the one
// behind it.
func (o *members) drop(end int, c *cuts) {
	if end < 0 {
		o.bad = true
		return
	}
	if o.last > 0 {
		c.add(span{o.last, end})
		o.pos, o.last, o.comma = end, end, true
		return
	}
	o.pos, o.comma = end, true
	if i := space(o.b, end); i < len(o.b) && o.b[i] == ',' {
		o.pos, o.comma = i+1, false
	}
	c.add(span{o.start, o.pos})
}

// is reports whether the member has this name, however it is spelt. The name consists of ASCII.
func (o *members) is(name string) bool {
	v := o.b[o.name.from:o.name.to]
	if len(v) == len(name) {
		return string(v) == name
	}
	// An escape is longer than what it stands for.
	if len(v) < len(name) || bytes.IndexByte(v, '\\') < 0 {
		return false
	}
	u, err := jsontext.AppendUnquote(nil, o.b[o.name.from-1:o.name.to+1])
	return err == nil && string(u) == name
}

// text returns the member's name; nothing where it is no text.
func (o *members) text() string {
	u, err := jsontext.AppendUnquote(nil, o.b[o.name.from-1:o.name.to+1])
	if err != nil {
		return ""
	}
	return string(u)
}

// cuts is a list of ranges in ascending order.
type cuts struct {
	few  [3]span
	n    int
	more []span
	// masked are values that are replaced, in ascending order.
	masked []hit
}

func (c *cuts) len() int { return c.n + len(c.more) }

func (c *cuts) at(i int) span {
	if i < c.n {
		return c.few[i]
	}
	return c.more[i-c.n]
}

func (c *cuts) add(s span) {
	if c.n < len(c.few) {
		c.few[c.n] = s
		c.n++
		return
	}
	c.more = append(c.more, s)
}

// copy appends what the cuts leave of the range r of b. No cut reaches across an end of r.
func (c *cuts) copy(dst, b []byte, r span) []byte {
	if c.masked != nil {
		return c.copyMasked(dst, b, r)
	}
	for _, list := range [...][]span{c.few[:c.n], c.more} {
		for _, s := range list {
			if s.from >= r.from && s.to <= r.to {
				dst = append(dst, b[r.from:s.from]...)
				r.from = s.to
			}
		}
	}
	return append(dst, b[r.from:r.to]...)
}

// space returns the first place from i on that is not white space, len(b) if there is none.
func space(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	return i
}

// lastByte returns the last place of b that is not white space, or 0.
func lastByte(b []byte) int {
	i := len(b) - 1
	for i > 0 && b[i] <= ' ' {
		i--
	}
	return max(i, 0)
}

// skip returns where the value at i ends, or -1.
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	j := i
	for j < len(b) && b[j] > ' ' && b[j] != ',' && b[j] != '}' && b[j] != ']' {
		j++
	}
	if j == i {
		return -1
	}
	return j
}

// skipString returns where the string that opens at i ends, or -1.
func skipString(b []byte, i int) int {
	open := i
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n + 1
		escapes := i - 2
		for escapes > open && b[escapes] == '\\' {
			escapes--
		}
		if (i-2-escapes)%2 == 0 {
			return i
		}
	}
}

// nesting is how a byte outside of strings changes the depth.
var nesting = [256]int8{'{': 1, '[': 1, '}': -1, ']': -1}

// skipNested returns where the object or array that opens at i ends, or -1. From quote to quote bytes are searched, not
// looked at.
func skipNested(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		if b[i] == '"' {
			if i = skipString(b, i); i < 0 {
				return -1
			}
			continue
		}
		depth += int(nesting[b[i]])
		i++
		if depth == 0 {
			return i
		}
	}
	return -1
}
