// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"encoding/json"
)

// cursor walks over JSON without validating more of it than it needs. Once bad is set every method returns at
// once, with nothing; the loops over members end.
type cursor struct {
	b   []byte
	pos int
	bad bool
}

func (c *cursor) fail() { c.bad, c.pos = true, len(c.b) }

// peek skips whitespace and returns the byte after it, 0 at the end.
func (c *cursor) peek() byte {
	for c.pos < len(c.b) {
		switch ch := c.b[c.pos]; ch {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return ch
		}
	}
	return 0
}

// expect steps over ch, which must come next.
func (c *cursor) expect(ch byte) {
	if c.peek() != ch {
		c.fail()
		return
	}
	c.pos++
}

// enter steps into the object at the cursor and on to the value of its first member, whose key it returns.
func (c *cursor) enter() (key []byte, ok bool) {
	c.expect('{')
	if c.peek() == '}' {
		c.pos++
		return nil, false
	}
	return c.key()
}

// next steps from behind a member's value to the value of the next member, whose key it returns; behind the last
// one it steps out of the object.
func (c *cursor) next() (key []byte, ok bool) {
	switch c.peek() {
	case ',':
		c.pos++
		return c.key()
	case '}':
		c.pos++
	default:
		c.fail()
	}
	return nil, false
}

func (c *cursor) key() (key []byte, ok bool) {
	key = c.text()
	c.expect(':')
	return key, !c.bad
}

// null steps over the value at the cursor if it is null.
func (c *cursor) null() bool {
	if c.peek() != 'n' || !bytes.HasPrefix(c.b[c.pos:], []byte("null")) {
		return false
	}
	c.pos += len("null")
	return true
}

// text steps over the string at the cursor and returns what it stands for: a part of the JSON, unless something is
// escaped in it.
func (c *cursor) text() []byte {
	c.peek()
	start := c.pos
	contents := c.quoted()
	if bytes.IndexByte(contents, '\\') >= 0 {
		return c.unescape(c.b[start:c.pos])
	}
	return contents
}

// quoted steps over the string at the cursor and returns what stands between its quotes.
func (c *cursor) quoted() []byte {
	if c.pos == len(c.b) || c.b[c.pos] != '"' {
		c.fail()
		return nil
	}
	start := c.pos + 1
	end := closingQuote(c.b, start)
	if end < 0 {
		c.fail()
		return nil
	}
	c.pos = end + 1
	return c.b[start:end]
}

func (c *cursor) unescape(quoted []byte) []byte {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		c.fail()
		return nil
	}
	return []byte(s)
}

// skip steps over the value at the cursor.
func (c *cursor) skip() {
	switch c.peek() {
	case '"':
		c.quoted()
	case '{', '[':
		if !c.skipFlat() {
			c.skipNested()
		}
	default:
		c.skipLiteral()
	}
}

// skipLiteral steps over a number, true, false or null.
func (c *cursor) skipLiteral() {
	start := c.pos
	for ; c.pos < len(c.b); c.pos++ {
		switch ch := c.b[c.pos]; {
		case ch >= '0' && ch <= '9', ch >= 'a' && ch <= 'z', ch == '-', ch == '+', ch == '.', ch == 'E':
			continue
		}
		break
	}
	if c.pos == start {
		c.fail()
	}
}

// skipFlat steps over an object without an object in it, or an array without an array. That is almost everything an API
// server writes before an identity: labels, annotations, and the array of managedFields, long and deep as it is. It
// looks only for the closing bracket, and whether that is in a string: which it is if the number of quotes before it is
// odd.
//
// It returns false, and stays, where there may be a bracket within the brackets.
func (c *cursor) skipFlat() bool {
	opening, quotes := c.b[c.pos], 0
	for at := c.pos + 1; ; {
		// '}' is '{'+2, and ']' is '['+2.
		n := bytes.IndexByte(c.b[at:], opening+2)
		if n < 0 {
			c.fail()
			return true
		}
		part := c.b[at : at+n]
		if bytes.IndexByte(part, opening) >= 0 {
			return false
		}
		quotes += countQuotes(part)
		at += n + 1
		if quotes%2 == 0 {
			c.pos = at
			return true
		}
	}
}

// countQuotes counts the quotes that begin or end a string.
func countQuotes(b []byte) int {
	quotes := bytes.Count(b, []byte{'"'})
	for {
		i := bytes.IndexByte(b, '\\')
		if i < 0 || i+1 == len(b) {
			return quotes
		}
		if b[i+1] == '"' {
			quotes--
		}
		b = b[i+2:]
	}
}

// skipNested steps over any object or array. Of what is in it only the number of brackets counts, not their kind.
func (c *cursor) skipNested() {
	depth := 0
	for i := c.pos; i < len(c.b); i++ {
		switch c.b[i] {
		case '"':
			if i = closingQuote(c.b, i+1); i < 0 {
				c.fail()
				return
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth > 0 {
				continue
			}
			if c.b[i] != c.b[c.pos]+2 {
				c.fail()
				return
			}
			c.pos = i + 1
			return
		}
	}
	c.fail()
}

// closingQuote returns where the string whose contents begin at start ends: the position of its closing quote, -1 if
// there is none.
func closingQuote(b []byte, start int) int {
	for i := start; ; i++ {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n
		// The quote is escaped if an odd number of backslashes stands before it.
		slashes := 0
		for slashes < i-start && b[i-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return i
		}
	}
}
