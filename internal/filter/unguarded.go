// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Unguarded returns the members without which the expression may fail, each once, in the order of the text. A member is
// guarded by has(…), by "…" in …, by .? and by hasValue().
//
// The members that every object has are not returned. Spec and metadata.namespace count as such: a filter asks for them
// where they are. Three things are not seen: a member whose name is computed, a member of an element of a list, and
// that oldObject is null.
func (e *Expression) Unguarded() []Member {
	var found []Member
	for _, path := range members(e.ast.NativeRep()) {
		if missing := (absence{path}); missing.outcomes(e.ast.NativeRep().Expr())&fails != 0 {
			found = append(found, Member{path})
		}
	}
	return found
}

// Member is a member of an object that an expression reads.
type Member struct{ path memberPath }

// String returns the expression that reads the member, such as object.metadata.labels["example.com/app"].
func (m Member) String() string {
	names := m.path.names()
	text := names[0]
	for _, name := range names[1:] {
		if identifier.MatchString(name) {
			text += "." + name
		} else {
			text += "[" + strconv.Quote(name) + "]"
		}
	}
	return text
}

// Guard returns an expression that is true where the member exists. It fails where the member's parent does not.
func (m Member) Guard() string {
	names := m.path.names()
	parent, name := names[:len(names)-1], names[len(names)-1]
	if identifier.MatchString(name) {
		return "has(" + m.String() + ")"
	}
	return fmt.Sprintf("%q in %s", name, Member{join(parent...)})
}

var identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// memberPath is the names of a member, from object or oldObject on. The empty path is none.
type memberPath string

const separator = "\x00"

func join(names ...string) memberPath { return memberPath(strings.Join(names, separator)) }

func (p memberPath) names() []string { return strings.Split(string(p), separator) }

// below returns the path of a member of what p leads to; none where p or the name is none.
func (p memberPath) below(name string) memberPath {
	if p == "" || name == "" {
		return ""
	}
	return p + separator + memberPath(name)
}

// has reports whether p is other, or leads to it.
func (p memberPath) has(other memberPath) bool {
	return other == p || strings.HasPrefix(string(other), string(p)+separator)
}

// alwaysThere are the members that every object has, and those that filters ask for where they are.
func alwaysThere() []memberPath {
	var all []memberPath
	for _, of := range []string{"object", oldObject} {
		all = append(all, join(of), join(of, "apiVersion"), join(of, "kind"), join(of, "metadata"), join(of, "spec"))
		for _, name := range []string{"name", "namespace", "uid", "resourceVersion", "creationTimestamp"} {
			all = append(all, join(of, "metadata", name))
		}
	}
	return all
}

// members returns the paths of an expression that may be missing.
func members(a *celast.AST) []memberPath {
	var all []memberPath
	there := alwaysThere()
	celast.PostOrderVisit(a.Expr(), celast.NewExprVisitor(func(x celast.Expr) {
		p := cmp.Or(pathOf(x), optional(x))
		if p != "" && !slices.Contains(there, p) && !slices.Contains(all, p) {
			all = append(all, p)
		}
	}))
	return all
}

// pathOf returns the path that an expression reads, without a test whether it is there.
func pathOf(x celast.Expr) memberPath {
	name, s, c := x.AsIdent(), x.AsSelect(), x.AsCall() // those that it is not are empty
	switch {
	case name == "object" || name == oldObject:
		return memberPath(name)
	case x.Kind() == celast.SelectKind && !s.IsTestOnly():
		return pathOf(s.Operand()).below(s.FieldName())
	case c.FunctionName() == operators.Index:
		return pathOf(c.Args()[0]).below(keyOf(c.Args()[1]))
	default:
		return ""
	}
}

// optional returns the path that an expression reads if it is there, as object.?spec.replicas does.
func optional(x celast.Expr) memberPath {
	s, c := x.AsSelect(), x.AsCall() // those that it is not are empty
	switch {
	case x.Kind() == celast.SelectKind && !s.IsTestOnly():
		return optional(s.Operand()).below(s.FieldName())
	case c.FunctionName() == operators.OptSelect || c.FunctionName() == operators.OptIndex:
		of := c.Args()[0]
		return cmp.Or(pathOf(of), optional(of)).below(keyOf(c.Args()[1]))
	default:
		return ""
	}
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

// absence evaluates an expression where one member is missing, and all others may be there.
type absence struct{ path memberPath }

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
	if s.IsTestOnly() && pathOf(s.Operand()).below(s.FieldName()) == m.path {
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
		if pathOf(args[1]).below(keyOf(args[0])) == m.path {
			return no
		}
	case "value":
		if m.path.has(optional(c.Target())) {
			return fails
		}
	case "hasValue":
		if m.path.has(optional(c.Target())) {
			return no
		}
	case operators.OptSelect, operators.OptIndex:
		if pathOf(args[0]).below(keyOf(args[1])) == m.path {
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
