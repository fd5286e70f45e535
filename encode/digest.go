// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"crypto/sha256"
	"strings"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

// Digester tells whether two states of an object differ in more than what paths name, metadata.resourceVersion,
// metadata.generation and metadata.managedFields. An object of which nothing else is left is the same as none, so that
// the first annotation of an object, if it is one that a path names, is no difference; one that was empty is not. It is
// safe for concurrent use.
type Digester struct {
	root *jsonscan.Node
	// seed makes the digests of other paths, and with other keys, others.
	seed  string
	rooms sync.Pool
}

// NewDigester returns one for these paths. Where digests are of something that is not to be guessed, key keeps who has
// a digest from finding out whether a guess is right; nil means none. Digests with other keys are others.
func NewDigester(ignored []jsonscan.Path, key []byte) *Digester {
	var seed strings.Builder
	if key != nil {
		sum := sha256.Sum256(key)
		seed.Write(sum[:])
	}
	for _, s := range []string{"resourceVersion", "generation", "managedFields"} {
		ignored = append(ignored[:len(ignored):len(ignored)], jsonscan.MustParsePath("metadata."+s))
	}
	for _, p := range ignored {
		for _, s := range p.Steps() {
			kind := "."
			if s.Every {
				kind = "*"
			}
			seed.WriteString(kind + s.Name + "\x00")
		}
		seed.WriteByte('\n')
	}
	return &Digester{
		root: jsonscan.NewTrie(ignored), seed: seed.String(),
		rooms: sync.Pool{New: func() any { return new([]byte) }},
	}
}

// Digest returns a part of the SHA-256 of what matters of an object, as its bytes have it: states that differ in
// spelling, or in the order of members, may have different digests. What is no object has the zero digest. JSON is
// taken to be valid.
func (d *Digester) Digest(object []byte) (digest [16]byte) {
	room, _ := d.rooms.Get().(*[]byte)
	defer d.rooms.Put(room)
	s := summary{b: object, out: append((*room)[:0], d.seed...)}
	end := -1
	if i := jsonscan.Space(object, 0); i < len(object) && object[i] == '{' {
		s.Push(d.root)
		end, _ = s.members(i, 0)
	}
	if *room = s.out; end < 0 {
		return digest
	}
	sum := sha256.Sum256(s.out)
	return [16]byte(sum[:])
}

// summary writes what is left of an object, for a digest.
type summary struct {
	b []byte
	jsonscan.Stack
	depth int
	out   []byte
}

// members writes the object at i, and returns where it ends, or -1, and whether nothing of it is left.
func (s *summary) members(i, frame int) (end int, empty bool) {
	o, top, cut := jsonscan.Open(s.b, i), s.Len(), false
	s.out = append(s.out, '{')
	from := len(s.out)
	for o.Next() {
		s.Member(&o, frame, top)
		s.out = append(s.out, o.Quoted()...)
		switch {
		case s.Ended(top) != nil:
			end, empty = s.leaveOut(&o), true
		default:
			end, empty = s.value(o.Value, top)
		}
		if empty {
			cut = true
			s.out = s.out[:len(s.out)-len(o.Quoted())]
		} else {
			s.out = append(s.out, ',')
		}
		s.Cut(top)
		o.Keep(end)
	}
	if cut && len(s.out) == from {
		s.out = s.out[:from-1]
		return o.End(), true
	}
	s.out = append(s.out, '}')
	return o.End(), false
}

// leaveOut returns where the member's value ends, or -1.
func (s *summary) leaveOut(o *jsonscan.Object) int {
	if o.Is("managedFields") {
		return (&walk{}).managed(s.b, o.Value) // there is a quicker way through them
	}
	return jsonscan.Skip(s.b, o.Value)
}

// elements is members of the array at i, which is never empty.
func (s *summary) elements(i, frame int) (end int) {
	b, top := s.b, s.Len()
	s.out = append(s.out, '[')
	for i++; ; i++ {
		if i = jsonscan.Space(b, i); i == len(b) {
			return -1
		}
		if b[i] == ']' {
			s.out = append(s.out, ']')
			return i + 1
		}
		s.Element(frame, top)
		if s.Ended(top) != nil {
			i = jsonscan.Skip(b, i)
		} else if i, _ = s.value(i, top); i >= 0 {
			s.out = append(s.out, ',')
		}
		s.Cut(top)
		if i < 0 {
			return -1
		}
		if i = jsonscan.Space(b, i); i == len(b) || b[i] != ',' && b[i] != ']' {
			return -1
		}
		if b[i] == ']' {
			i--
		}
	}
}

// value writes the value at i, and returns where it ends, or -1, and whether nothing of it is left.
func (s *summary) value(i, frame int) (end int, empty bool) {
	nested := s.b[i] == '{' || s.b[i] == '['
	if s.Len() == frame || !nested {
		if end = jsonscan.Skip(s.b, i); end >= 0 {
			s.out = append(s.out, s.b[i:end]...)
		}
		return end, false
	}
	if s.depth++; s.depth > jsonscan.MaxDepth {
		return -1, false
	}
	if s.b[i] == '{' {
		end, empty = s.members(i, frame)
	} else {
		end = s.elements(i, frame)
	}
	s.depth--
	return end, empty
}
