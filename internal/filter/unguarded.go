// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"cmp"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Unguarded returns the members without which the expression may fail, as no has(…), "…" in …, .? or hasValue() keeps it
// from that: such as object.metadata.labels.app, each once, in the order of the text. The members that every object has are
// not among them, nor are spec and metadata.namespace, which those have that are asked for them. What it cannot tell: members
// whose name is computed, or of something that is, as of the elements of lists; and that oldObject is null.
func (e *Expression) Unguarded() []string {
	var found []string
	for _, path := range members(e.ast.NativeRep()) {
		if missing := (absence{path}); missing.outcomes(e.ast.NativeRep().Expr())&fails != 0 {
			found = append(found, path)
		}
	}
	return found
}

// alwaysThere are the members that every object has, and spec, which all resources that know it set.
func alwaysThere() []string {
	var all []string
	for _, of := range []string{"object", oldObject} {
		for _, member := range []string{
			"", ".apiVersion", ".kind", ".metadata", ".metadata.name", ".metadata.namespace", ".metadata.uid",
			".metadata.resourceVersion", ".metadata.creationTimestamp", ".spec",
		} {
			all = append(all, of+member)
		}
	}
	return all
}

// members returns the paths of an expression that may be missing.
func members(a *celast.AST) []string {
	var all []string
	there := alwaysThere()
	celast.PostOrderVisit(a.Expr(), celast.NewExprVisitor(func(x celast.Expr) {
		path := pathOf(x)
		if path == "" {
			path = optional(x)
		}
		if path != "" && !slices.Contains(there, path) && !slices.Contains(all, path) {
			all = append(all, path)
		}
	}))
	return all
}

// pathOf returns the path that an expression reads, without a test whether it is there; empty if it is none.
func pathOf(x celast.Expr) string {
	name, s, c := x.AsIdent(), x.AsSelect(), x.AsCall() // those that it is not are empty
	switch {
	case name == "object" || name == oldObject:
		return name
	case x.Kind() == celast.SelectKind && !s.IsTestOnly():
		return below(pathOf(s.Operand()), s.FieldName())
	case c.FunctionName() == operators.Index:
		return below(pathOf(c.Args()[0]), keyOf(c.Args()[1]))
	default:
		return ""
	}
}

// optional returns the path that an expression reads if it is there, as object.?spec.replicas does; empty if it is none.
func optional(x celast.Expr) string {
	s, c := x.AsSelect(), x.AsCall() // those that it is not are empty
	switch {
	case x.Kind() == celast.SelectKind && !s.IsTestOnly():
		return below(optional(s.Operand()), s.FieldName())
	case c.FunctionName() == operators.OptSelect || c.FunctionName() == operators.OptIndex:
		of := c.Args()[0]
		return below(cmp.Or(pathOf(of), optional(of)), keyOf(c.Args()[1]))
	default:
		return ""
	}
}

func below(path, name string) string {
	if path == "" || name == "" {
		return ""
	}
	return path + "." + name
}

// keyOf returns the text that an expression is; empty if it is none.
func keyOf(x celast.Expr) string {
	if x.Kind() == celast.LiteralKind {
		if s, ok := x.AsLiteral().(types.String); ok {
			return string(s)
		}
	}
	return ""
}

// outcome is a set of what an expression may come to.
type outcome uint8

const (
	no outcome = 1 << iota
	yes
	fails
	decides = no | yes
)

// absence is where a member is missing, and all others may be there.
type absence struct{ path string }

func (m absence) outcomes(x celast.Expr) outcome {
	if pathOf(x) == m.path {
		return fails
	}
	if x.Kind() == celast.SelectKind {
		return m.selects(x.AsSelect())
	}
	if x.Kind() == celast.CallKind {
		return m.call(x.AsCall())
	}
	if x.Kind() == celast.ComprehensionKind {
		c := x.AsComprehension()
		return m.strict(c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result())
	}
	all := slices.Clone(x.AsList().Elements()) // of what is no list there are none
	for _, entry := range x.AsMap().Entries() {
		all = append(all, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
	}
	return m.strict(all...)
}

// selects: has(…) says no of what is missing, and fails where something before its last name is.
func (m absence) selects(s celast.SelectExpr) outcome {
	if s.IsTestOnly() && below(pathOf(s.Operand()), s.FieldName()) == m.path {
		return no
	}
	return m.strict(s.Operand())
}

func (m absence) call(c celast.CallExpr) outcome {
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd:
		return junction(m.outcomes(args[0]), m.outcomes(args[1]), no)
	case operators.LogicalOr:
		return junction(m.outcomes(args[0]), m.outcomes(args[1]), yes)
	case operators.LogicalNot:
		return negated(m.outcomes(args[0]))
	case operators.Conditional:
		return m.conditional(args[0], args[1], args[2])
	case operators.In:
		if below(pathOf(args[1]), keyOf(args[0])) == m.path {
			return no
		}
	case "value", "hasValue":
		if of := optional(c.Target()); of == m.path || strings.HasPrefix(of, m.path+".") {
			return map[string]outcome{"value": fails, "hasValue": no}[c.FunctionName()]
		}
	case operators.OptSelect, operators.OptIndex:
		if below(pathOf(args[0]), keyOf(args[1])) == m.path {
			return decides // it is none, which is a value
		}
	}
	if c.IsMemberFunction() {
		args = append(slices.Clone(args), c.Target())
	}
	return m.strict(args...)
}

// strict returns what comes of an expression that fails if a part of it does.
func (m absence) strict(parts ...celast.Expr) outcome {
	all := decides
	for _, x := range parts {
		of := m.outcomes(x)
		if of == fails {
			return fails
		}
		all |= of & fails
	}
	return all
}

// junction returns what && and || come to. Decisive, on either side, wins over all else, and a failure over the rest.
func junction(left, right, decisive outcome) outcome {
	all := (left | right) & decisive
	if rest := decides &^ decisive; left&rest != 0 && right&rest != 0 {
		all |= rest
	}
	if left&fails != 0 && right&^decisive != 0 || right&fails != 0 && left&^decisive != 0 {
		all |= fails
	}
	return all
}

func negated(of outcome) outcome {
	all := of & fails
	if of&no != 0 {
		all |= yes
	}
	if of&yes != 0 {
		all |= no
	}
	return all
}

func (m absence) conditional(condition, then, otherwise celast.Expr) outcome {
	of := m.outcomes(condition)
	all := of & fails
	if of&yes != 0 {
		all |= m.outcomes(then)
	}
	if of&no != 0 {
		all |= m.outcomes(otherwise)
	}
	return all
}
