// SPDX-License-Identifier: Apache-2.0

package campaign

import "regexp"

// Known is a violation that the bridge is known to commit. It is counted and printed, and fails no campaign.
type Known struct {
	// Name says which one it is: a number in the list of breaches, or a few words.
	Name string
	// Kind is the promise, or what else is violated.
	Kind string
	// Fault, Stream and What match the name of a fault of the round, the stream, and what is said. A nil one matches all.
	Fault, Stream, What *regexp.Regexp
}

// KnownViolations are those of the present bridge. An entry that does not occur in the plan and the fixed seeds of CI
// fails CI: then it is mended, and goes.
func KnownViolations() []Known { return nil }

func (k Known) matches(kind, stream, what string, faults []string) bool {
	matches := func(r *regexp.Regexp, s string) bool { return r == nil || r.MatchString(s) }
	if k.Kind != kind || !matches(k.Stream, stream) || !matches(k.What, what) {
		return false
	}
	for _, f := range faults {
		if matches(k.Fault, f) {
			return true
		}
	}
	return k.Fault == nil
}
