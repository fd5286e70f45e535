// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
)

// piece is the length of what is searched for: no byte of a secret value leaks alone by accident in a way that a
// machine could tell from chance.
const piece = 8

// Canaries are values that must not appear anywhere, in whole or in pieces of eight bytes: as they are, as base64
// wherever they begin in what was encoded, or as hex, of which two pieces in a row are eight bytes: the digits of one
// are those of some time of day. It is safe for concurrent use once made.
type Canaries struct {
	pieces map[uint64]origin
	// filter has a bit for each piece's hash, so that most of what is searched costs no look at the map.
	filter []uint64
}

// origin says whose piece it is.
type origin struct {
	// secret is an index.
	secret int32
	hex    bool
}

// NewCanaries returns the canaries of secret values. A value must have at least 16 bytes, random ones and not the same
// again and again; a shorter one panics.
func NewCanaries(secrets ...string) *Canaries {
	c := &Canaries{pieces: map[uint64]origin{}, filter: make([]uint64, 1<<14+len(secrets)*64)}
	for i, s := range secrets {
		if len(s) < 2*piece {
			panic(fmt.Sprintf("BUG: a canary of %d bytes", len(s)))
		}
		whole := origin{secret: int32(i)} //nolint:gosec // no run has so many secrets
		digits := origin{secret: whole.secret, hex: true}
		c.add(hex.EncodeToString([]byte(s)), digits)
		c.add(strings.ToUpper(hex.EncodeToString([]byte(s))), digits)
		c.add(s, whole)
		for shift := range 3 {
			for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
				c.add(encoded(encoding, s, shift), whole)
			}
		}
	}
	return c
}

// encoded is what base64 makes of s after shift other bytes, without the characters that also depend on what is around.
func encoded(encoding *base64.Encoding, s string, shift int) string {
	e := encoding.EncodeToString([]byte("\x00\x00"[:shift] + s))
	if rest := (shift + len(s)) % 3; rest != 0 {
		e = e[:len(e)-1]
	}
	return e[(shift*8+5)/6:]
}

func (c *Canaries) add(s string, of origin) {
	for i := 0; i+piece <= len(s); i++ {
		w := binary.LittleEndian.Uint64([]byte(s[i : i+piece]))
		c.pieces[w] = of
		h := c.bit(w)
		c.filter[h/64] |= 1 << (h % 64)
	}
}

func (c *Canaries) bit(w uint64) uint64 {
	return w * 0x9E3779B97F4A7C15 >> 32 % uint64(len(c.filter)*64)
}

// Find names the canaries that b has a piece of, each once, with the place of its first piece. The name is the secret's
// index: its value is not printed again.
func (c *Canaries) Find(b []byte) []string {
	var found []string
	seen := map[int32]bool{}
	half := map[int]int32{} // where a piece of hex ends
	var w uint64
	for i, x := range b {
		w = w>>8 | uint64(x)<<56
		if h := c.bit(w); i < piece-1 || c.filter[h/64]&(1<<(h%64)) == 0 {
			continue
		}
		of, is := c.pieces[w]
		if is && of.hex {
			before, ok := half[i-piece]
			half[i] = of.secret
			is = ok && before == of.secret
		}
		if is && !seen[of.secret] {
			seen[of.secret] = true
			found = append(found, fmt.Sprintf("secret %d, at byte %d,", of.secret, i-piece+1))
		}
	}
	return found
}

// Search is [Canaries.Find] for what is read from r, as violations; where names it. It reads in parts, so that a file
// may be large. A read error is returned.
func (c *Canaries) Search(where string, r io.Reader) ([]Violation, error) {
	var all []Violation
	buffer, kept := make([]byte, 1<<20), 0
	for {
		n, err := io.ReadFull(r, buffer[kept:])
		for _, found := range c.Find(buffer[:kept+n]) {
			all = append(all, Violation{Promise: P8, What: found + " in " + where})
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return all, nil
		}
		if err != nil {
			return all, fmt.Errorf("search %s: %w", where, err)
		}
		kept = copy(buffer, buffer[len(buffer)-2*piece+1:])
	}
}
