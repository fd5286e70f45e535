// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// The parser is recursive, and its time grows with the square of what it reads. So a file has at most maxFile bytes and
// maxTokens tokens, and is nested at most maxNesting deep. Of what is not supported maxStrange tokens are looked at.
// Of all problems maxProblems are told.
const (
	maxFile     = 256 << 10
	maxTokens   = 50_000
	maxNesting  = 100
	maxStrange  = 20
	maxProblems = 100
)

// Load reads and checks the file. An error is a [Problems] with everything that is wrong with it. The warnings name
// what is allowed and costs something that is otherwise promised. Relative paths in the file are relative to its
// directory, and absolute in what is returned.
func Load(file string) (c *Config, warnings Problems, err error) {
	data, err := Read(file)
	if err != nil {
		return nil, nil, err
	}
	return LoadRead(file, data)
}

// Read returns what is in the file. An error is a [Problems].
func Read(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		var cause *fs.PathError
		if errors.As(err, &cause) {
			err = cause.Err
		}
		return nil, Problems{{File: file, Message: fmt.Sprintf("cannot be read: %v; give an existing file", err)}}
	}
	return data, nil
}

// LoadRead is [Load] for a file that was read.
func LoadRead(file string, data []byte) (c *Config, warnings Problems, err error) {
	dir, err := filepath.Abs(filepath.Dir(file))
	if err != nil {
		return nil, nil,
			Problems{{File: file, Message: fmt.Sprintf("is in a directory that cannot be found: %v; give an absolute path",
				err)}}
	}
	if c, warnings, err = Parse(file, data); c != nil {
		c.resolve(dir)
	}
	return c, warnings, err
}

// Parse is [Load] for what is already read; file is used in messages only, and paths are left as they are.
func Parse(file string, data []byte) (c *Config, warnings Problems, err error) {
	l := loader{file: file, decoder: decoder{marks: map[string]mark{}, bad: map[string]bool{}}}
	c = Default()
	if body := l.body(data); body != nil {
		l.decode(body, c)
	}
	if l.bad[""] { // what is not a mapping is not worth a second complaint
		return nil, nil, l.problems(l.issues)
	}
	c.complete()
	found, warned := c.check()
	for _, i := range found {
		if !l.known(i.path) {
			l.issues = append(l.issues, i)
		}
	}
	if len(l.issues) > 0 {
		return nil, l.problems(warned), l.problems(l.issues)
	}
	return c, l.problems(warned), nil
}

// LoadServer returns the server of a file that may be wrong elsewhere; false if server.listen cannot be told, or,
// where it is asked for, server.admin.
func LoadServer(file string, admin bool) (server Server, known bool) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Server{}, false
	}
	l, c := loader{file: file, decoder: decoder{marks: map[string]mark{}, bad: map[string]bool{}}}, Default()
	body := l.body(data)
	if body == nil {
		return Server{}, false
	}
	l.decode(body, c)
	server = c.Server
	known = !l.known("server.listen") && listenable(server.Listen)
	if admin {
		known = known && !l.known("server.admin") && (server.Admin == "" || listenable(server.Admin))
	}
	return server, known
}

// Place gives problems with a file that were found elsewhere, with a path each, their places in it.
func Place(file string, found Problems) Problems {
	data, err := os.ReadFile(file)
	if err != nil {
		data = nil // without it nothing has a place
	}
	return PlaceRead(file, data, found)
}

// PlaceRead is [Place] for a file that was read.
func PlaceRead(file string, data []byte, found Problems) Problems {
	l := loader{file: file, decoder: decoder{marks: map[string]mark{}, bad: map[string]bool{}}}
	if body := l.body(data); body != nil {
		l.decode(body, Default())
	}
	issues := make([]issue, len(found))
	for i, p := range found {
		issues[i] = issue{path: p.Path, message: p.Message}
	}
	return l.problems(issues)
}

// loader puts places to what is found.
type loader struct {
	file string
	decoder
}

// known reports whether the decoder has complained about path, or about something that path is in.
func (l *loader) known(path string) bool {
	for ; path != ""; path = parent(path) {
		if l.bad[path] {
			return true
		}
	}
	return false
}

