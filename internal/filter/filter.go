// SPDX-License-Identifier: Apache-2.0

// Package filter decides which changes of a stream are published, by what happened, by what of the object is different,
// and by an expression.
package filter

import (
	"slices"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Why a change is not published, in a word.
const (
	// Operation: it is not one of the operations that are asked for.
	Operation = "operation"
	// Unchanged: it is an update, and nothing is different but what is ignored.
	Unchanged = "unchanged"
	// Excluded: the expression is false.
	Excluded = "expression"
	// Failed: the expression cannot be evaluated, and such changes are dropped.
	Failed = "error"
)

// Config says what is published. The zero Config publishes everything.
type Config struct {
	// Operations are those that are published; empty: all.
	Operations []source.Op
	// IgnoreChanges names what makes no update worth publishing where nothing else is different, as encode.Digester has
	// it; empty: every update is published.
	IgnoreChanges []jsonscan.Path
	// DigestKey is as for [encode.NewDigester].
	DigestKey []byte
	// Expression is nil where there is none.
	Expression *Expression
	// DropErrors says that what Expression cannot be evaluated for is not published.
	DropErrors bool
}

// Filter decides as its Config says. It is safe for concurrent use.
type Filter struct {
	operations [source.Deleted + 1]bool
	digester   *encode.Digester
	expression *Expression
	dropErrors bool
}

// New returns a filter; nil if everything is published.
func New(c Config) *Filter {
	f := &Filter{expression: c.Expression, dropErrors: c.DropErrors}
	for _, op := range []source.Op{source.Added, source.Updated, source.Deleted} {
		f.operations[op] = len(c.Operations) == 0 || slices.Contains(c.Operations, op)
	}
	if len(c.IgnoreChanges) > 0 {
		f.digester = encode.NewDigester(c.IgnoreChanges, c.DigestKey)
	}
	if f.digester == nil && f.expression == nil && f.operations == [...]bool{
		source.Added: true, source.Updated: true,
		source.Deleted: true,
	} {
		return nil
	}
	return f
}

// Filter returns why c is not published, nothing where it is, and a digest of its state; before is that of the object's
// state before, zero where it is not known. An update of which the state before is not known is published. So is one of
// a state that the expression has left out: its digest is zero, as the log has another state. Old is as for
// [Expression.Eval]. The error says that the expression cannot be evaluated, whether c is published or not; it shows
// nothing of the object. The object is read only for a digest and by an expression.
func (f *Filter) Filter(c *source.Change, before [16]byte, old func() []byte) (reason string, now [16]byte, err error) {
	if f.digester != nil && c.Op != source.Deleted {
		now = f.digester.Digest(c.Body.Bytes())
	}
	switch {
	case !f.operations[c.Op]:
		return Operation, now, nil
	case c.Op == source.Updated && now != [16]byte{} && now == before:
		return Unchanged, now, nil
	case f.expression == nil:
		return "", now, nil
	}
	switch yes, err := f.expression.Eval(c, old); {
	case err != nil && f.dropErrors:
		return Failed, [16]byte{}, err
	case err != nil || yes:
		return "", now, err
	}
	return Excluded, [16]byte{}, nil
}
