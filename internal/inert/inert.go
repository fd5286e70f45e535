// SPDX-License-Identifier: Apache-2.0

// Package inert makes texts of stores, logs and servers harmless for readers and terminals.
package inert

import (
	"io"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/runes"
	"golang.org/x/text/transform"
)

// maxText is how many bytes of an error are told.
const maxText = 1000

// userinfo is what names a user, and a password perhaps, in a URL: up to the last @, as one may be in a password.
var userinfo = regexp.MustCompile(`://[^/\s"]+@`)

// Line returns a text for anybody's eyes and any terminal: in one line, without credentials in URLs, at most about
// 1,000 bytes long.
func Line(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsPrint(r):
			return r
		case unicode.IsSpace(r), unicode.IsControl(r):
			return ' '
		default:
			return -1 // marks of direction and other things that are not seen
		}
	}, strings.ToValidUTF8(text, "\ufffd"))
	text = userinfo.ReplaceAllString(text, "://[redacted]@")
	if len(text) <= maxText {
		return text
	}
	cut := maxText
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// NewWriter returns a writer to w that writes a space for each character that cannot be printed, but for line ends. So
// no terminal obeys names and messages of stores, logs and servers.
func NewWriter(w io.Writer) io.Writer {
	return transform.NewWriter(w, runes.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return ' '
	}))
}
