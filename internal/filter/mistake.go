// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"regexp"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	celast "github.com/google/cel-go/common/ast"
)

// mistake says what is wrong at the place of e, in the words of CEL unless it is known what somebody has meant.
func mistake(env *cel.Env, s string, e *cel.Error) string {
	if strings.HasPrefix(e.Message, "undeclared reference to 'event'") {
		return notOfEvent(env, s, e.Location)
	}
	for _, known := range []struct{ message, instead string }{
		{`^undeclared reference to '\.([A-Za-z]+)'.*`, "a path begins with object: object.$1"},
		{`^Syntax error: token recognition error at: '= ?'`, "one = compares nothing: ==, or != for not"},
		{`^Syntax error: (mismatched|extraneous) input '(and|or)'.*`, "$2 is no word of CEL: && is and, || is or"},
	} {
		if p := regexp.MustCompile(known.message); p.MatchString(e.Message) {
			return p.ReplaceAllString(e.Message, known.instead)
		}
	}
	return e.Message
}

// notOfEvent says what an expression wants of event, at a place, that it does not have.
func notOfEvent(env *cel.Env, s string, at common.Location) string {
	const alone = "event alone is no value"
	parsed, issues := env.Parse(s)
	if issues.Err() != nil {
		return alone
	}
	a := parsed.NativeRep()
	for _, e := range celast.MatchDescendants(celast.NavigateAST(a), celast.KindMatcher(celast.SelectKind)) {
		l := a.SourceInfo().GetStartLocation(e.AsSelect().Operand().ID())
		if l.Line() == at.Line() && l.Column() == at.Column() && !e.AsSelect().IsTestOnly() {
			return "event has no " + e.AsSelect().FieldName()
		}
	}
	return alone
}
