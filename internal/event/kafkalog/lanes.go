// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"fmt"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// A position has the number of its partition's lane in the upper bits, and below it the offset, plus one so that no
// position is 0.
const (
	placeBits = 48
	maxPlace  = 1<<placeBits - 1
	maxLanes  = 1 << (64 - placeBits)
)

// lanes numbers the partitions that were read. One that was replaced gets another number, so that its old positions do
// not stand for what the new one has. It is safe for concurrent use.
type lanes struct {
	mu     sync.Mutex
	number map[place]uint16
	lanes  []lane
	// ofTopic has how many lanes a topic has.
	ofTopic map[string]int
}

// lane is a partition, and how far it was read. One that was replaced has no place.
type lane struct {
	place
	// given is the offset behind the last record that was given away, passed the one behind the last record that was
	// looked at. Between the two are records that are not given.
	given, passed int64
}

// of returns the lane of a partition.
func (l *lanes) of(at place) (uint16, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, known := l.number[at]; known {
		return n, nil
	}
	if len(l.lanes) == maxLanes {
		return 0, fmt.Errorf("more than %d partitions, replaced ones included, were read", maxLanes)
	}
	if l.number == nil {
		l.number, l.ofTopic = make(map[place]uint16), make(map[string]int)
	}
	n := uint16(len(l.lanes)) //nolint:gosec // it was compared
	l.number[at] = n
	l.ofTopic[at.topic]++
	l.lanes = append(l.lanes, lane{place: at})
	return n, nil
}

// retire says that a partition was replaced.
func (l *lanes) retire(at place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, known := l.number[at]; known {
		l.lanes[n] = lane{}
		delete(l.number, at)
		l.ofTopic[at.topic]--
	}
}

// passed notes how far a lane was read, and whether the last record of that was given away.
func (l *lanes) passed(n uint16, offset int64, given bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if of := &l.lanes[n]; of.place != (place{}) {
		of.passed = max(of.passed, offset)
		if given {
			of.given = offset
		}
	}
}

// at returns the partition of a lane, and how many lanes its topic has; 0 if the partition was replaced.
func (l *lanes) at(n uint16) (at place, ofTopic int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(n) >= len(l.lanes) || l.lanes[n].place == (place{}) {
		return place{}, 0
	}
	at = l.lanes[n].place
	return at, l.ofTopic[at.topic]
}

// next returns for each partition the offset behind what is marked. Where all that was given away is marked, this is
// behind what was looked at: or records that are not given would count as unread.
func (l *lanes) next(marks event.Marks) map[place]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := make(map[place]int64, len(l.number))
	for at, n := range l.number {
		marked := int64(0)
		if of, offset := split(marks[n]); of == n && marks[n] != 0 {
			marked = offset + 1
		}
		if of := l.lanes[n]; marked >= of.given {
			marked = max(marked, of.passed)
		}
		next[at] = marked
	}
	return next
}

func positionOf(lane uint16, offset int64) (uint64, error) {
	if offset < 0 || offset >= maxPlace {
		return 0, fmt.Errorf("offset %d is not below %d", offset, int64(maxPlace))
	}
	return uint64(lane)<<placeBits | uint64(offset+1), nil
}

func split(position uint64) (lane uint16, offset int64) {
	return uint16(position >> placeBits), int64(position&maxPlace) - 1 //nolint:gosec // it has 48 bits
}
