// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// docs/status.md has a reference that is made of the code: run with -update to write it again.
func TestReference_is_what_the_code_says(t *testing.T) {
	const page, begin, end = "../../docs/status.md",
		"<!-- made of internal/status by go test ./internal/status -update -->\n", "<!-- end of what is made -->\n"
	text := must.Get(os.ReadFile(page))(t)
	before, rest, found := strings.Cut(string(text), begin)
	_, after, ended := strings.Cut(rest, end)
	require.True(t, found, "%s does not say where the reference begins and ends", page)
	require.True(t, ended, "%s does not say where the reference begins and ends", page)
	want := before + begin + "\n" + fields(t) + kinds() + end + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
	} else if string(text) != want {
		t.Errorf("the reference in %s is not what the code says; run go test ./internal/status -update", page)
	}
}

// fields returns a table for each type of report.go that has fields.
func fields(t *testing.T) string {
	t.Helper()
	file := must.Get(parser.ParseFile(token.NewFileSet(), "report.go", nil, parser.ParseComments))(t)
	var out strings.Builder
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		spec := g.Specs[0].(*ast.TypeSpec)
		s, ok := spec.Type.(*ast.StructType)
		if !ok {
			continue
		}
		fmt.Fprintf(&out, "### %s\n\n%s\n\n| field | type | meaning |\n|---|---|---|\n", spec.Name.Name,
			sentences(t, g.Doc, spec.Name.Name))
		for _, f := range s.Fields.List {
			name, options, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			kind := kindOf(f.Type)
			if options != "" {
				kind += ", may be absent"
			}
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", name, kind, cmp.Or(sentences(t, f.Doc, ""), "See the field above."))
		}
		out.WriteString("\n")
	}
	return out.String()
}

// sentences returns a comment in one line; a field without one is told of with the one before it.
func sentences(t *testing.T, doc *ast.CommentGroup, needed string) string {
	t.Helper()
	assert.True(t, doc.Text() != "" || needed == "", "%s has no comment", needed)
	return strings.Join(strings.Fields(doc.Text()), " ")
}

func kindOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return kindOf(e.X)
	case *ast.ArrayType:
		return "list of " + kindOf(e.Elt)
	case *ast.SelectorExpr:
		return "time"
	case *ast.Ident:
		switch e.Name {
		case "string", "State", "Severity", "StreamState", "ReplicaState", "Kind":
			return "text"
		case "bool":
			return "true or false"
		case "int", "int64", "uint64", "float64":
			return "number"
		default:
			return "[" + e.Name + "](#" + strings.ToLower(e.Name) + ")"
		}
	default:
		panic("BUG: a field of another form")
	}
}

// kinds returns a table of what to do about each kind of problem.
func kinds() string {
	var out strings.Builder
	out.WriteString("## What to do\n\n| kind | advice |\n|---|---|\n")
	for _, c := range troubles {
		advice := c.advice
		if c.kind == BrokerUnusable {
			advice = "The broker's stream or topic must not be used as it is; the problem says what to change."
		}
		fmt.Fprintf(&out, "| `%s` | %s |\n", c.kind, advice)
	}
	out.WriteString("\n")
	return out.String()
}
