// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// sightings says since when answers lack a resource. An API server that does not answer, or fails for the resource's
// group, says nothing, and the time begins again.
type sightings struct {
	// since is when the first of the present row of answers came; zero where the last request failed.
	since time.Time
	// gone is when an answer first lacked what the one before had; healed when the first came that did not fail for a
	// group, after one that did.
	gone   map[schema.GroupResource]time.Time
	healed map[string]time.Time
	// failing are the groups that the last answer failed for, last its time.
	failing map[string]bool
	last    time.Time
}

// answered takes note of what an answer had that came after one that had before, which may be nil.
func (s *sightings) answered(now time.Time, failed map[schema.GroupVersion]error, before, has *Offers) {
	if s.since.IsZero() {
		s.since = now
		s.gone, s.healed = map[schema.GroupResource]time.Time{}, map[string]time.Time{}
	}
	s.last = now
	failing := map[string]bool{}
	for gv := range failed {
		failing[gv.Group] = true
	}
	for group := range s.failing {
		if !failing[group] {
			s.healed[group] = now
		}
	}
	s.failing = failing
	for name := range has.served {
		delete(s.gone, name)
	}
	if before == nil {
		return
	}
	for name := range before.served {
		if has.served[name] == nil {
			s.gone[name] = now
		}
	}
}

// failed takes note that there was no answer.
func (s *sightings) failed() { s.since = time.Time{} }

// absent returns for how long a resource that the last answer lacked has been lacking in all answers.
func (s *sightings) absent(name schema.GroupResource) time.Duration {
	if s.since.IsZero() || s.failing[name.Group] {
		return 0
	}
	from := s.since
	for _, t := range []time.Time{s.gone[name], s.healed[name.Group]} {
		if t.After(from) {
			from = t
		}
	}
	return s.last.Sub(from)
}
