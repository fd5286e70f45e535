// SPDX-License-Identifier: Apache-2.0

package jsonscan

// Cuts is a list of ranges in ascending order.
type Cuts struct {
	few  [3]Span
	n    int
	more []Span
}

// Len returns how many ranges there are.
func (c *Cuts) Len() int { return c.n + len(c.more) }

// At returns one of them.
func (c *Cuts) At(i int) Span {
	if i < c.n {
		return c.few[i]
	}
	return c.more[i-c.n]
}

// Add adds a range behind all others.
func (c *Cuts) Add(s Span) {
	if c.n < len(c.few) {
		c.few[c.n] = s
		c.n++
		return
	}
	c.more = append(c.more, s)
}

// Copy appends what the cuts leave of the range r of b. No cut reaches across an end of r.
func (c *Cuts) Copy(dst, b []byte, r Span) []byte {
	for _, list := range [...][]Span{c.few[:c.n], c.more} {
		for _, s := range list {
			if s.From >= r.From && s.To <= r.To {
				dst = append(dst, b[r.From:s.From]...)
				r.From = s.To
			}
		}
	}
	return append(dst, b[r.From:r.To]...)
}