// problems gives each issue the place of its path, or of the nearest one around it that the file has.
func (l *loader) problems(issues []issue) Problems {
	var all Problems
	for _, i := range issues {
		at := i.at
		for path := i.path; at.line == 0; path = parent(path) {
			at = l.marks[path]
			if path == "" {
				at.line, at.column = max(at.line, 1), max(at.column, 1)
			}
		}
		all = append(all, Problem{
			File: l.file, Line: at.line, Column: at.column, Path: oneLine(i.path),
			Message: oneLine(i.message),
		})
	}
	all.sort()
	if more := len(all) - maxProblems; more > 0 {
		all = append(all[:maxProblems], Problem{
			File:    l.file,
			Message: fmt.Sprintf("there are %d problems more; correct these first", more),
		})
	}
	return all
}

// parent returns the path around path: pipelines[0].name, pipelines[0], pipelines, nothing.
func parent(path string) string {
	return path[:max(strings.LastIndexAny(path, ".["), 0)]
}

// maxLine is how many bytes of a path or of a message are told.
const maxLine = 2000

// oneLine makes s fit one line of a terminal, whatever the file put into it.
func oneLine(s string) string {
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
func (l *loader) body(data []byte) ast.Node {
	const valid = "see config.example.yaml for every key"
	data = bytes.TrimPrefix(data, []byte("\uFEFF"))
	if at, wrong := notText(data); wrong != "" {
		l.addAt("", at, wrong)
		return nil
	}
	if len(data) > maxFile || indentation(data) > maxNesting {
		l.add("", tooMuch+valid)
		return nil
	}
	if m, found := tab(data); found {
		l.addAt("", m, "a tab indents this line; YAML takes spaces only")
		return nil
	}
	if m, found := conflict(data); found {
		l.addAt("", m, "a merge conflict is left here; keep one side of it")
		return nil
	}
	f, err := parseYAML(data)
	var large *tooLargeError
	if errors.As(err, &large) {
		l.addAt("", large.at, large.message)
		return nil
	}
	if err != nil {
		l.syntax(data, err)
		return nil
	}
	var body ast.Node
	for _, d := range f.Docs {
		switch {
		case d.Body == nil:
		case body != nil:
			l.note("", place(d.Body),
				"another document begins here; a configuration is one document, without --- or ... in between")
		default:
			body = d.Body
		}
	}
	if body == nil || body.Type() == ast.NullType {
		l.add("", "is empty; it needs at least pipelines, "+valid)
		return nil
	}
	return body
}

// parseYAML turns a panic of the parser into an error: what was read is at fault, not the process.
func parseYAML(data []byte) (f *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, err = nil, errors.New("is not YAML")
		}
	}()
	tokens := lexer.Tokenize(string(data))
	if err := bounded(tokens); err != nil {
		return nil, err
	}
	return parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
}

// tooMuch is said of a file that is not parsed.
const tooMuch = "is larger than 256 KiB or 50,000 words, or nested deeper than 100 levels; "

// tooLargeError says that a file is not parsed, because that could take too long.
type tooLargeError struct {
	at      mark
	message string
}

func (e *tooLargeError) Error() string { return e.message }

// Types of tokens.
var (
	opening           = []token.Type{token.MappingStartType, token.SequenceStartType}
	closing           = []token.Type{token.MappingEndType, token.SequenceEndType}
	unsupportedTokens = []token.Type{token.AnchorType, token.AliasType, token.MappingKeyType, token.MergeKeyType}
)

// bounded refuses tokens that the parser would be busy with for long.
func bounded(tokens token.Tokens) error {
	if len(tokens) > maxTokens {
		return &tooLargeError{message: tooMuch + "see config.example.yaml for every key"}
	}
	depth, strange := 0, 0
	for _, t := range tokens {
		switch {
		case slices.Contains(opening, t.Type):
			depth++
		case slices.Contains(closing, t.Type):
			depth = max(depth-1, 0)
		case slices.Contains(unsupportedTokens, t.Type):
			strange++
		}
		switch {
		case depth > maxNesting:
			return &tooLargeError{
				at:      mark{t.Position.Line, t.Position.Column},
				message: tooMuch + "see config.example.yaml for every key",
			}
		case strange > maxStrange:
			return &tooLargeError{
				at: mark{t.Position.Line, t.Position.Column},
				message: "has many anchors, aliases, merge keys or keys that begin with ?, and none of these is supported; write " +
					"values out",
			}
		}
	}
	return nil
}

// tab finds a tab in the indentation of a line that says something; inside a literal block it may be legal, and is
// refused all the same: nothing here needs one.
func tab(data []byte) (mark, bool) {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		rest := bytes.TrimLeft(text, " ")
		if said := bytes.TrimLeft(text, " \t\r\n"); len(said) > 0 && said[0] != '#' && rest[0] == '\t' {
			return mark{line, 1 + len(text) - len(rest)}, true
		}
	}
	return mark{}, false
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
