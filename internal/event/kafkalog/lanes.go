// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"fmt"
	"sync"
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
	// places are those of the numbers; a lane that was replaced has none.
	places []place
}

// of returns the lane of a partition.
func (l *lanes) of(at place) (uint16, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, known := l.number[at]; known {
		return n, nil
	}
	if len(l.places) == maxLanes {
		return 0, fmt.Errorf("more than %d partitions, replaced ones included, were read", maxLanes)
	}
	if l.number == nil {
		l.number = make(map[place]uint16)
	}
	n := uint16(len(l.places)) //nolint:gosec // it was compared
	l.number[at] = n
	l.places = append(l.places, at)
	return n, nil
}

// retire says that a partition was replaced.
func (l *lanes) retire(at place) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n, known := l.number[at]; known {
		l.places[n] = place{}
		delete(l.number, at)
	}
}

// at returns the partition of a lane; false if that was replaced.
func (l *lanes) at(lane uint16) (place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if int(lane) >= len(l.places) || l.places[lane] == (place{}) {
		return place{}, false
	}
	return l.places[lane], true
}

// all returns the partitions that were read and not replaced.
func (l *lanes) all() map[place]uint16 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make(map[place]uint16, len(l.number))
	for at, n := range l.number {
		all[at] = n
	}
	return all
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
