// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"fmt"
	"slices"
	"strings"

	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// texts are what fields can be that have few values.
func texts() map[string][]string {
	return map[string][]string{
		"event.operation": {source.Added.String(), source.Updated.String(), source.Deleted.String()},
		"event.reason": {
			string(source.ReasonWatch), string(source.ReasonSnapshot), string(source.ReasonRelist),
			string(source.ReasonRecovered), string(source.ReasonRepair),
			string(source.ReasonResync), string(source.ReasonDeselected),
		},
	}
}

// checkTexts refuses a comparison of a field with a text that it never is: it is a mistake, and would decide the same
// of all events.
func checkTexts(a *celast.AST) error {
	known := texts()
	for _, e := range celast.MatchDescendants(celast.NavigateAST(a), celast.KindMatcher(celast.CallKind)) {
		call := e.AsCall()
		if !slices.Contains([]string{operators.Equals, operators.NotEquals, operators.In}, call.FunctionName()) ||
			len(call.Args()) != 2 {
			continue
		}
		field, with := call.Args()[0], call.Args()[1]
		if field.Kind() != celast.IdentKind {
			field, with = with, field
		}
		if field.Kind() != celast.IdentKind {
			continue
		}
		valid, ok := known[field.AsIdent()]
		if !ok {
			continue
		}
		for _, text := range literals(with) {
			if !slices.Contains(valid, text) {
				l := a.SourceInfo().GetStartLocation(with.ID())
				return fmt.Errorf("compares %s, at %d:%d, with %q, which it never is; valid: %s", field.AsIdent(), l.Line(),
					l.Column()+1, text, strings.Join(valid, ", "))
			}
		}
	}
	return nil
}

// literals are the texts that an expression is, or lists.
func literals(e celast.Expr) (all []string) {
	if e.Kind() == celast.ListKind {
		for _, element := range e.AsList().Elements() {
			all = append(all, literals(element)...)
		}
	} else if e.Kind() == celast.LiteralKind {
		if s, ok := e.AsLiteral().Value().(string); ok {
			all = append(all, s)
		}
	}
	return all
}
