// SPDX-License-Identifier: Apache-2.0

package encode

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// page is the part of docs/event-reference.md from a heading to the next one of its rank.
func page(t *testing.T, heading string) string {
	t.Helper()
	text := must.Get(os.ReadFile("../docs/event-reference.md"))(t)
	_, rest, found := strings.Cut(string(text), "\n"+heading+"\n")
	require.True(t, found, "docs/event-reference.md has no %q", heading)
	rank, _, _ := strings.Cut(heading, " ")
	part, _, _ := strings.Cut(rest, "\n"+rank+" ")
	return part
}

// inCode are the words of a text that stand in backticks.
func inCode(text string) (words []string) {
	for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(text, -1) {
		words = append(words, m[1])
	}
	return words
}

// firstColumn are the words in backticks in the first cells of tables.
func firstColumn(text string) (words []string) {
	for line := range strings.Lines(text) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			words = append(words, inCode(cells[1])...)
		}
	}
	return words
}

// literals returns the texts in files that of picks from their nodes.
func literals(t *testing.T, files []string, of func(ast.Node) []ast.Expr) (texts []string) {
	t.Helper()
	for _, file := range files {
		f := must.Get(parser.ParseFile(token.NewFileSet(), file, nil, 0))(t)
		ast.Inspect(f, func(n ast.Node) bool {
			for _, e := range of(n) {
				if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
					text := must.Get(strconv.Unquote(l.Value))(t)
					texts = append(texts, text)
				}
			}
			return true
		})
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// named picks the values of constants whose names begin so.
func named(prefix string) func(ast.Node) []ast.Expr {
	return func(n ast.Node) []ast.Expr {
		if v, ok := n.(*ast.ValueSpec); ok && strings.HasPrefix(v.Names[0].Name, prefix) {
			return v.Values
		}
		return nil
	}
}

// What is written of an event is documented, and what is documented is written.
func TestReference_has_every_attribute_type_and_reason(t *testing.T) {
	files := must.Get(filepath.Glob("*.go"))(t)
	files = slices.DeleteFunc(files, func(file string) bool { return strings.HasSuffix(file, "_test.go") })
	written := literals(t, files, func(n ast.Node) []ast.Expr {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) != 2 {
			return nil
		}
		if f, ok := call.Fun.(*ast.SelectorExpr); !ok || f.Sel.Name != "add" {
			return nil
		}
		return call.Args[:1]
	})
	attributes, _, _ := strings.Cut(page(t, "## Attributes"), "\n### ")
	types, _, _ := strings.Cut(page(t, "## Types"), "\n### ")
	reasons := ""
	for line := range strings.Lines(attributes) {
		if strings.HasPrefix(line, "| `reason` |") {
			reasons = line
		}
	}
	for _, c := range []struct {
		what           string
		has, documents []string
		mentioned      []string
	}{
		{"attribute", written, firstColumn(attributes), inCode(attributes)},
		{"type", literals(t, files, named("Type")), firstColumn(types), inCode(types)},
		{"reason", literals(t, []string{"../source/change.go"}, named("Reason")), nil, inCode(reasons)},
	} {
		assert.GreaterOrEqual(t, len(c.has), 6, "only %d of kind %s were found", len(c.has), c.what)
		for _, name := range c.has {
			assert.Contains(t, c.mentioned, name, "docs/event-reference.md does not have the %s", c.what)
		}
		for _, name := range c.documents {
			assert.True(t, name == c.what || slices.Contains(c.has, name),
				"docs/event-reference.md has the %s %s, which nothing writes", c.what, name)
		}
	}
}
