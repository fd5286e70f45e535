// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Promise is one of P1 to P9.
type Promise string

// The promises; see the package's documentation.
const (
	P1 Promise = "P1"
	P2 Promise = "P2"
	P3 Promise = "P3"
	P4 Promise = "P4"
	P5 Promise = "P5"
	P6 Promise = "P6"
	P7 Promise = "P7"
	P8 Promise = "P8"
	P9 Promise = "P9"
)

// Violation is one broken promise.
type Violation struct {
	Promise Promise
	// Stream and Key say what it is about; they may be empty.
	Stream, Key string
	What        string
	// Truth and Log are the object's states and entries around the place.
	Truth, Log []string
	Seed       uint64
}

// String prints the violation with the object's history beside the log's, and the seed that repeats it.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s broken: %s", v.Promise, strings.TrimSpace(v.Stream+" "+v.Key))
	fmt.Fprintf(&b, ": %s (seed %d)", v.What, v.Seed)
	if len(v.Truth)+len(v.Log) == 0 {
		return b.String()
	}
	width := len("true history")
	for _, l := range v.Truth {
		width = max(width, utf8.RuneCountInString(l))
	}
	fmt.Fprintf(&b, "\n  %-*s | log", width, "true history")
	for i := range max(len(v.Truth), len(v.Log)) {
		fmt.Fprintf(&b, "\n  %-*s | %s", width, nth(v.Truth, i), nth(v.Log, i))
	}
	return b.String()
}

func nth(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return ""
}

// around returns the elements near i, and says how many it leaves out. i may be out of range.
func around[T any](all []T, i int, text func(T) string) []string {
	const reach = 6
	low, high := max(0, min(i-reach, len(all)-1)), min(len(all), max(i, 0)+reach+1)
	var lines []string
	if low > 0 {
		lines = append(lines, fmt.Sprintf("… %d before", low))
	}
	for j := low; j < high; j++ {
		line := text(all[j])
		if j == i {
			line += "  <"
		}
		lines = append(lines, line)
	}
	if high < len(all) {
		lines = append(lines, fmt.Sprintf("… %d after", len(all)-high))
	}
	return lines
}
