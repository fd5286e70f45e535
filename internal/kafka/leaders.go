// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// errOutdated says that a broker tells of an older leader than one did before. A broker that is cut off from the
// controller goes on to tell what was true, and answers as if it still led: it does not have what its successor took.
var errOutdated = fmt.Errorf("the broker that was asked does not know the newest leader: %w",
	kafkago.NotLeaderForPartition)

// outdatedFor is how long an older leader is not believed in while no broker tells of the newest one. Leaders of a
// topic that was recreated, and of a cluster that was restored, are older.
const outdatedFor = 2 * time.Minute

// leaders has the newest epoch of each partition's leader that brokers have told of. Brokers before Kafka 2.1 tell of
// none, which is an epoch of 0.
type leaders struct {
	// known returns what the library knows of a topic. No broker is asked.
	known func(ctx context.Context, topic string) (*metadata.Response, error)

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
func (l *leaders) topic(name string) *topicEpochs {
	if l.topics == nil {
		l.topics = map[string]*topicEpochs{}
	}
	t := l.topics[name]
	if t == nil {
		t = &topicEpochs{newest: map[int32]leaderEpoch{}}
		l.topics[name] = t
	}
	return t
}

// identify notes the id of a topic, and reports whether it had another one before. Leaders of that one are forgotten.
// The id is empty where a broker tells of none, as one that does not know the topic: nothing is forgotten then.
func (l *leaders) identify(name, id string) (another bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topic(name)
	another = t.id != "" && t.id != id
	if id == "" {
		return another
	}
	if another {
		delete(l.topics, name)
		t = l.topic(name)
	}
	t.id = id
	return another
}

// outdated reports whether a leader's epoch, which was told now, is older than another one that was told before, and
// not too long ago.
func (l *leaders) outdated(p place, number int32, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	newest := l.topic(p.topic).newest
	if last, ok := newest[p.partition]; ok && number < last.number && now.Sub(last.told) < outdatedFor {
		return true
	}
	newest[p.partition] = leaderEpoch{number: number, told: now}
	return false
}

// told returns what the library knows of a partition, nil where that does not have it. The error is errOutdated, or
// says why the library knows nothing.
func (l *leaders) told(ctx context.Context, p place) (*metadata.Response, *metadata.ResponsePartition, error) {
	known, err := l.known(ctx, p.topic)
	if err != nil {
		return nil, nil, err
	}
	all := known.Topics[0].Partitions // sorted by the library
	i := sort.Search(len(all), func(i int) bool { return all[i].PartitionIndex >= p.partition })
	if i == len(all) || all[i].PartitionIndex != p.partition {
		return known, nil, nil
	}
	if l.outdated(p, all[i].LeaderEpoch, time.Now()) {
		return nil, nil, errOutdated
	}
	return known, &all[i], nil
}

// of returns the broker that leads a partition. It fails as the library's own requests do, and with errOutdated.
func (l *leaders) of(ctx context.Context, p place) (int32, error) {
	known, found, err := l.told(ctx, p)
	switch {
	case err != nil:
		return 0, err
	case known.Topics[0].ErrorCode == int16(kafkago.UnknownTopicOrPartition):
		return 0, protocol.NewErrNoTopic(p.topic)
	case found == nil:
		return 0, protocol.NewErrNoPartition(p.topic, p.partition)
	case !slices.ContainsFunc(known.Brokers, func(b metadata.ResponseBroker) bool { return b.NodeID == found.LeaderID }):
		return 0, protocol.NewErrNoLeader(p.topic, p.partition)
	}
	return found.LeaderID, nil
}

// ask makes a request for the partitions from first to before last, and fails if what the library knew of their leaders
// before it, or knows behind it, is outdated.
func (l *leaders) ask(ctx context.Context, topic string, first, last int, request func() error) error {
	if err := l.current(ctx, topic, first, last); err != nil {
		return err
	}
	if err := request(); err != nil {
		return err
	}
	return l.current(ctx, topic, first, last)
}

// current fails with errOutdated only.
func (l *leaders) current(ctx context.Context, topic string, first, last int) error {
	for n := first; n < last; n++ {
		_, _, err := l.told(ctx, place{topic, int32(n)}) //nolint:gosec // at most some thousands
		if errors.Is(err, errOutdated) {
			return err
		}
	}
	return nil
}
