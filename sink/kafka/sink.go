// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

var _ sink.Sink = (*Sink)(nil)

// Sink publishes to the topics of one Kafka cluster. What it has taken over it sends until the broker has answered for
// good, or Run ends.
type Sink struct {
	cfg    Config
	client *kafka.Client
	// fits is what the topics' names look like, only the name if there is only one.
	fits  *regexp.Regexp
	only  string
	names names
	// codec compresses every batch, smaller those that are too large; codec may be nil.
	codec, smaller *batch.Codec
	window         *window
	loads          depot
	producer       atomic.Pointer[kafka.Producer]
	// took is when the producer's epoch was taken, in nanoseconds since 1970, epoch the highest of the pipeline then.
	took  atomic.Int64
	epoch atomic.Uint64
	// misled says that it was told that the machine's clock is ahead.
	misled atomic.Bool
	// owned says that the producer is that of the pipeline's transactional id.
	owned bool

	started atomic.Bool
	// up is closed when all topics that are known at the beginning are open, over when Run has ended.
	up, over chan struct{}
	// asked has the topics that are to be opened.
	asked chan *topic
	// opening is the one that gets its barriers, or nil.
	opening atomic.Pointer[topic]

	mu     sync.Mutex
	topics map[string]*topic
	bases  map[int32]string
	// down is why nothing can be published at all; failures is what does not work, by the place.
	down     error
	failures map[string]error
	// often is for saying what may be true of every attempt.
	often rate.Sometimes
}

// maxTopics bounds the topics of one sink; it is the number of resources of a large cluster.
const maxTopics = 4096

// New checks c and returns a sink that does nothing until Run.
func New(c Config) (*Sink, error) {
	c = c.withDefaults()
	if err := c.validate(); err != nil {
		return nil, err
	}
	fits, only, err := c.topics()
	if err != nil {
		return nil, err
	}
	k := kafka.Config{Brokers: c.Brokers, ClientID: c.ClientID, Auth: c.Auth, TLS: c.TLS, Timeout: c.Timeout}
	if only != "" {
		k.Topics = []string{only}
	}
	client, err := kafka.NewClient(k)
	if err != nil {
		return nil, err
	}
	return &Sink{
		cfg: c, client: client, fits: fits, only: only, names: names{known: map[string]string{}},
		codec: batch.NewCodec(c.Compression), smaller: batch.NewCodec(batch.Gzip), window: newWindow(c.Window, c.WindowBytes),
		loads: make(depot, keepLoads),
		up:    make(chan struct{}), over: make(chan struct{}), asked: make(chan *topic, maxTopics),
		topics: map[string]*topic{}, bases: map[int32]string{}, down: sink.ErrNotRunning, failures: map[string]error{},
		often: rate.Sometimes{Interval: 10 * time.Second},
	}, nil
}

// Publish implements [sink.Publisher]. It waits while the window is full, or the topic is not open yet. done is told an
// error only when ctx or Run ends, or, a permanent one, when the topic takes no message of this size. Nothing is
// verified: what other processes could have published is refused by the brokers.
func (s *Sink) Publish(ctx context.Context, m *sink.Message, done sink.Done) {
	size := int64(len(m.Data))
	if err := s.window.acquire(ctx, s.over, size); err != nil {
		done(sink.Receipt{}, err)
		return
	}
	settled := func(r sink.Receipt, err error) {
		s.window.release(size)
		done(r, err)
	}
	t, err := s.topic(ctx, m.Subject)
	switch {
	case err != nil:
		settled(sink.Receipt{}, err)
	case m.Everywhere:
		t.everywhere(m, settled)
	default:
		t.home(m.Key).take(m, settled)
	}
}

// everywhere publishes a message to each partition, to that of its key when all others have it: whoever finds it there
// knows that it is everywhere. The receipt is that partition's.
func (t *topic) everywhere(m *sink.Message, done sink.Done) {
	home := t.home(m.Key)
	others := int32(len(t.partitions)) - 1 //nolint:gosec // at most some thousands
	if others == 0 {
		home.take(m, done)
		return
	}
	var left atomic.Int32
	left.Store(others)
	var mu sync.Mutex
	var failed error
	for _, p := range t.partitions {
		if p == home {
			continue
		}
		p.take(m, func(_ sink.Receipt, err error) {
			mu.Lock()
			failed = errors.Join(failed, err)
			mu.Unlock()
			switch {
			case left.Add(-1) > 0:
			case failed != nil:
				done(sink.Receipt{}, failed)
			default:
				home.take(m, done)
			}
		})
	}
}

// home is the partition of a key.
func (t *topic) home(key string) *partition {
	return t.partitions[batch.Partition(key, int32(len(t.partitions)))] //nolint:gosec // at most some thousands
}

// topic returns an open topic, and asks for one that is not open.
func (s *Sink) topic(ctx context.Context, name string) (*topic, error) {
	if !s.started.Load() {
		return nil, sink.ErrNotRunning
	}
	t, err := s.want(name)
	if err != nil {
		return nil, err
	}
	select {
	case <-t.open:
		return t, nil
	default:
	}
	select {
	case <-t.open:
		return t, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.over:
		return nil, sink.ErrNotRunning
	}
}

// want returns the topic of a name, which is opened if it is new.
func (s *Sink) want(name string) (*topic, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.topics[name]; t != nil {
		return t, nil
	}
	if !s.fits.MatchString(name) || !topicName.MatchString(name) {
		return nil, sink.Permanent(fmt.Errorf("topic %q is not one of those that are configured, %s", name, s.cfg.Topic))
	}
	if len(s.topics) == maxTopics {
		return nil, sink.Permanent(fmt.Errorf("topic %s: there are more than %d topics", name, maxTopics))
	}
	t := &topic{name: name, open: make(chan struct{}), base: s.base(name)}
	if other, taken := s.bases[t.base]; taken {
		t.problem = unusable(name, "its partitions cannot be told from those of topic "+other,
			"give one of them another name")
	}
	s.topics[name], s.bases[t.base] = t, name
	s.asked <- t // there is room for all
	return t, nil
}

const (
	// partitionBits are what a topic's partitions are numbered with where there are several topics. The other bits are
	// the topic's: with 100 topics the odds that two have the same are 1 to 400.
	partitionBits = 10
	topicBits     = 31 - partitionBits
)

// base returns what the numbers of a topic's partitions begin at: always the same for a name.
func (s *Sink) base(name string) int32 {
	if s.only != "" {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	sum := h.Sum32()
	return int32((sum^sum>>topicBits)&(1<<topicBits-1)) << partitionBits //nolint:gosec // 31 bits
}

// mostPartitions is how many partitions a topic may have.
func (s *Sink) mostPartitions() int {
	if s.only != "" {
		return math.MaxInt32
	}
	return 1 << partitionBits
}

// Ready implements [sink.Sink].
func (s *Sink) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down != nil {
		return s.down
	}
	for _, place := range slices.Sorted(maps.Keys(s.failures)) { // the same one each time
		return s.failures[place]
	}
	return nil
}

// setDown says why nothing can be published, or that it can.
func (s *Sink) setDown(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = err
}

// failing takes note of what does not work at a place.
func (s *Sink) failing(place string, err error) {
	s.mu.Lock()
	s.failures[place] = err
	s.mu.Unlock()
	s.often.Do(func() { s.cfg.Log.Warn("the broker is not usable now", "at", place, "err", err) })
}

// working takes note that a place works.
func (s *Sink) working(place string) {
	s.mu.Lock()
	delete(s.failures, place)
	s.mu.Unlock()
}
