// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The parser is recursive, and its time grows with the square of what it reads. So a file has at most maxFile bytes and
// maxTokens tokens, and is nested at most maxNesting deep. Of what is not supported maxStrange tokens are looked at.
// Of all problems maxProblems are told, and of a path or a message maxLine bytes.
const (
	maxFile     = 256 << 10
	maxTokens   = 50_000
	maxNesting  = 100
	maxStrange  = 20
	maxProblems = 100
	maxLine     = 2000

	seeExample = "see config.example.yaml for every key"
	tooMuch    = "is larger than 256 KiB or 50,000 words, or nested deeper than 100 levels; " + seeExample
)

// mark is a place in the file, from 1.
type mark struct{ line, column int }

// Document is a file that was read: where each path is, and what is wrong.
type Document struct {
	file  string
	whole *Kind
	marks map[string]mark
	// bad are the paths that a problem was found at.
	bad    map[string]bool
	issues Problems
}

// Decode reads data into v, a pointer to a struct, with the defaults of k, a mapping. It goes on after a problem.
func Decode(file string, data []byte, v any, k *Kind) *Document {
	d := &Document{file: file, whole: k, marks: map[string]mark{}, bad: map[string]bool{}}
	into := reflect.ValueOf(v).Elem()
	setDefaults(into, k.Keys)
	if body := d.body(data); body != nil {
		d.value(body, "", into, k)
	}
	return d
}

// Problems are those that decoding has found. They have no places yet, as those that others find.
func (d *Document) Problems() Problems { return d.issues }

// Unreadable reports whether there is nothing in the file that could be decoded.
func (d *Document) Unreadable() bool { return d.bad[""] }

func (d *Document) add(path, message string) { d.addAt(path, mark{}, message) }

func (d *Document) addAt(path string, at mark, message string) {
	d.bad[path] = true
	d.note(path, at, message)
}

// note is addAt for what does not spoil the value of path.
func (d *Document) note(path string, at mark, message string) {
	d.issues = append(d.issues, Problem{Line: at.line, Column: at.column, Path: path, Message: message})
}

// Known reports whether decoding has complained about path, or about something that path is in.
func (d *Document) Known(path string) bool {
	for ; path != ""; path = parent(path) {
		if d.bad[path] {
			return true
		}
	}
	return false
}

// Place gives each problem the place of its path, or of the nearest one around it that the file has, and sorts them.
func (d *Document) Place(found Problems) (all Problems) {
	for _, p := range found {
		at := mark{p.Line, p.Column}
		for path := p.Path; at.line == 0; path = parent(path) {
			at = d.marks[path]
			if path == "" {
				at.line, at.column = max(at.line, 1), max(at.column, 1)
			}
		}
		all = append(all, Problem{
			File: d.file, Line: at.line, Column: at.column, Path: OneLine(p.Path), Message: OneLine(p.Message),
		})
	}
	all.sort()
	if more := len(all) - maxProblems; more > 0 {
		all = append(all[:maxProblems], Problem{
			File: d.file, Message: fmt.Sprintf("there are %d problems more; correct these first", more),
		})
	}
	return all
}

// parent returns the path around path: pipelines[0].name, pipelines[0], pipelines, nothing.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// Join returns the path of a key in the mapping at path.
func Join(path, key string) string { return strings.TrimPrefix(path+"."+key, ".") }

// OneLine makes s fit one line of a terminal, whatever the file put into it.
func OneLine(s string) string {
	if len(s) > maxLine {
		s = s[:maxLine-maxLine/4] + "…" + s[len(s)-maxLine/4:]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || 0x80 <= r && r < 0xa0 || r == utf8.RuneError || r == 0x2028 || r == 0x2029 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// body parses data and returns the one document's content, or nil and an issue.
func (d *Document) body(data []byte) ast.Node {
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if !utf8.Valid(data) || bytes.IndexByte(data, 0) >= 0 {
		i := bytes.IndexFunc(data, func(r rune) bool { return r == utf8.RuneError || r == 0 })
		line := data[bytes.LastIndexByte(data[:i], '\n')+1 : i]
		d.addAt("", mark{1 + bytes.Count(data[:i], []byte("\n")), 1 + utf8.RuneCount(line)},
			"is not text in UTF-8 from here; save the file as UTF-8")
		return nil
	}
	f, at, err := parseYAML(data)
	if err != nil {
		d.addAt("", at, err.Error())
		return nil
	}
	var body ast.Node
	for _, doc := range f.Docs {
		switch {
		case doc.Body == nil:
		case body != nil:
			d.note("", place(doc.Body),
				"another document begins here; a configuration is one document, without --- or ... in between")
		default:
			body = doc.Body
		}
	}
	if body == nil || body.Type() == ast.NullType {
		d.add("", "is empty; it needs pipelines or replicas, "+seeExample)
		return nil
	}
	return body
}

// parseYAML parses data, unless that could take too long. It turns a panic of the parser into an error: what was read
// is at fault, not the process.
func parseYAML(data []byte) (f *ast.File, at mark, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, errors.New("is not YAML")
		}
	}()
	if len(data) > maxFile || indentation(data) > maxNesting {
		return nil, mark{}, errors.New(tooMuch)
	}
	tokens := lexer.Tokenize(string(data))
	if at, err := bounded(tokens); err != nil {
		return nil, at, err
	}
	f, err = parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		message := err.Error()
		var e yaml.Error
		if errors.As(err, &e) {
			message = strings.ReplaceAll(e.GetMessage(), "character '\t'", "a tab") // which would not be printed
			if t := e.GetToken(); t != nil && t.Position != nil {
				at = mark{t.Position.Line, t.Position.Column}
			}
		}
		return nil, at, errors.New("YAML: " + message)
	}
	return f, at, nil
}

// bounded refuses tokens that the parser would be busy with for long.
func bounded(tokens token.Tokens) (at mark, err error) {
	if len(tokens) > maxTokens {
		return mark{}, errors.New(tooMuch)
	}
	depth, strange := 0, 0
	for _, t := range tokens {
		switch t.Type {
		case token.MappingStartType, token.SequenceStartType:
			depth++
		case token.MappingEndType, token.SequenceEndType:
			depth = max(depth-1, 0)
		case token.AnchorType, token.AliasType, token.MappingKeyType, token.MergeKeyType:
			strange++
		default:
		}
		switch at = (mark{t.Position.Line, t.Position.Column}); {
		case depth > maxNesting:
			return at, errors.New(tooMuch)
		case strange > maxStrange:
			return at, errors.New("has many anchors, aliases, merge keys or keys that begin with ?, and none of these is " +
				"supported; write values out")
		}
	}
	return mark{}, nil
}

// indentation returns an upper bound of how deep the parser has to go into data because of indentation, and of dashes
// and question marks in one line.
func indentation(data []byte) (deepest int) {
	for text := range bytes.Lines(data) {
		indent := len(text) - len(bytes.TrimLeft(text, " "))
		if bytes.HasPrefix(text[indent:], []byte("#")) {
			continue
		}
		dashes := bytes.Count(text, []byte("- ")) + bytes.Count(text, []byte("? "))
		deepest = max(deepest, indent/2+dashes)
	}
	return deepest
}
