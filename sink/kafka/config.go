// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Auth is how the client proves who it is.
type Auth = kafka.Auth

// TLS is how the connection is protected.
type TLS = kafka.TLS

// Clock is what records are stamped with.
type Clock = kafka.Clock

// Config says where the cluster is, which topics are published to, and how. Brokers, Topic, Cluster and Pipeline are
// required.
type Config struct {
	// Brokers are addresses, host:port; name several, as one that is away cannot tell of the others.
	Brokers  []string
	ClientID string
	Auth     Auth
	TLS      TLS
	// Timeout is how long an answer of a broker is waited for (default 10 s).
	Timeout time.Duration

	// Cluster and Pipeline say who writes: one process at a time publishes for a pipeline of a cluster.
	Cluster, Pipeline string
	// Fenced refuses to publish where the broker would not refuse an older process that is still alive: without the
	// permission for the transactional id.
	Fenced bool
	// Topic is where messages go: a topic's name, or a pattern in which each "{…}" stands for a part of one.
	Topic string
	// Create says how a topic is made that is missing; nil means that it is refused.
	Create *Create
	// Compression is one of none (default), gzip, snappy, lz4 and zstd. What is too large for the broker is compressed
	// whatever it says.
	Compression batch.Compression
	// Tombstones adds a record without a value after that of a message which is the last of its key.
	Tombstones bool
	// Structured makes what the sink itself writes a structured event, like the messages that it is given.
	Structured bool

	// Window is how many messages may be unacknowledged (default 4096), WindowBytes how many bytes of their data
	// (default 16 MiB); one that is larger passes alone.
	Window      int
	WindowBytes int64
	// Wait is how long a broker that failed is left alone before the second attempt (default 100 ms). It doubles with
	// each attempt up to 2 s and is shortened by up to a half at random.
	Wait time.Duration
	// LookEvery is how often the topics are looked at while nothing seems to be wrong (default 10 s).
	LookEvery time.Duration
	// Clock is that of all sinks which one process makes for a pipeline, one after the other; nil is a new one.
	Clock *Clock
	// Epoch returns the highest epoch that the pipeline has given, 0 for none. It is called when this process begins to
	// write, and every few hours, for the barrier that each partition gets then. It must not block. Nil stands for 0.
	Epoch func() uint64
	// OnRetry is told of each attempt that failed and is made again; it must not block. It may be nil.
	OnRetry func(topic string, partition int32, cause error)
	// Log receives warnings; nil means none are written.
	Log *slog.Logger
}

// Create says how a missing topic is made.
type Create struct {
	// Partitions and Replicas are the broker's defaults where they are 0.
	Partitions, Replicas int
	// Settings are those of the topic, such as retention.ms.
	Settings map[string]string
}

const (
	defaultWindow      = 4096
	defaultWindowBytes = 16 << 20
	defaultWait        = 100 * time.Millisecond
	maxWait            = 2 * time.Second
	defaultLookEvery   = 10 * time.Second
)

func (c Config) withDefaults() Config {
	if c.Window <= 0 {
		c.Window = defaultWindow
	}
	if c.WindowBytes <= 0 {
		c.WindowBytes = defaultWindowBytes
	}
	if c.Wait <= 0 {
		c.Wait = defaultWait
	}
	if c.LookEvery <= 0 {
		c.LookEvery = defaultLookEvery
	}
	if c.Clock == nil {
		c.Clock = &Clock{}
	}
	if c.Epoch == nil {
		c.Epoch = func() uint64 { return 0 }
	}
	if c.OnRetry == nil {
		c.OnRetry = func(string, int32, error) {}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// topicName is what Kafka takes for a name.
var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// placeholder stands for a part of a topic's name.
var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// topics returns an expression that fits the names that the pattern stands for, and the name if it stands for one only.
func (c *Config) topics() (fits *regexp.Regexp, only string, err error) {
	if !topicName.MatchString(placeholder.ReplaceAllString(c.Topic, "x")) || strings.Trim(c.Topic, ".") == "" {
		return nil, "", fmt.Errorf("topic %q: a name has at most 249 letters, digits, dots, hyphens and underscores", c.Topic)
	}
	if !placeholder.MatchString(c.Topic) {
		only = c.Topic
	}
	var expression strings.Builder
	for i, part := range placeholder.Split(c.Topic, -1) {
		if i > 0 {
			expression.WriteString(`[A-Za-z0-9._-]+`)
		}
		expression.WriteString(regexp.QuoteMeta(part))
	}
	fits, err = regexp.Compile("^" + expression.String() + "$")
	return fits, only, err
}

var compressions = []batch.Compression{batch.None, batch.Gzip, batch.Snappy, batch.Lz4, batch.Zstd}

func (c *Config) validate() error {
	var problems []error
	if c.Cluster == "" || c.Pipeline == "" {
		problems = append(problems, errors.New("the names of the cluster and of the pipeline are needed"))
	}
	_, _, err := c.topics()
	problems = append(problems, err)
	if c.Compression != "" && !slices.Contains(compressions, c.Compression) {
		problems = append(problems, fmt.Errorf("compression %q: it is one of %v", c.Compression, compressions))
	}
	return errors.Join(problems...)
}

// transactionalID is that of the pipeline's producer. No transaction is ever begun under it.
func (c *Config) transactionalID() string {
	return "kube-eventbridge." + c.Cluster + "." + c.Pipeline + "." + c.Topic
}

// unusable returns an error that ends Run.
func unusable(topic, reason, advice string) error {
	return &sink.UnusableError{Target: "topic " + topic, Reason: reason, Advice: advice}
}
