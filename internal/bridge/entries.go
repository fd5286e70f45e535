// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"sync"
)

// entries are what a session knows of the entries of the configuration. Its methods may be called by several goroutines
// at a time.
type entries struct {
	mu sync.Mutex
	// specs are the entries that are read.
	specs []*StreamSpec
	// selected counts the streams that the last plan has of each.
	selected map[*StreamSpec]int
	// unbegun are those of which something is not open yet that was there at the start.
	unbegun map[*StreamSpec]struct{}
	// unknown says why they are not read.
	unknown map[*StreamSpec]error
}

func newEntries(specs []*StreamSpec) *entries {
	e := &entries{specs: specs, unbegun: map[*StreamSpec]struct{}{}}
	for _, spec := range specs {
		e.unbegun[spec] = struct{}{}
	}
	return e
}

// all returns the entries that are read.
func (e *entries) all() []*StreamSpec {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.specs
}

// replace makes specs those that are read, and returns which of those before are not among them, and which are new.
func (e *entries) replace(specs []*StreamSpec) (gone, come []*StreamSpec) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, spec := range e.specs {
		if !slices.Contains(specs, spec) {
			gone = append(gone, spec)
			delete(e.unbegun, spec)
			delete(e.unknown, spec)
		}
	}
	for _, spec := range specs {
		if !slices.Contains(e.specs, spec) {
			come = append(come, spec)
			e.unbegun[spec] = struct{}{}
		}
	}
	e.specs = specs
	return gone, come
}

// observe takes note of a plan: how many streams each entry has, why some entries are not read, and which have begun.
// It returns how many have not.
func (e *entries) observe(
	selected map[*StreamSpec]int, unknown map[*StreamSpec]error, begun func(*StreamSpec) bool,
) (unbegun int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.selected, e.unknown = selected, unknown
	for spec := range e.unbegun {
		if begun(spec) {
			delete(e.unbegun, spec)
		}
	}
	return len(e.unbegun)
}

// missing reports whether something of an entry is not open that should be, and why, if that is known.
func (e *entries) missing(spec *StreamSpec) (why error, missing bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, missing = e.unbegun[spec]
	why = e.unknown[spec]
	return why, missing || why != nil
}

// selectsNothing reports whether it is known that nothing is what an entry without an open stream selects.
func (e *entries) selectsNothing(spec *StreamSpec) bool {
	if spec.Wildcard == nil && spec.NamespaceSelector == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	_, opening := e.unbegun[spec]
	return !opening && e.selected[spec] == 0 && e.unknown[spec] == nil
}

// problems returns what keeps entries from being read, a line for each thing.
func (e *entries) problems() (lines []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, spec := range e.specs {
		if err := e.unknown[spec]; err != nil {
			lines = append(lines, fmt.Sprintf("%s: %v", spec.Resource, err))
		}
	}
	lines = slices.Compact(lines) // scopes of one entry
	if missing := len(e.unbegun); missing > 0 && len(e.unknown) == 0 {
		lines = append(lines, fmt.Sprintf("streams that are not open yet: %d", missing))
	}
	return lines
}
