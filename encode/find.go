// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"bytes"
	"strings"
)

// node is a place that paths lead to, and on from.
type node struct {
	// end: a path ends here.
	end bool
	// coded: a text here is base64.
	coded    bool
	children []child
	every    *node
	// names is the node without every, nil where it has no children: what is looked for in the elements of a list.
	names *node
}

type child struct {
	name string
	// quoted is the name as JSON has it where nothing is escaped; nil if something in it may be, other than as \u00.
	quoted []byte
	*node
}

// newTrie returns where paths begin; nil if there are none.
func newTrie(paths []Path) *node {
	if len(paths) == 0 {
		return nil
	}
	root := &node{}
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
func (n *node) next(s step) *node {
	if s.every {
		if n.every == nil {
			n.every = &node{}
		}
		return n.every
	}
	for _, c := range n.children {
		if c.name == s.name {
			return c.node
		}
	}
	c := child{name: s.name, node: &node{}}
	if !strings.ContainsFunc(s.name, func(r rune) bool { return r >= 0x80 || !nameByte(byte(r)) }) {
		c.quoted = []byte(`"` + s.name + `"`)
	}
	n.children = append(n.children, c)
	return c.node
}

func (n *node) finish() {
	for _, c := range n.children {
		c.finish()
	}
	switch {
	case len(n.children) == 0:
	case n.every == nil:
		n.names = n
	default:
		n.names = &node{children: n.children}
		n.names.names = n.names
	}
	if n.every != nil {
		n.every.finish()
	}
}

// maxDepth is how deep a finder goes: lists in lists do not need a longer path.
const maxDepth = 1000

// maxGlances is how often a finder looks whether the rest of an object can be passed over.
const maxGlances = 8

// hit is a value that a path ends at.
type hit struct {
	span
	*node
}

// finder goes through an object once, and into those values only that paths lead through; at most to its end.
type finder struct {
	b []byte
	// nodes is a stack: those that apply to a value are its end, from where the value's frame begins.
	nodes []*node
	depth int
	// glances counts the looks ahead. Each costs as much as what is left of the object.
	glances int
	// known are values whose ends are known.
	known [2]span
	// hits are in the order of their places, and none is within another.
	hits []hit
}

// object goes through b, which must be one object. The error is errNotObject; JSON is taken to be valid, as in walk.
func (f *finder) object(root *node) error {
	i := space(f.b, 0)
	if i == len(f.b) || f.b[i] != '{' {
		return errNotObject
	}
	f.nodes = append(f.nodes[:0], root)
	if end := f.members(i, 0); end < 0 || space(f.b, end) != len(f.b) {
		return errNotObject
	}
	return nil
}

// match puts on the stack what the nodes from frame to top have for a member.
func (f *finder) match(o *members, frame, top int) {
	for _, n := range f.nodes[frame:top] {
		for _, c := range n.children {
			if o.is(c.name) {
				f.nodes = append(f.nodes, c.node)
				break
			}
		}
		if n.every != nil {
			f.nodes = append(f.nodes, n.every)
		}
	}
}

// matchElement puts on the stack what the nodes from frame to top have for an element.
func (f *finder) matchElement(frame, top int) {
	for _, n := range f.nodes[frame:top] {
		if n.every != nil {
			f.nodes = append(f.nodes, n.every)
		}
		if n.names != nil {
			f.nodes = append(f.nodes, n.names)
		}
	}
}

// ended returns the node among those from the frame on that a path ends at; nil if there is none.
func (f *finder) ended(frame int) *node {
	for _, n := range f.nodes[frame:] {
		if n.end {
			return n
		}
	}
	return nil
}

// members goes through the object at i with the nodes from the frame on, and returns where it ends, or -1.
func (f *finder) members(i, frame int) int {
	o, top := members{b: f.b, pos: i + 1}, len(f.nodes)
	for o.next() {
		f.match(&o, frame, top)
		if frame == 0 && len(f.nodes) == top && f.over(o.value) {
			return len(f.b)
		}
		end := f.value(o.value, top)
		f.nodes = f.nodes[:top]
		o.keep(end)
	}
	return o.end()
}

// over reports whether nothing that is looked for can be behind the value at i of the outermost object, and that value
// is not soon over.
func (f *finder) over(i int) bool {
	root := f.nodes[0]
	if f.b[i] != '{' && f.b[i] != '[' || root.every != nil || f.ends(i) || f.glances == maxGlances {
		return false
	}
	f.glances++
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
	if i = space(b, i+1); i < len(b) && b[i] == ']' {
		return i + 1
	}
	for i < len(b) {
		f.matchElement(frame, top)
		i = f.value(i, top)
		f.nodes = f.nodes[:top]
		if i < 0 {
			return -1
		}
		if i = space(b, i); i == len(b) || b[i] == ']' {
			break
		}
		if b[i] != ',' {
			return -1
		}
		i = space(b, i+1)
	}
	if i == len(b) {
		return -1
	}
	return i + 1
}

// value goes through the value at i with the nodes from the frame on.
func (f *finder) value(i, frame int) (end int) {
	if n := f.ended(frame); n != nil {
		if end = f.skip(i); end >= 0 {
			f.hits = append(f.hits, hit{span{i, end}, n})
		}
		return end
	}
	nested := f.b[i] == '{' || f.b[i] == '['
	if len(f.nodes) == frame || !nested {
		return f.skip(i)
	}
	if f.depth++; f.depth > maxDepth {
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
		if k.from == i && k.to > i {
			return k.to
		}
	}
	return skip(f.b, i)
}

// ends reports whether it is known where the value at i ends.
func (f *finder) ends(i int) bool { return i == f.known[0].from || i == f.known[1].from }
