// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Op is what happened to an object, as seen by the stream it belongs to.
type Op string

// The operations.
const (
	Added   Op = "added"
	Updated Op = "updated"
	Deleted Op = "deleted"
)

// Stream is one resource in one scope.
type Stream struct {
	// Cluster is the name that events carry.
	Cluster  string
	Resource schema.GroupVersionResource
	// Namespace is empty for all namespaces and for cluster-scoped resources.
	Namespace     string
	LabelSelector string
}

// Source returns the CloudEvents source of the stream's events.
func (s Stream) Source() string {
	if s.Resource.Group == "" {
		return "/clusters/" + s.Cluster + "/api/" + s.Resource.Version + "/" + s.Resource.Resource
	}
	return "/clusters/" + s.Cluster + "/apis/" + s.Resource.Group + "/" + s.Resource.Version + "/" + s.Resource.Resource
}

// String names the stream for people.
func (s Stream) String() string {
	n := s.Resource.GroupResource().String()
	if s.Namespace != "" {
		n += "/" + s.Namespace
	}
	if s.LabelSelector != "" {
		n += "?" + s.LabelSelector
	}
	return n
}

// State is one state of one object, or its end.
type State struct {
	// History counts the restorations of etcd before the state, from 0.
	History int
	UID     string
	// Version is the resourceVersion; of an end it is the version of the deletion, or of the change that took the
	// object out of the selection.
	Version uint64
	Op      Op
	// Body is a hash of the content; a deletion has that of the state before. It is empty where the content is not
	// compared.
	Body string
	// Phase is the phase of the schedule in which the state was new. Unclear says that it is not certain that it was
	// selected. Selects says that nothing happened to the object, and the selection changed. Left says that after this
	// end, before a next state, there was a time in which the object would not have been selected.
	Phase                  int
	Unclear, Selects, Left bool
}

func (s State) String() string { return fmt.Sprintf("h%d %d %s %s", s.History, s.Version, s.Op, s.UID) }

func (s State) live() bool { return s.Op != Deleted }

func (s State) at() position { return position{s.History, s.Version} }

// History is one life of etcd, from its beginning or a restoration to the next.
type History struct {
	// First is the version at which it is first known, Last the last one that is. A Last of 0 is no bound.
	First, Last uint64
}

// Hole is a range of versions (From, To] that the truth does not know either. States on both sides are right; a
// deletion that happened inside is known to have happened at To at the latest.
type Hole struct {
	History  int
	From, To uint64
}

// Truth is what happened.
type Truth struct {
	// Histories has at least one element.
	Histories []History
	// Streams holds the states of each object, by "namespace/name" or "name", oldest first. A history begins with the
	// newest state that each object had then; what existed before a restoration and not after it has an end in the new
	// history.
	Streams map[Stream]map[string][]State
	// Schedule says when what was selected; see [Schedule].
	Schedule Schedule
	Holes    []Hole
	// Compactions say what etcd has forgotten, oldest first. They may be empty: then nothing is known of it.
	Compactions []Compaction
}

// Compaction is the moment at which etcd was found to have forgotten all states that were replaced at Revision or
// before.
type Compaction struct {
	At       time.Time
	History  int
	Revision uint64
}

// position is a place in the order of all states of a stream.
type position struct {
	history int
	version uint64
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.history, q.history), cmp.Compare(p.version, q.version))
}

// last is the last version of a history, the greatest one where it goes on.
func (t *Truth) last(history int) uint64 {
	if l := t.Histories[history].Last; l != 0 {
		return l
	}
	return math.MaxUint64
}

// locate finds the history among low to high that has a version: the first one that goes so far.
func (t *Truth) locate(low, high int, version uint64) position {
	for h := low; h < high; h++ {
		if version <= t.last(h) {
			return position{h, version}
		}
	}
	return position{high, version}
}

// hidden reports whether the truth has no knowledge of a version in one of the histories low to high.
func (t *Truth) hidden(low, high int, version uint64) bool {
	return slices.ContainsFunc(t.Holes, func(h Hole) bool {
		return h.History >= low && h.History <= high && version > h.From && version <= h.To
	})
}
