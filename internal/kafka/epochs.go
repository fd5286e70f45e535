// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"sync"
	"time"
)

// errOutdated says that a broker tells of an older leader than one did before. A broker that is cut off from the
// controller goes on to tell what was true, and answers as if it still led: it does not have what its successor took.
var errOutdated = errors.New("the broker that was asked does not know the newest leader")

// outdatedFor is how long an older leader is not believed in. A topic that was recreated begins with older ones.
const outdatedFor = time.Minute

// leaderEpochs has the newest epoch of each partition's leader that brokers have told of. Brokers before Kafka 2.1 tell
// of none, which is an epoch of 0.
type leaderEpochs struct {
	mu     sync.Mutex
	newest map[place]leaderEpoch
}

type leaderEpoch struct {
	number int32
	told   time.Time // the last time
}

// outdated reports whether a leader's epoch, which was told now, is older than another one that was told before, and
// not too long ago.
func (e *leaderEpochs) outdated(p place, number int32, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if last, ok := e.newest[p]; ok && number < last.number && now.Sub(last.told) < outdatedFor {
		return true
	}
	if e.newest == nil {
		e.newest = map[place]leaderEpoch{}
	}
	e.newest[p] = leaderEpoch{number: number, told: now}
	return false
}
