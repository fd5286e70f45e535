// SPDX-License-Identifier: Apache-2.0

// Package inert makes texts of stores, logs and servers harmless for readers and terminals.
package inert

import (
	"fmt"
	"io"
	"regexp"
	"strconv"
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

// AppendJSON appends valid JSON so that no terminal obeys it. What is not printable in it stands in strings, and
// becomes an escape that means the same. Line ends stand between values, and stay. What is not UTF-8 becomes U+FFFD.
func AppendJSON(dst, src []byte) []byte {
	for len(src) > 0 {
		r, n := utf8.DecodeRune(src)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, "\ufffd"...)
		case strconv.IsPrint(r), r == '\n':
			dst = append(dst, src[:n]...)
		case r > 0xffff:
			r -= 0x10000
			dst = fmt.Appendf(dst, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		default:
			dst = fmt.Appendf(dst, `\u%04x`, r)
		}
		src = src[n:]
	}
	return dst
}
