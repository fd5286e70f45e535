// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// maxTopics bounds the topics of one sink; it is the number of resources of a large cluster.
const maxTopics = 4096

// topics are those that are published to.
type topics struct {
	// pattern is what is configured, fits what names look like, only the name if there is only one.
	pattern string
	fits    *regexp.Regexp
	only    string
	// asked has the topics that are to be opened.
	asked chan *topic
	// opening is the one that gets its barriers, or nil.
	opening atomic.Pointer[topic]

	mu     sync.Mutex
	byName map[string]*topic
	bases  map[int32]string
}

func newTopics(c *Config) (*topics, error) {
	fits, only, err := c.topics()
	return &topics{
		pattern: c.Topic, fits: fits, only: only, asked: make(chan *topic, maxTopics),
		byName: map[string]*topic{}, bases: map[int32]string{},
	}, err
}

// want returns the topic of a name, which is opened if it is new.
func (ts *topics) want(name string) (*topic, error) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t := ts.byName[name]; t != nil {
		return t, nil
	}
	if !ts.fits.MatchString(name) || !topicName.MatchString(name) {
		return nil, sink.Permanent(fmt.Errorf("topic %q is not one of those that are configured, %s", name, ts.pattern))
	}
	if len(ts.byName) == maxTopics {
		return nil, sink.Permanent(fmt.Errorf("topic %s: there are more than %d topics", name, maxTopics))
	}
	t := &topic{name: name, open: make(chan struct{}), base: ts.base(name)}
	if other, taken := ts.bases[t.base]; taken {
		t.problem = unusable(name, "its partitions cannot be told from those of topic "+other,
			"give one of them another name")
	}
	ts.byName[name], ts.bases[t.base] = t, name
	ts.asked <- t // there is room for all
	return t, nil
}

const (
	// partitionBits are what a topic's partitions are numbered with where there are several topics. The other bits are
	// the topic's: with 100 topics the odds that two have the same are 1 to 400.
	partitionBits = 10
	topicBits     = 31 - partitionBits
)

// base returns what the numbers of a topic's partitions begin at: always the same for a name.
func (ts *topics) base(name string) int32 {
	if ts.only != "" {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	sum := h.Sum32()
	return int32((sum^sum>>topicBits)&(1<<topicBits-1)) << partitionBits //nolint:gosec // 31 bits
}

// mostPartitions is how many partitions a topic may have.
func (ts *topics) mostPartitions() int {
	if ts.only != "" {
		return math.MaxInt32
	}
	return 1 << partitionBits
}

// known returns the topics that there are from the beginning.
func (ts *topics) known(ctx context.Context, client *kafka.Client) ([]string, error) {
	if ts.only != "" {
		return []string{ts.only}, nil
	}
	all, err := client.Topics(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range all {
		if ts.fits.MatchString(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// opened returns the topics that are open.
func (ts *topics) opened() (open []*topic) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.byName {
		select {
		case <-t.open:
			open = append(open, t)
		default:
		}
	}
	return open
}

// found returns the topics that are open, and the one that is being opened once its incarnation is known.
func (ts *topics) found() []*topic {
	all := ts.opened()
	if t := ts.opening.Load(); t != nil && !slices.Contains(all, t) {
		all = append(all, t)
	}
	return all
}

// partition returns the one that receipts call by a number; nil if there is none.
func (ts *topics) partition(id int32) *partition {
	for _, t := range ts.opened() {
		if n := int(id - t.base); n >= 0 && n < len(t.partitions) {
			return t.partitions[n]
		}
	}
	return nil
}

// countable refuses a topic with more partitions than can be told from those of others.
func (ts *topics) countable(name string, partitions int) error {
	if most := ts.mostPartitions(); partitions > most {
		return unusable(name, fmt.Sprintf("it has %d partitions", partitions),
			fmt.Sprintf("use topics with at most %d where there are several", most))
	}
	return nil
}
