// SPDX-License-Identifier: Apache-2.0

// Package kafkalog reads topics of a Kafka cluster as a [event.Log], across everything that interrupts it.
//
// What lies in the past is given in the order of the records' times, as far as that can be had: the order of each
// partition is always kept, and of all partitions the one whose next record is the oldest goes first. What comes while
// the log is followed is given as it comes. Records without a value are left out, as are those that writers leave for
// each other, and of a marker, which is in each partition of a topic, all but the first, unless Reading.Copies is set.
package kafkalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// Config says which topics are read, and how their brokers are reached. Brokers and Topic are required.
type Config struct {
	// Brokers, Auth and TLS are as in [kafka.Config].
	Brokers []string
	Auth    kafka.Auth
	TLS     kafka.TLS

	// Topic is the name of a topic, or a pattern in which each "{…}" stands for a part of one: then all topics that fit
	// are read, also those that are made later.
	Topic string
	// Group is the consumer group whose offsets Acknowledge commits.
	Group string
	// ClientID is what brokers call the client (default "kube-eventbridge-tail").
	ClientID string
	// Pause is how long a broker that failed is left alone (default 250 ms). It doubles with each failure in a row, up
	// to four times that.
	Pause time.Duration
	// LookEvery is how often new topics and partitions are looked for while the log is followed (default 2 s). Brokers'
	// own knowledge may be as much older again.
	LookEvery time.Duration
	// Notice is told, in a line for a person, what interrupts the reading, and what is not read; nil: no caller is.
	Notice func(line string)
}

const (
	// askFor bounds every question to a broker.
	askFor        = 5 * time.Second
	defaultPause  = 250 * time.Millisecond
	defaultLook   = 2 * time.Second
	defaultClient = "kube-eventbridge-tail"
	budgetBytes   = 64 << 20 // of what was fetched and not handed over
	leastShare    = 128 << 10
	fetchesAtOnce = 8  // of what is there already
	waitsAtOnce   = 64 // for what is yet to come; each has a connection
)

// catalog says which topics there are.
type catalog interface {
	Topics(ctx context.Context) (partitions map[string]int, err error)
	Incarnation(ctx context.Context, topic string) (cluster, id string, err error)
}

// offsets says what is where in a partition.
type offsets interface {
	Bounds(ctx context.Context, topic string, partitions int) (map[int32]kafka.Bounds, error)
	Since(ctx context.Context, topic string, partition int32, t time.Time) (offset int64, err error)
}

// fetcher gives records away.
type fetcher interface {
	Fetch(ctx context.Context, topic string, partition int32, offset int64, f func(*kafka.Record) error) (next, end int64,
		err error)
	FetchAtMost(ctx context.Context, topic string, partition int32, offset, most int64, f func(*kafka.Record) error) (next,
		end int64, err error)
}

// committer keeps how far a consumer group is.
type committer interface {
	CommitOffsets(ctx context.Context, group string, next map[string]map[int32]int64) error
}

// cluster is what of [kafka.Client] is used.
type cluster interface {
	catalog
	offsets
	fetcher
	committer
}

// Log is a [event.Log].
type Log struct {
	cluster
	cfg  Config
	what pattern
	past *past
	// lanes are the partitions that were read, bodies what At has fetched of them.
	lanes  lanes
	bodies *bodies
	end    func()
}

var (
	_ event.Log      = (*Log)(nil)
	_ event.Bodies   = (*Log)(nil)
	_ event.Progress = (*Log)(nil)
)

// New checks c and returns its log, which has not spoken to any broker yet.
func New(c Config) (*Log, error) {
	what, err := parse(c.Topic)
	if err != nil {
		return nil, err
	}
	to := kafka.Config{
		Brokers: c.Brokers, ClientID: cmp.Or(c.ClientID, defaultClient), Auth: c.Auth, TLS: c.TLS, Timeout: askFor,
	}
	if what.only {
		to.Topics = []string{c.Topic}
	}
	client, err := kafka.NewClient(to)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", strings.Join(c.Brokers, ","), err)
	}
	if what.only {
		return newLog(c, what, single{client, c.Topic}, client.Close), nil
	}
	return newLog(c, what, client, client.Close), nil
}

func newLog(c Config, what pattern, from cluster, end func()) *Log {
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	if c.Pause <= 0 {
		c.Pause = defaultPause
	}
	if c.LookEvery <= 0 {
		c.LookEvery = defaultLook
	}
	return &Log{cluster: from, cfg: c, what: what, past: newPast(from), bodies: newBodies(from), end: end}
}

// Close ends the connections.
func (l *Log) Close() { l.end() }

// Read implements [event.Log]. What brokers say that no waiting cures (credentials or a certificate refused, a
// permission that is missing) is an error until the first records were read; later it passes, as a restart of the
// brokers does. Without Follow a topic that does not exist is an error too, as is whatever fails before the first
// records were read. With Follow it gives notice when it begins to read.
//
// A topic or a partition that is new is read from its beginning, where Start names no time.
//
// Start.Newest begins with the oldest record of each partition, as brokers cannot tell which records are the newest of
// their keys. After Replaced it gives all that all topics have again, also those that were not replaced: a caller that
// forgets what it was given misses nothing. An interruption goes on behind the last record of each partition that Each
// took. CaughtUp waits for all partitions of all topics that are there.
func (l *Log) Read(ctx context.Context, r event.Reading) error {
	return newReader(l, r).run(ctx)
}

// Before implements [event.Log]. It looks for a message of the key in some thousands of the messages before m, and
// returns nil where there is none. Where what was kept for it has become too much, it returns nil always.
func (l *Log) Before(ctx context.Context, m *event.Message) *event.Message {
	return l.past.before(ctx, m)
}

func (l *Log) brokers() string { return strings.Join(l.cfg.Brokers, ",") }

// backoff is how long to wait after the n-th failure in a row, from 1.
func (l *Log) backoff(n int) time.Duration { return l.cfg.Pause << min(n-1, 2) }

// single is a cluster of which one topic is seen.
type single struct {
	*kafka.Client
	topic string
}

var errHearsay = errors.New("brokers have not all heard of the topic yet")

// Topics implements [catalog].
func (s single) Topics(ctx context.Context) (map[string]int, error) {
	_, _, err := s.Incarnation(ctx, s.topic)
	if errors.Is(err, kafka.ErrNoTopic) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n, err := s.Partitions(ctx, s.topic)
	if errors.Is(err, kafka.ErrNoTopic) {
		return nil, fmt.Errorf("ask for topic %s: %w", s.topic, errHearsay)
	}
	if err != nil {
		return nil, err
	}
	return map[string]int{s.topic: n}, nil
}
