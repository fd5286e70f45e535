// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	// File, Line and Column say where, from 1, columns in characters. Line is 0 where there is no place: the file
	// cannot be read, or the configuration comes from arguments.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	// Path is the key, as in pipelines[0].name; empty: the file as a whole.
	Path string `json:"path,omitempty"`
	// Message says what is wrong; and after a semicolon, what is valid.
	Message string `json:"message"`
}

// String returns the problem as FILE:LINE:COLUMN: path: what is wrong; what is valid. It is one line.
func (p Problem) String() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d:%d", p.Line, p.Column)
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Problems is an error that holds all problems of a file, in the order of their places.
type Problems []Problem

// Error returns the problems, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.String()
	}
	return strings.Join(lines, "\n")
}

func (p Problems) sort() {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
}

// Closest returns the one of words that was probably meant by s, or nothing.
func Closest(s string, words []string) (string, bool) {
	best, distance := "", 1+min(max(len(s)-1, 0)/4, 2)
	for _, w := range words {
		if strings.EqualFold(w, s) {
			return w, true
		}
		if d := EditDistance(strings.ToLower(s), strings.ToLower(w)); d <= distance && (best == "" || d < distance) {
			best, distance = w, d
		}
	}
	if best == "" {
		best = shortened(s, words)
	}
	return best, best != ""
}

// shortened returns the only one of words that is the beginning of s, or begins with s; of at least three letters.
func shortened(s string, words []string) (found string) {
	for _, w := range words {
		if min(len(s), len(w)) < 3 || !strings.HasPrefix(w, s) && !strings.HasPrefix(s, w) {
			continue
		}
		if found != "" {
			return ""
		}
		found = w
	}
	return found
}

// EditDistance counts the insertions, removals and replacements of bytes, and exchanges of two that are beside each
// other, that make b of a.
func EditDistance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return len(a) + len(b)
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := range len(a) {
		for j := range len(b) {
			replaced := rows[i][j]
			if a[i] != b[j] {
				replaced++
			}
			rows[i+1][j+1] = min(rows[i][j+1]+1, rows[i+1][j]+1, replaced)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				rows[i+1][j+1] = min(rows[i+1][j+1], rows[i-1][j-1]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
