// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"errors"
	"regexp"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
)

// syntax reports what the parser says of data, and what is usually wrong with such a line.
func (l *loader) syntax(data []byte, err error) {
	var at mark
	message := err.Error()
	var e yaml.Error
	if errors.As(err, &e) {
		message = e.GetMessage()
		if t := e.GetToken(); t != nil && t.Position != nil {
			at = mark{t.Position.Line, t.Position.Column}
		}
	}
	l.addAt("", at, "YAML: "+message+"; "+syntaxHint(lineOf(data, at.line)))
}

// lineOf returns a line by its number, from 1; nothing where there is none.
func lineOf(data []byte, number int) []byte {
	for text := range bytes.Lines(data) {
		if number--; number == 0 {
			return text
		}
	}
	return nil
}

// quoteAlias is for an alias that is hardly meant as one.
const quoteAlias = "what begins with * is an alias of YAML; put it in quotes"

// syntaxHint says what to do about a line that is not YAML.
func syntaxHint(line []byte) string {
	for _, c := range []struct{ form, hint string }{
		{`\{\{`, "a template is left here; render it first"},
		{`^\s*-[A-Za-z]`, "an item of a list begins with - and a space"},
		{`^\s*[A-Za-z]+:\s*-\s`, "a list begins in the line below its key, or is written [a, b]"},
		{`[:[,-]\s*\*`, quoteAlias},
		{`:\s*\{[A-Za-z]+\}`, "put what begins with { in quotes"},
		{`:\s*("[^"]*"|'[^']*')\s*[^\s#,}\]]`, "put all of a value in quotes that begins with one"},
		{`:\s*[^"'\[{\s][^"'\[{]*:\s`, "put a value with a colon and a space in quotes"},
		{`:\s*"[^"]*\\`, `within double quotes \ begins an escape; write single quotes, or / in a path`},
		{`^[^"]*"[^"]*$|^[^']*'[^']*$`, "a quote has no counterpart"},
	} {
		if regexp.MustCompile(c.form).Match(line) {
			return c.hint
		}
	}
	return "mind indentation, quotes and brackets"
}

// conflict finds what a merge has left in a file.
func conflict(data []byte) (mark, bool) {
	line := 0
	for text := range bytes.Lines(data) {
		line++
		for _, begin := range []string{"<<<<<<< ", ">>>>>>> "} {
			if bytes.HasPrefix(text, []byte(begin)) {
				return mark{line, 1}, true
			}
		}
	}
	return mark{}, false
}

// notText finds what is not text in UTF-8, and says what it may be.
func notText(data []byte) (at mark, message string) {
	const valid = "; save the file as UTF-8"
	switch {
	case bytes.HasPrefix(data, []byte{0xff, 0xfe}), bytes.HasPrefix(data, []byte{0xfe, 0xff}):
		return mark{1, 1}, "is text in UTF-16, as PowerShell writes it" + valid
	case utf8.Valid(data) && bytes.IndexByte(data, 0) < 0:
		return mark{}, ""
	}
	line := 0
	for text := range bytes.Lines(data) {
		line++
		column := 1
		for len(text) > 0 {
			r, size := utf8.DecodeRune(text)
			if r == 0 || r == utf8.RuneError && size == 1 {
				return mark{line, column}, "is not text in UTF-8 from here" + valid
			}
			text, column = text[size:], column+1
		}
	}
	panic("BUG: all of it is text")
}
