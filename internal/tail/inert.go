// SPDX-License-Identifier: Apache-2.0

package tail

import (
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

// shorten cuts s, which must be printable, to at most n runes.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
