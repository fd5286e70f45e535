// SPDX-License-Identifier: Apache-2.0

package natsclient

import "strings"

// maxSubject leaves room for the rest in the 4096 bytes of a protocol line, beyond which a server closes the
// connection.
const maxSubject = 3 << 10

// ValidSubject reports whether one can publish to s. The client library is told not to look, because what it
// misses would cost the connection.
func ValidSubject(s string) bool {
	if len(s) > maxSubject {
		return false
	}
	empty := true
	for i := range len(s) {
		switch c := s[i]; {
		case c == '.':
			if empty {
				return false
			}
			empty = true
		case c <= ' ' || c == 0x7f:
			return false
		case (c == '*' || c == '>') && empty && (i+1 == len(s) || s[i+1] == '.'):
			return false
		default:
			empty = false
		}
	}
	return !empty
}

// ValidPattern reports whether s is a subject, wildcards allowed.
func ValidPattern(s string) bool {
	tokens := strings.Split(s, ".")
	for i, t := range tokens {
		if t == "" || strings.ContainsAny(t, " \t\r\n") || t == ">" && i != len(tokens)-1 {
			return false
		}
	}
	return true
}

// Covers reports whether each subject that want stands for is matched by have.
func Covers(have, want string) bool {
	h, w := strings.Split(have, "."), strings.Split(want, ".")
	for i, t := range h {
		switch {
		case i >= len(w):
			return false
		case t == ">":
			return true
		case w[i] == ">":
			return false
		case t != "*" && t != w[i]:
			return false
		}
	}
	return len(h) == len(w)
}

// Overlap reports whether there is a subject that both stand for.
func Overlap(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		switch {
		case x[i] == ">" || y[i] == ">":
			return true
		case x[i] != y[i] && x[i] != "*" && y[i] != "*":
			return false
		}
	}
	return len(x) == len(y)
}

// CoveredByAny reports whether one of the patterns covers want.
func CoveredByAny(patterns []string, want string) bool {
	for _, p := range patterns {
		if Covers(p, want) {
			return true
		}
	}
	return false
}
