// SPDX-License-Identifier: Apache-2.0

package jsonscan

import "bytes"

// Space returns the first place from i on that is not white space, len(b) if there is none.
func Space(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' {
		i++
	}
	return i
}

// LastByte returns the last place of b that is not white space, or 0.
func LastByte(b []byte) int {
	i := len(b) - 1
	for i > 0 && b[i] <= ' ' {
		i--
	}
	return max(i, 0)
}

// Skip returns where the value at i ends, or -1.
func Skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	j := i
	for j < len(b) && b[j] > ' ' && b[j] != ',' && b[j] != '}' && b[j] != ']' {
		j++
	}
	if j == i {
		return -1
	}
	return j
}

// skipString returns where the string that opens at i ends, or -1.
func skipString(b []byte, i int) int {
	open := i
	for i++; ; {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return -1
		}
		i += n + 1
		escapes := i - 2
		for escapes > open && b[escapes] == '\\' {
			escapes--
		}
		if (i-2-escapes)%2 == 0 {
			return i
		}
	}
}

// nesting is how a byte outside of strings changes the depth.
var nesting = [256]int8{'{': 1, '[': 1, '}': -1, ']': -1}

// skipNested returns where the object or array that opens at i ends, or -1. From quote to quote bytes are searched, not
// looked at.
func skipNested(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		if b[i] == '"' {
			if i = skipString(b, i); i < 0 {
				return -1
			}
			continue
		}
		depth += int(nesting[b[i]])
		i++
		if depth == 0 {
			return i
		}
	}
	return -1
}
