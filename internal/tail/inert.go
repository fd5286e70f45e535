// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Printable returns s for a terminal: as it is where every rune is printable, else with escapes in place of those that
// are not. The result never holds a control character, a direction mark, a line break or a byte that is not UTF-8.
func Printable(s string) string {
	if printable(s) {
		return s
	}
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`)
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return true
}

// appendInert appends valid JSON so that no terminal obeys it: what is not printable in it stands in strings, and becomes
// an escape that means the same. What is not UTF-8 becomes U+FFFD.
func appendInert(dst, src []byte) []byte {
	for len(src) > 0 {
		r, n := utf8.DecodeRune(src)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, "\ufffd"...)
		case strconv.IsPrint(r):
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

// shorten cuts s, which must be printable, to at most n runes.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
