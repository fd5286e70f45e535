// SPDX-License-Identifier: Apache-2.0

package redact

import (
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

// Edits is what is left out of an object, and what is replaced in it.
type Edits struct {
	Cuts jsonscan.Cuts
	// Masked are values that are replaced, in the order of their places. None is within another.
	Masked []jsonscan.Hit
}

// Copy appends what the edits make of the range r of b. No edit reaches across an end of r.
func (e *Edits) Copy(dst, b []byte, r jsonscan.Span) []byte {
	if e.Masked != nil {
		return e.copyMasked(dst, b, r)
	}
	return e.Cuts.Copy(dst, b, r)
}

// Replaces reports whether Copy replaces a value in the range r of b. A null stays.
func (e *Edits) Replaces(b []byte, r jsonscan.Span) bool {
	return slices.ContainsFunc(e.Masked, func(h jsonscan.Hit) bool {
		return b[h.From] != 'n' && h.From >= r.From && h.To <= r.To && !e.leavesOut(h.From)
	})
}

// leavesOut reports whether the byte at i is in one of the cuts.
func (e *Edits) leavesOut(i int) bool {
	for k := range e.Cuts.Len() {
		if s := e.Cuts.At(k); s.From <= i && i < s.To {
			return true
		}
	}
	return false
}

// copyMasked is Copy where values are replaced.
func (e *Edits) copyMasked(dst, b []byte, r jsonscan.Span) []byte {
	i := 0
	for _, h := range e.Masked {
		for ; i < e.Cuts.Len() && e.Cuts.At(i).To <= h.From; i++ {
			dst, r = leaveOut(dst, b, r, e.Cuts.At(i))
		}
		leftOut := i < e.Cuts.Len() && e.Cuts.At(i).From <= h.From
		if !leftOut && h.From >= r.From && h.To <= r.To {
			dst = append(append(dst, b[r.From:h.From]...), maskOf(h.Node, b[h.From])...)
			r.From = h.To
		}
	}
	for ; i < e.Cuts.Len(); i++ {
		dst, r = leaveOut(dst, b, r, e.Cuts.At(i))
	}
	return append(dst, b[r.From:r.To]...)
}

// leaveOut appends what is before s in r, and returns the rest of r behind s. What is not within r changes nothing.
func leaveOut(dst, b []byte, r, s jsonscan.Span) ([]byte, jsonscan.Span) {
	if s.From < r.From || s.To > r.To {
		return dst, r
	}
	return append(dst, b[r.From:s.From]...), jsonscan.Span{From: s.To, To: r.To}
}

// maskOf is what stands for a value that begins with a byte. It is of the same type, so that typed clients still decode
// it.
func maskOf(n *jsonscan.Node, first byte) string {
	switch first {
	case '"':
		if n.Coded {
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
