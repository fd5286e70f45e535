// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"sort"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// errOutdated says that a broker tells of an older leader than one did before. A broker that is cut off from the
// controller goes on to tell what was true, and answers as if it still led: it does not have what its successor took.
var errOutdated = fmt.Errorf("the broker that was asked does not know the newest leader: %w",
	kafkago.NotLeaderForPartition)

// outdatedFor is how long an older leader is not believed in while no broker tells of the newest one. Leaders of a topic
// that was recreated, and of a cluster that was restored, are older.
const outdatedFor = 2 * time.Minute

// leaderEpochs has the newest epoch of each partition's leader that brokers have told of. Brokers before Kafka 2.1 tell
// of none, which is an epoch of 0.
type leaderEpochs struct {
	mu     sync.Mutex
	topics map[string]*topicEpochs
}

type topicEpochs struct {
	id     string // empty while it is not known
	newest map[int32]leaderEpoch
}

type leaderEpoch struct {
	number int32
	told   time.Time // the last time
}

// topic returns what is known of a topic. The caller holds mu.
func (e *leaderEpochs) topic(name string) *topicEpochs {
	if e.topics == nil {
		e.topics = map[string]*topicEpochs{}
	}
	t := e.topics[name]
	if t == nil {
		t = &topicEpochs{newest: map[int32]leaderEpoch{}}
		e.topics[name] = t
	}
	return t
}

// identify notes the id of a topic, and reports whether it had another one before. Leaders of that one are forgotten.
// The id is empty if there is no such topic now.
func (e *leaderEpochs) identify(name, id string) (another bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t := e.topic(name)
	another = t.id != "" && t.id != id
	if another {
		delete(e.topics, name)
		t = e.topic(name)
	}
	t.id = id
	return another
}

// outdated reports whether a leader's epoch, which was told now, is older than another one that was told before, and
// not too long ago.
func (e *leaderEpochs) outdated(p place, number int32, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	newest := e.topic(p.topic).newest
	if last, ok := newest[p.partition]; ok && number < last.number && now.Sub(last.told) < outdatedFor {
		return true
	}
	newest[p.partition] = leaderEpoch{number: number, told: now}
	return false
}

// told returns what the library knows of a partition; no broker is asked. It is nil where that does not have it. The
// error is errOutdated, or says why the library knows nothing.
func (c *Client) told(ctx context.Context, p place) (*metadata.Response, *metadata.ResponsePartition, error) {
	answer, err := c.transport.RoundTrip(ctx, c.addr, &metadata.Request{TopicNames: []string{p.topic}})
	if err != nil {
		return nil, nil, err
	}
	known := answer.(*metadata.Response)
	all := known.Topics[0].Partitions // sorted by the library
	i := sort.Search(len(all), func(i int) bool { return all[i].PartitionIndex >= p.partition })
	if i == len(all) || all[i].PartitionIndex != p.partition {
		return known, nil, nil
	}
	if c.epochs.outdated(p, all[i].LeaderEpoch, time.Now()) {
		return nil, nil, errOutdated
	}
	return known, &all[i], nil
}

// current makes a request for some partitions, and fails if what the library knew of their leaders before, or knows
// behind it, is outdated.
func (c *Client) current(ctx context.Context, topic string, first, last int, request func() error) error {
	check := func() error {
		for n := first; n < last; n++ {
			if _, _, err := c.told(ctx, place{topic, int32(n)}); err == errOutdated { //nolint:errorlint,gosec // it is not wrapped; some thousands
				return err
			}
		}
		return nil
	}
	if err := check(); err != nil {
		return err
	}
	if err := request(); err != nil {
		return err
	}
	return check()
}
