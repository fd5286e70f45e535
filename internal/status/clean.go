// SPDX-License-Identifier: Apache-2.0

package status

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxText is how many bytes of an error are told.
const maxText = 1000

// userinfo is what names a user, and a password perhaps, in a URL: up to the last @, as one may be in a password.
var userinfo = regexp.MustCompile(`://[^/\s"]+@`)

// clean returns a text for anybody's eyes and any terminal: in one line, without credentials in URLs, not endless.
func clean(text string) string {
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

// inert returns lines that no terminal obeys. A bridge tells nothing else; whoever answers in its place might.
func inert(lines string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\n' {
			return r
		}
		return ' '
	}, lines)
}
