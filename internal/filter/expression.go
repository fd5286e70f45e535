// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// costLimit bounds the steps of one evaluation, in units of CEL: a tenth of what the API server allows an expression.
// What it reads is bounded by a meter.
const costLimit = 100_000

// maxExpression is how long an expression may be, in bytes.
const maxExpression = 16 << 10

// Expression is a CEL expression that decides on events. It is safe for concurrent use.
type Expression struct {
	program cel.Program
	ast     *cel.Ast
	old     bool
}

// Old reports whether the expression names the state before, which somebody has to keep then.
func (e *Expression) Old() bool { return e.old }

// fields are what an expression knows of an event besides its object, as text.
func fields() []string {
	return []string{
		"event.operation", "event.reason", "event.namespace", "event.name", "event.objectuid",
		"event.resourceversion",
	}
}

// ParseExpression compiles an expression. Its errors name the place in it, what is wrong, and after a semicolon what is
// valid.
func ParseExpression(s string) (*Expression, error) {
	if len(s) > maxExpression {
		return nil,
			fmt.Errorf("is longer than %d bytes; use labelSelector, fieldSelector or several resources for a part of it",
				maxExpression)
	}
	options := []cel.EnvOption{
		cel.Variable("object", cel.MapType(cel.StringType, cel.DynType)),
		cel.Variable(oldObject, cel.DynType), // it may be null
		cel.OptionalTypes(), ext.Strings(ext.StringsVersion(2)), cel.CrossTypeNumericComparisons(true),
		cel.DefaultUTCTimeZone(true),
	}
	for _, f := range fields() {
		options = append(options, cel.Variable(f, cel.StringType))
	}
	env, err := cel.NewEnv(options...)
	if err != nil {
		panic("BUG: " + err.Error())
	}
	ast, issues := env.Compile(s)
	if issues.Err() != nil {
		e := issues.Errors()[0]
		return nil, expressionError(e.Location.Line(), e.Location.Column()+1, mistake(env, s, e))
	}
	if t := ast.OutputType(); !t.IsExactType(cel.BoolType) {
		return nil, expressionError(1, 1, fmt.Sprintf("it gives %s, not bool: compare it with something", t))
	}
	if err := checkTexts(ast.NativeRep()); err != nil {
		return nil, err
	}
	program, err := env.Program(ast, cel.CostLimit(costLimit), cel.EvalOptions(cel.OptOptimize))
	if err != nil {
		return nil, expressionError(1, 1, err.Error())
	}
	return &Expression{program, ast, namesOld(ast)}, nil
}

// oldObject is the name of the state before.
const oldObject = "oldObject"

// namesOld reports whether an expression has the name oldObject, be it for something else that it introduces.
func namesOld(ast *cel.Ast) bool {
	names := celast.MatchDescendants(celast.NavigateAST(ast.NativeRep()), celast.KindMatcher(celast.IdentKind))
	return slices.ContainsFunc(names, func(e celast.NavigableExpr) bool { return e.AsIdent() == oldObject })
}

func expressionError(line, column int, wrong string) error {
	wrong, _, _ = strings.Cut(wrong, " (in container '')")
	return fmt.Errorf("is no expression of CEL that decides: at %d:%d, %s; write one over object, oldObject, %s, such as "+
		`event.operation == "deleted" || has(object.spec.replicas) && object.spec.replicas > 3`, line, column, wrong,
		strings.Join(fields(), ", "))
}

// errEvaluation says that an expression cannot be evaluated. It does not say of which value: that may be one that must
// not be shown.
var errEvaluation = errors.New("the expression cannot be evaluated")

// Eval reports whether the expression is true for a change. It is for one of which only the identity is known. Old is
// asked at most once, and only where it is needed, for the object's state before, whose JSON stays as it is meanwhile;
// old is nil, or returns nil, where that is not known, and what depends on it cannot be evaluated. What was added has
// none: oldObject is null. The error names the place in the expression, and no value.
func (e *Expression) Eval(c *source.Change, old func() []byte) (bool, error) {
	if c.Body == nil {
		return true, nil
	}
	a := &activation{Change: c, old: old, object: object{json: c.Body.Bytes(), meter: newMeter(c.Body.Bytes())}}
	out, _, err := e.program.Eval(a)
	if err != nil {
		return false, e.explain(err)
	}
	return out == types.True, nil
}

// explain says where an evaluation failed, and in what way if that says nothing of values.
func (e *Expression) explain(err error) error {
	var failed *types.Err
	at := ""
	if errors.As(err, &failed) {
		if l := e.ast.NativeRep().SourceInfo().GetStartLocation(failed.NodeID()); l.Line() > 0 {
			at = fmt.Sprintf(" at %d:%d", l.Line(), l.Column()+1)
		}
	}
	for _, known := range []string{
		"no such key", "no such overload", "actual cost limit exceeded", "index out of bounds",
		"division by zero", unknownOld,
	} {
		if strings.HasPrefix(strings.TrimPrefix(err.Error(), "operation cancelled: "), known) {
			return fmt.Errorf("%w%s: %s", errEvaluation, at, known)
		}
	}
	return fmt.Errorf("%w%s", errEvaluation, at)
}

// unknownOld says that the state before is not known.
const unknownOld = "oldObject is not known"

// activation is what an expression sees of a change.
type activation struct {
	*source.Change
	object object
	// old finds the state before, and before is that once it was looked for.
	old    func() []byte
	before ref.Val
}

func (a *activation) oldObject() ref.Val {
	if a.before != nil {
		return a.before
	}
	var b []byte
	if a.Op != source.Added && a.old != nil {
		b = a.old()
	}
	switch {
	case a.Op == source.Added:
		a.before = types.NullValue
	case b == nil:
		a.before = types.NewErr(unknownOld)
	default:
		a.object.meter.add(b)
		a.before = &object{json: b, meter: a.object.meter}
	}
	return a.before
}

// ResolveName implements interpreter.Activation.
func (a *activation) ResolveName(name string) (any, bool) {
	var s string
	switch name {
	case "object":
		return ref.Val(&a.object), true
	case oldObject:
		return a.oldObject(), true
	case "event.operation":
		s = a.Op.String()
	case "event.reason":
		s = string(a.Reason)
	case "event.namespace":
		s = a.Namespace
	case "event.name":
		s = a.Name
	case "event.objectuid":
		s = a.UID
	case "event.resourceversion":
		s = a.ResourceVersion
	default:
		return nil, false
	}
	return types.String(s), true
}

// Parent implements interpreter.Activation.
func (a *activation) Parent() interpreter.Activation { return nil }
