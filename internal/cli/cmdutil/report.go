// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

// Report is an error that says what is wrong with a file, and among it what is allowed and costs something, and what
// no server could be asked about, in the order of lines.
type Report struct {
	Problems  config.Problems
	Warnings  config.Problems
	Unreached config.Problems
}

// Reported returns err together with the warnings; err itself where it is about no file.
func Reported(err error, warnings config.Problems) error {
	var problems config.Problems
	if !errors.As(err, &problems) {
		return err
	}
	return &Report{Problems: problems, Warnings: warnings}
}

// Error implements error.
func (r *Report) Error() string {
	type line struct {
		config.Problem
		text string
	}
	var lines []line
	for _, p := range r.Problems {
		lines = append(lines, line{p, p.String()})
	}
	for _, u := range r.Unreached {
		lines = append(lines, line{u, u.String()})
	}
	for _, w := range r.Warnings {
		lines = append(lines, line{w, warning(w)})
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	texts := make([]string, len(lines))
	for i, l := range lines {
		texts[i] = l.text
	}
	return strings.Join(texts, "\n")
}

// Unwrap returns the problems.
func (r *Report) Unwrap() error { return r.Problems }

func warning(w config.Problem) string { return w.String() + " (warning)" }

// PrintWarnings prints the warnings of a file without problems.
func PrintWarnings(to io.Writer, warnings config.Problems) {
	for _, w := range warnings {
		_, _ = fmt.Fprintln(to, warning(w))
	}
}
