// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"maps"
	"slices"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// seen remembers which resources a log has, and which selectors matched an event of it. It is not safe for concurrent
// use.
type seen struct {
	selectors []Selector
	matched   []bool
	names     map[string]bool
	// more says that there were more names than are kept.
	more bool
}

// maxSeen is how many resources are named to a person.
const maxSeen = 8

func newSeen(selectors []Selector) *seen {
	return &seen{selectors: selectors, matched: make([]bool, len(selectors)), names: make(map[string]bool)}
}

func (s *seen) note(e *event.Event) {
	if len(s.selectors) == 0 {
		return
	}
	for i, selector := range s.selectors {
		s.matched[i] = s.matched[i] || selector.matches(e) && (selector.name == "" || e.Op != event.Gap)
	}
	name := e.Resource
	if e.Group != "" {
		name += "." + e.Group
	}
	if name = cell(name, 100); !s.names[name] && len(s.names) == maxSeen {
		s.more = true
		return
	}
	s.names[name] = true
}

// missing names the selectors that matched nothing, printably.
func (s *seen) missing() string {
	var texts []string
	for i, selector := range s.selectors {
		if !s.matched[i] {
			texts = append(texts, Printable(selector.text))
		}
	}
	return strings.Join(texts, " or ")
}

// resources names, printably, what the events that were read are about; it is empty where there was none.
func (s *seen) resources() string {
	text := strings.Join(slices.Sorted(maps.Keys(s.names)), ", ")
	if s.more {
		text += " and others"
	}
	return text
}
