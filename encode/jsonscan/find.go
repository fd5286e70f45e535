// SPDX-License-Identifier: Apache-2.0

package jsonscan

import (
	"bytes"
	"strings"
)

// Node is a place that paths lead to, and on from.
type Node struct {
	// end: a path ends here.
	end bool
	// Coded: a text here is base64.
	Coded    bool
	children []child
	every    *Node
	// names is the node without every, nil where it has no children: what is looked for in the elements of a list.
	names *Node
}

type child struct {
	name string
	// quoted is the name as JSON has it where nothing is escaped; nil if something in it may be, other than as \u00.
	quoted []byte
	*Node
}

// NewTrie returns where paths begin; nil if there are none.
func NewTrie(paths []Path) *Node {
	if len(paths) == 0 {
		return nil
	}
	root := &Node{}
	for _, p := range paths {
		at := root
		for _, s := range p.steps {
			at = at.next(s)
		}
		at.end = true
	}
	root.finish()
	return root
}

// next returns the node behind a step, which it adds where there is none.
func (n *Node) next(s Step) *Node {
	if s.Every {
		if n.every == nil {
			n.every = &Node{}
		}
		return n.every
	}
	for _, c := range n.children {
		if c.name == s.Name {
			return c.Node
		}
	}
	c := child{name: s.Name, Node: &Node{}}
	if !strings.ContainsFunc(s.Name, func(r rune) bool { return r >= 0x80 || !nameByte(byte(r)) }) {
		c.quoted = []byte(`"` + s.Name + `"`)
	}
	n.children = append(n.children, c)
	return c.Node
}

// Code says that all texts below a member are base64.
func (n *Node) Code(member string) {
	for _, c := range n.children {
		if c.name == member {
			c.code()
		}
	}
}

func (n *Node) code() {
	n.Coded = true
	for _, c := range n.children {
		c.code()
	}
	if n.every != nil {
		n.every.code()
	}
}

func (n *Node) finish() {
	for _, c := range n.children {
		c.finish()
	}
	switch {
	case len(n.children) == 0:
	case n.every == nil:
		n.names = n
	default:
		n.names = &Node{children: n.children}
		n.names.names = n.names
	}
	if n.every != nil {
		n.every.finish()
	}
}

// MaxDepth is how deep a finder goes: lists in lists do not need a longer path.
const MaxDepth = 1000

// maxLookaheads is how often a finder looks whether the rest of an object can be passed over.
const maxLookaheads = 8

// Hit is a value that a path ends at.
type Hit struct {
	Span
	*Node
}

// Stack has the nodes that apply to a value: they are its end, from where the value's frame begins.
type Stack struct{ nodes []*Node }

// Push puts a node on the stack.
func (s *Stack) Push(n *Node) { s.nodes = append(s.nodes, n) }

// Len returns how many nodes are on the stack: where the next frame begins.
func (s *Stack) Len() int { return len(s.nodes) }

// Cut takes from the stack what is behind the first n nodes.
func (s *Stack) Cut(n int) { s.nodes = s.nodes[:n] }

// Member puts on the stack what the nodes from frame to top have for a member.
func (s *Stack) Member(o *Object, frame, top int) {
	for _, n := range s.nodes[frame:top] {
		for _, c := range n.children {
			if o.Is(c.name) {
				s.nodes = append(s.nodes, c.Node)
				break
			}
		}
		if n.every != nil {
			s.nodes = append(s.nodes, n.every)
		}
	}
}

// Element puts on the stack what the nodes from frame to top have for an element.
func (s *Stack) Element(frame, top int) {
	for _, n := range s.nodes[frame:top] {
		if n.every != nil {
			s.nodes = append(s.nodes, n.every)
		}
		if n.names != nil {
			s.nodes = append(s.nodes, n.names)
		}
	}
}

// Ended returns the node among those from the frame on that a path ends at; nil if there is none.
func (s *Stack) Ended(frame int) *Node {
	for _, n := range s.nodes[frame:] {
		if n.end {
			return n
		}
	}
	return nil
}

// finder goes through an object once, and into those values only that paths lead through; at most to its end.
type finder struct {
	b []byte
	Stack
	depth int
	// lookaheads counts them. Each costs as much as what is left of the object.
	lookaheads int
	// known are values whose ends are known.
	known [2]Span
	hits  []Hit
}

// Find returns the values in b that the paths behind root end at, in the order of their places; none is within another.
// Known are values whose ends are known. The error is ErrNotObject, where b is not one object; JSON is taken to be
// valid.
func Find(b []byte, root *Node, known [2]Span) ([]Hit, error) {
	var room [16]*Node
	f := finder{b: b, Stack: Stack{append(room[:0], root)}, hits: make([]Hit, 0, 8), known: known}
	i := Space(b, 0)
	if i == len(b) || b[i] != '{' {
		return f.hits, ErrNotObject
	}
	if end := f.members(i, 0); end < 0 || Space(b, end) != len(b) {
		return f.hits, ErrNotObject
	}
	return f.hits, nil
}

// members goes through the object at i with the nodes from the frame on, and returns where it ends, or -1.
func (f *finder) members(i, frame int) int {
	o, top := Open(f.b, i), len(f.nodes)
	for o.Next() {
		f.Member(&o, frame, top)
		if frame == 0 && len(f.nodes) == top && f.over(o.Value) {
			return len(f.b)
		}
		end := f.value(o.Value, top)
		f.nodes = f.nodes[:top]
		o.Keep(end)
	}
	return o.End()
}

// over reports whether nothing that is looked for can be behind the value at i of the outermost object, and that value
// is not soon over.
func (f *finder) over(i int) bool {
	root := f.nodes[0]
	if f.b[i] != '{' && f.b[i] != '[' || root.every != nil || f.ends(i) || f.lookaheads == maxLookaheads {
		return false
	}
	f.lookaheads++
	rest := f.b[i:]
	for _, c := range root.children {
		if c.quoted == nil || bytes.Contains(rest, c.quoted) {
			return false
		}
	}
	return !bytes.Contains(rest, []byte(`\u00`))
}

// elements is members of the array at i.
func (f *finder) elements(i, frame int) int {
	b, top := f.b, len(f.nodes)
	if i = Space(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1
	}
	for i < len(b) {
		f.Element(frame, top)
		i = f.value(i, top)
		f.nodes = f.nodes[:top]
		if i < 0 {
			return -1
		}
		if i = Space(b, i); i == len(b) || b[i] == ']' {
			break
		}
		if b[i] != ',' {
			return -1
		}
		i = Space(b, i+1)
	}
	if i == len(b) {
		return -1
	}
	return i + 1
}

// value goes through the value at i with the nodes from the frame on.
func (f *finder) value(i, frame int) (end int) {
	if n := f.Ended(frame); n != nil {
		if end = f.skip(i); end >= 0 {
			f.hits = append(f.hits, Hit{Span{i, end}, n})
		}
		return end
	}
	nested := f.b[i] == '{' || f.b[i] == '['
	if len(f.nodes) == frame || !nested {
		return f.skip(i)
	}
	if f.depth++; f.depth > MaxDepth {
		return -1
	}
	if f.b[i] == '{' {
		end = f.members(i, frame)
	} else {
		end = f.elements(i, frame)
	}
	f.depth--
	return end
}

// skip returns where the value at i ends, or -1.
func (f *finder) skip(i int) int {
	for _, k := range f.known {
		if k.From == i && k.To > i {
			return k.To
		}
	}
	return Skip(f.b, i)
}

// ends reports whether it is known where the value at i ends.
func (f *finder) ends(i int) bool { return i == f.known[0].From || i == f.known[1].From }
