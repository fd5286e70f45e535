// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// redaction replaces the values that paths name. It never changes.
type redaction struct{ root *node }

// newRedaction returns nil if nothing is to be redacted. It panics where that is not possible.
func newRedaction(r source.Resource, paths []Path) *redaction {
	for _, p := range paths {
		if err := CheckRedact(p); err != nil || p.IsZero() {
			panic("BUG: redact " + p.String())
		}
	}
	root := newTrie(paths)
	if root == nil {
		return nil
	}
	for _, c := range root.children {
		if r.Group == "" && (r.Resource == "configmaps" && c.name == "binaryData" || r.Resource == "secrets" && c.name == "data") {
			c.code()
		}
	}
	return &redaction{root}
}

// code says that all texts below are base64.
func (n *node) code() {
	n.coded = true
	for _, c := range n.children {
		c.code()
	}
	if n.every != nil {
		n.every.code()
	}
}

// mark adds to what w has found in b the values to replace.
func (r *redaction) mark(b []byte, w *walk) error {
	var room [16]*node
	f := finder{b: b, nodes: room[:0], hits: make([]hit, 0, 8), known: [2]span{w.metadata, w.managedFields}}
	err := f.object(r.root)
	w.cuts.masked = f.hits
	return err
}

// apply returns b, an object, with the values replaced, if there are any.
func (r *redaction) apply(b []byte) (data []byte, replaced bool, err error) {
	var w walk
	if err := r.mark(b, &w); err != nil {
		return nil, false, err
	}
	whole := span{0, len(b)}
	return w.cuts.copy(nil, b, whole), w.cuts.replaces(b, whole), nil
}

// replaces reports whether copy replaces a value in the range r of b. A null stays.
func (c *cuts) replaces(b []byte, r span) bool {
	return slices.ContainsFunc(c.masked, func(h hit) bool {
		return b[h.from] != 'n' && h.from >= r.from && h.to <= r.to && !c.leaveOut(h.from)
	})
}

// leaveOut reports whether the byte at i is in one of the cuts.
func (c *cuts) leaveOut(i int) bool {
	for k := range c.len() {
		if s := c.at(k); s.from <= i && i < s.to {
			return true
		}
	}
	return false
}

// copyMasked is copy where values are replaced.
func (c *cuts) copyMasked(dst, b []byte, r span) []byte {
	i := 0
	for _, h := range c.masked {
		for ; i < c.len() && c.at(i).to <= h.from; i++ {
			dst, r = leaveOut(dst, b, r, c.at(i))
		}
		leftOut := i < c.len() && c.at(i).from <= h.from
		if !leftOut && h.from >= r.from && h.to <= r.to {
			dst = append(append(dst, b[r.from:h.from]...), h.mask(b[h.span.from])...)
			r.from = h.to
		}
	}
	for ; i < c.len(); i++ {
		dst, r = leaveOut(dst, b, r, c.at(i))
	}
	return append(dst, b[r.from:r.to]...)
}

// leaveOut appends what is before s in r, and returns the rest of r behind s. What is not within r changes nothing.
func leaveOut(dst, b []byte, r, s span) ([]byte, span) {
	if s.from < r.from || s.to > r.to {
		return dst, r
	}
	return append(dst, b[r.from:s.from]...), span{s.to, r.to}
}

// mask is what stands for a value that begins with a byte. It is of the same type, so that typed clients still decode
// it.
func (n *node) mask(first byte) string {
	switch first {
	case '"':
		if n.coded {
			return mask
		}
		return `"` + replaced + `"`
	case '{':
		return `{}`
	case '[':
		return `[]`
	case 't', 'f':
		return `false`
	case 'n':
		return `null`
	default:
		return `0`
	}
}
