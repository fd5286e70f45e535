// SPDX-License-Identifier: Apache-2.0

// Package filter decides which changes of a stream are published, by what happened and by what of the object is different.
package filter

import (
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Why a change is not published, in a word.
const (
	// Operation: it is none of the operations that are asked for.
	Operation = "operation"
	// Unchanged: it is an update, and nothing is different but what is ignored.
	Unchanged = "unchanged"
)

// Config says what is published. The zero Config publishes everything.
type Config struct {
	// Operations are those that are published; empty: all.
	Operations []source.Op
	// IgnoreChanges names what makes no update worth publishing where nothing else is different, as encode.Digester has it; empty: every
	// update is published.
	IgnoreChanges []encode.Path
}

// Filter decides as its Config says. It is safe for concurrent use.
type Filter struct {
	operations [source.Deleted + 1]bool
	digester   *encode.Digester
}

// New returns a filter; nil if everything is published.
func New(c Config) *Filter {
	f := &Filter{}
	for _, op := range []source.Op{source.Added, source.Updated, source.Deleted} {
		f.operations[op] = len(c.Operations) == 0 || slices.Contains(c.Operations, op)
	}
	if len(c.IgnoreChanges) > 0 {
		f.digester = encode.NewDigester(c.IgnoreChanges)
	}
	if f.digester == nil && f.operations == [...]bool{source.Added: true, source.Updated: true, source.Deleted: true} {
		return nil
	}
	return f
}

// Filter returns why c is not published, nothing where it is, and a digest of its state; before is that of the object's state before, zero where it is
// not known. An update of which the state before is not known is published. The object is read only for a digest.
func (f *Filter) Filter(c *source.Change, before [16]byte) (reason string, now [16]byte) {
	if f.digester != nil && c.Op != source.Deleted {
		now = f.digester.Digest(c.Body.Bytes())
	}
	switch {
	case !f.operations[c.Op]:
		return Operation, now
	case c.Op == source.Updated && now != [16]byte{} && now == before:
		return Unchanged, now
	default:
		return "", now
	}
}
