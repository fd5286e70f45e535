// SPDX-License-Identifier: Apache-2.0

package checkpoint

import "slices"

const (
	// maxTrail is how many waypoints a trail has at most.
	maxTrail = 20
	// maxStride is how many times as old as the next newer waypoint one may become by leaving out those between them.
	maxStride = 3
)

// Extend returns trail with w added as its newest waypoint, thinned to at most 20. Neither trail nor what it refers to is changed; the
// result shares the maps.
//
// A waypoint's age is the number of messages that the log got since. The older waypoints are, the fewer stay: of those that were ever
// added, up to the oldest one that is kept, each has a waypoint in the trail that is as old as it or older, but at most
// three times as old. A waypoint at the same marks as w is replaced by it, and one with marks beyond w's dropped: it speaks of messages that the log
// does not have any more.
func Extend(trail []Waypoint, w Waypoint) []Waypoint {
	end := total(w.Marks)
	next := make([]Waypoint, 0, len(trail)+1)
	for _, old := range trail {
		if within(old.Marks, w.Marks) && total(old.Marks) < end {
			next = append(next, old)
		}
	}
	next = append(next, w)
	for len(next) > maxTrail {
		i := dispensable(next, end)
		next = slices.Delete(next, i, i+1)
	}
	return next
}

// Before returns the newest waypoint all of whose marks are at or before ends; false where there is none. A partition that ends does not
// name is empty.
func Before(trail []Waypoint, ends map[int32]uint64) (Waypoint, bool) {
	for _, w := range slices.Backward(trail) {
		if within(w.Marks, ends) {
			return w, true
		}
	}
	return Waypoint{}, false
}

// dispensable returns which waypoint of a trail that ends at end is missed least: the one between neighbours whose ages differ the least, or the oldest
// where that would leave too wide a gap.
func dispensable(trail []Waypoint, end uint64) int {
	spare, least := 0, float64(maxStride)
	for i := 1; i < len(trail)-2; i++ {
		stride := float64(end-total(trail[i-1].Marks)) / float64(end-total(trail[i+1].Marks))
		if stride <= least {
			spare, least = i, stride
		}
	}
	return spare
}

// within reports whether no mark is beyond that of the same partition in ends.
func within(marks, ends map[int32]uint64) bool {
	for partition, mark := range marks {
		if mark > ends[partition] {
			return false
		}
	}
	return true
}

// total returns the number of messages that a log had at marks.
func total(marks map[int32]uint64) (n uint64) {
	for _, mark := range marks {
		n += mark
	}
	return n
}
