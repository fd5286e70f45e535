// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// How tests that were skipped begin their reason, if nothing is missing.
const (
	otherTier     = "NOT IN THIS TIER: "
	notApplicable = "NOT APPLICABLE: "
	known         = "KNOWN: "
)

// print writes the report. Its last line has the numbers.
func (r *runs) print(out io.Writer, late error) error {
	var b strings.Builder
	top := slices.DeleteFunc(slices.Clone(r.Tests), func(t result) bool { return strings.Contains(t.Test, "/") })
	slowest(&b, "packages", r.Packages)
	slowest(&b, "tests", top)
	if late != nil {
		fmt.Fprintf(&b, "\ntimes:\n%s\n", indent(late.Error()))
	}
	r.printNotRun(&b)
	r.printNumbers(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

func slowest(b *strings.Builder, what string, results []result) {
	const most = 10
	all := slices.Clone(results)
	slices.SortStableFunc(all, func(x, y result) int { return cmp.Compare(y.Seconds, x.Seconds) })
	fmt.Fprintf(b, "\nslowest %s:\n", what)
	for _, r := range all[:min(most, len(all))] {
		fmt.Fprintf(b, "%8.1f s  %s\n", r.Seconds, r.name())
	}
}

// skipped returns how many tests other tiers run, by what to do about it, and the tests that were not run, by reason.
func (r *runs) skipped() (tests map[string]int, missing map[string][]string) {
	tests, missing = map[string]int{}, map[string][]string{}
	for _, t := range r.Tests {
		switch reason, elsewhere := strings.CutPrefix(t.Reason, otherTier); {
		case t.Action != "skip" || strings.HasPrefix(t.Reason, notApplicable):
		case elsewhere:
			tests[reason]++
		default:
			missing[t.Reason] = append(missing[t.Reason], t.Package+" "+strings.Split(t.Test, "/")[0])
		}
	}
	return tests, missing
}

// complete returns an error if something was not run that no other tier runs. A known violation was.
func (r *runs) complete() error {
	_, missing := r.skipped()
	lines := slices.Concat(r.NotRun, slices.Collect(maps.Keys(missing)))
	lines = slices.DeleteFunc(lines, func(s string) bool { return strings.HasPrefix(s, known) })
	if len(lines) == 0 {
		return nil
	}
	slices.Sort(lines)
	return fmt.Errorf("CI is set, and not all was run: %s", strings.Join(lines, "; "))
}

// printNotRun writes what was not run, by reason. What another tier runs is only counted.
func (r *runs) printNotRun(b *strings.Builder) {
	tests, missing := r.skipped()
	b.WriteString("\nin other tiers:")
	later := false
	for _, reason := range slices.Sorted(maps.Keys(tests)) {
		fmt.Fprintf(b, "\n  %s: %s", count(tests[reason], "test"), reason)
	}
	for _, command := range slices.Sorted(maps.Keys(r.Later)) {
		packages := slices.DeleteFunc(slices.Clone(r.Later[command]), r.has) // one of several runs may have it
		slices.Sort(packages)
		if len(packages) == 0 {
			continue
		}
		later = true
		fmt.Fprintf(b, "\n  %s: runs with %s: %s", count(len(packages), "package"), command, strings.Join(packages, " "))
	}
	if !later && len(tests) == 0 {
		b.WriteString(" nothing")
	}
	b.WriteString("\n\nnot run:")
	for _, line := range r.NotRun {
		fmt.Fprintf(b, "\n  %s", line)
	}
	for _, reason := range slices.Sorted(maps.Keys(missing)) {
		fmt.Fprintf(b, "\n  %s\n    %s", reason, strings.Join(few(missing[reason]), "\n    "))
	}
	if len(missing)+len(r.NotRun) == 0 {
		b.WriteString(" nothing")
	}
	b.WriteString("\n")
}

// printNumbers writes how many tests passed, failed and were skipped. A package that failed without a test counts as
// one.
func (r *runs) printNumbers(b *strings.Builder) {
	numbers, failed := map[string]int{}, map[string]bool{}
	for _, t := range r.Tests {
		numbers[t.Action]++
		failed[t.Package] = failed[t.Package] || t.Action == "fail"
	}
	for _, p := range r.Packages {
		if p.Action == "fail" && !failed[p.Package] {
			numbers["fail"]++
		}
	}
	fmt.Fprintf(b, "\n%d passed, %d failed, %d skipped\n", numbers["pass"], numbers["fail"], numbers["skip"])
}

func (r *runs) has(pkg string) bool {
	return slices.ContainsFunc(r.Packages, func(p result) bool { return p.Package == pkg })
}

// few returns the first names, each once, and how many more there are.
func few(names []string) []string {
	const most = 10
	slices.Sort(names)
	names = slices.Compact(names)
	if more := len(names) - most; more > 0 {
		return append(names[:most:most], fmt.Sprintf("and %s more", count(more, "test")))
	}
	return names
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }
