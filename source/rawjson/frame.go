// SPDX-License-Identifier: Apache-2.0

package rawjson

import (
	"bytes"
	"errors"
	"io"
)

// Type is what a watch says of an object.
type Type uint8

// What a watch says of an object.
const (
	Added Type = iota + 1
	Modified
	Deleted
	Bookmark
	Error
)

// Frame is one event of a watch.
type Frame struct {
	Type Type
	// Object is the object's JSON, within the reader's buffer: valid until the next call of Next.
	Object []byte
}

const (
	// bufferSize holds several frames of a busy watch, so that one read fetches all of them.
	bufferSize = 64 << 10
	// maxFrame is far above what etcd stores (1.5 MiB by default): a longer frame means that the stream is none.
	maxFrame = 64 << 20
)

// Reader cuts the body of a watch into frames. Its buffer starts at 64 KiB and grows to the largest frame.
//
// An API server writes each frame on a line of its own, compacted: {"type":"ADDED","object":{…}}. Such a line is taken
// as it stands, and what is in the object is not looked at. Everything else (whitespace, another order of members,
// frames over several lines or not ended by a newline) is read by matching brackets.
type Reader struct {
	r   io.Reader
	buf []byte
	// buf[start:end] was read and not given out yet.
	start, end int
	// max is the longest frame, in bytes.
	max int
	// err is why nothing more can be read, or why what was read makes no sense.
	err error
}

// NewReader returns a reader of the body of a watch.
func NewReader(r io.Reader) *Reader {
	return &Reader{r: r, buf: make([]byte, bufferSize), max: maxFrame}
}

// Next returns the next frame. The error is io.EOF where the stream ends between frames, io.ErrUnexpectedEOF where it
// ends within one, else the reader's error, or says what is wrong with the frame; it is the same from then on.
func (f *Reader) Next() (Frame, error) {
	if err := f.skipSpace(); err != nil {
		return Frame{}, f.stop(err)
	}
	line, err := f.line()
	if err != nil {
		return Frame{}, f.stop(err)
	}
	if fr, ok := parseLine(line); ok {
		f.start += len(line)
		return fr, nil
	}
	raw, err := f.value()
	if err != nil {
		return Frame{}, f.stop(err)
	}
	f.start += len(raw)
	fr, err := parseFrame(raw)
	if err != nil {
		return Frame{}, f.stop(err)
	}
	return fr, nil
}

// stop makes err the answer to every further call.
func (f *Reader) stop(err error) error {
	f.err, f.start, f.end = err, 0, 0
	return err
}

// skipSpace moves start to the next byte that is no whitespace. The error io.EOF is a good end.
func (f *Reader) skipSpace() error {
	for {
		for ; f.start < f.end; f.start++ {
			switch f.buf[f.start] {
			case ' ', '\t', '\n', '\r':
				continue
			}
			return nil
		}
		if err := f.fill(); err != nil {
			return err
		}
	}
}

// line returns what is read up to the next newline, which is included; nil where the line does not begin as an API
// server's do, or the stream ends before it does: only brackets can tell then.
func (f *Reader) line() ([]byte, error) {
	for searched := 0; ; {
		unread := f.buf[f.start:f.end]
		if n := min(len(unread), len(framePrefix)); string(unread[:n]) != framePrefix[:n] {
			return nil, nil
		}
		if n := bytes.IndexByte(unread[searched:], '\n'); n >= 0 {
			return unread[:searched+n+1], f.check(searched + n)
		}
		searched = len(unread)
		if err := f.check(searched); err != nil {
			return nil, err
		}
		if err := f.fill(); errors.Is(err, io.EOF) {
			return nil, nil
		} else if err != nil {
			return nil, err
		}
	}
}

// value returns the object that begins at start, to the bracket that closes it.
func (f *Reader) value() ([]byte, error) {
	if f.buf[f.start] != '{' {
		return nil, errFrame
	}
	var m matcher
	for searched := 0; ; {
		unread := f.buf[f.start:f.end]
		n, closed := m.match(unread[searched:])
		searched += n
		if err := f.check(searched); err != nil {
			return nil, err
		}
		if closed {
			return unread[:searched], nil
		}
		if err := f.fill(); errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
	}
}

func (f *Reader) check(size int) error {
	if size > f.max {
		return Unreadable("watch frame of more than %d bytes", f.max)
	}
	return nil
}

// fill reads more, at least one byte, and moves what is unread to the front of the buffer.
func (f *Reader) fill() error {
	if f.err != nil {
		return f.err
	}
	if f.start > 0 {
		f.end = copy(f.buf, f.buf[f.start:f.end])
		f.start = 0
	}
	if len(f.buf)-f.end < len(f.buf)/4 {
		// A long frame goes on; small reads would make it slow.
		f.buf = append(f.buf, make([]byte, len(f.buf))...)
	}
	for range 100 {
		n, err := f.r.Read(f.buf[f.end:])
		f.end += n
		f.err = err
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

var errFrame = Unreadable("malformed watch frame")

const (
	framePrefix = `{"type":"`
	objectKey   = `","object":{`
)

// parseLine reads a frame from a line with its newline, if the line is as API servers write it.
func parseLine(line []byte) (Frame, bool) {
	if len(line) < len(framePrefix) {
		return Frame{}, false
	}
	rest := line[len(framePrefix):]
	word := bytes.IndexByte(rest, '"')
	if word < 0 || !bytes.HasPrefix(rest[word:], []byte(objectKey)) || !bytes.HasSuffix(rest, []byte("}}\n")) {
		return Frame{}, false
	}
	t := parseType(rest[:word])
	return Frame{Type: t, Object: rest[word+len(objectKey)-1 : len(rest)-2]}, t != 0
}

// parseFrame reads a frame however it is written. As with encoding/json, the last of several equal members counts.
func parseFrame(raw []byte) (Frame, error) {
	var fr Frame
	var word []byte
	c := cursor{b: raw}
	for key, ok := c.enter(); ok; key, ok = c.next() {
		switch string(key) {
		case "type":
			word = c.text()
		case "object":
			c.peek()
			from := c.pos
			c.skip()
			fr.Object = raw[from:c.pos]
		default:
			c.skip()
		}
	}
	if c.bad || len(fr.Object) == 0 || fr.Object[0] != '{' {
		return Frame{}, errFrame
	}
	if fr.Type = parseType(word); fr.Type == 0 {
		return Frame{}, Unreadable("watch frame of unknown type %.20q", word)
	}
	return fr, nil
}

// parseType returns 0 for a word that it does not know.
func parseType(word []byte) Type {
	switch string(word) {
	case "ADDED":
		return Added
	case "MODIFIED":
		return Modified
	case "DELETED":
		return Deleted
	case "BOOKMARK":
		return Bookmark
	case "ERROR":
		return Error
	default:
		return 0
	}
}

// matcher finds the bracket that closes an object or array, in text that may come in pieces.
type matcher struct {
	depth           int
	quoted, escaped bool
}

// match reads on in b. It returns how far it came, and whether that is just behind the closing bracket.
func (m *matcher) match(b []byte) (n int, closed bool) {
	for i, ch := range b {
		switch {
		case m.escaped:
			m.escaped = false
		case m.quoted:
			m.escaped, m.quoted = ch == '\\', ch != '"'
		case ch == '"':
			m.quoted = true
		case ch == '{', ch == '[':
			m.depth++
		case ch == '}', ch == ']':
			if m.depth--; m.depth == 0 {
				return i + 1, true
			}
		}
	}
	return len(b), false
}
