// SPDX-License-Identifier: Apache-2.0

package keys

import (
	"encoding/binary"
	"strings"
)

// names holds the names of rows in few pieces of memory: a string of its own would need twice as much for each.
type names struct {
	scopes  []scope // the first one is of no row
	byScope map[scope]uint32
	// pieces have names, each behind its length. Size is how much they have, and unused how much of that no row has.
	pieces       [][]byte
	size, unused int
}

// scope is what many keys have in common.
type scope struct {
	resource  uint16
	namespace string
}

// name stands for a key: the number of its scope, and the place of its name.
type name struct{ scope, at uint32 }

// pieceBits is of how large a piece is. A longer name has a piece of its own.
const pieceBits = 16

func newNames() names { return names{scopes: make([]scope, 1), byScope: make(map[scope]uint32)} }

// scope returns the number of a key's scope; 0 where it has none.
func (n *names) scope(k Key) uint32 { return n.byScope[scope{k.Resource, k.Namespace}] }

func (n *names) add(k Key) name {
	number := n.scope(k)
	if number == 0 {
		number = uint32(len(n.scopes))                     //nolint:gosec // memory bounds it
		s := scope{k.Resource, strings.Clone(k.Namespace)} // it may be a part of a message
		n.scopes, n.byScope[s] = append(n.scopes, s), number
	}
	last, size := len(n.pieces)-1, len(k.Name)+binary.MaxVarintLen32
	if last < 0 || cap(n.pieces[last])-len(n.pieces[last]) < size {
		n.pieces = append(n.pieces, make([]byte, 0, max(1<<pieceBits, size)))
		last++
	}
	begin := len(n.pieces[last])
	n.pieces[last] = append(binary.AppendUvarint(n.pieces[last], uint64(len(k.Name))), k.Name...)
	n.size += len(n.pieces[last]) - begin
	return name{number, uint32(last<<pieceBits | begin)} //nolint:gosec // memory bounds it
}

// text returns the name at a place. It must not be changed.
func (n *names) text(at uint32) []byte {
	piece := n.pieces[at>>pieceBits][at&(1<<pieceBits-1):]
	size, begin := binary.Uvarint(piece)
	return piece[begin:][:size]
}

func (n *names) key(of name) Key {
	s := n.scopes[of.scope]
	return Key{Resource: s.resource, Namespace: s.namespace, Name: string(n.text(of.at))}
}

// remove says that no row has a name any more.
func (n *names) remove(of name) { n.unused += len(n.text(of.at)) + 1 }

// sparse reports whether most of the memory is of no use.
func (n *names) sparse() bool { return n.unused > 1<<pieceBits && n.unused > n.size/2 }
