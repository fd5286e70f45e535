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

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
)

// Auth is how the client proves who it is.
type Auth = kafka.Auth

// TLS is how the connection is protected.
type TLS = kafka.TLS

// Config says where the cluster is and which topic has the checkpoint. Brokers and Topic are required.
type Config struct {
	// Brokers are addresses, host:port; name several, as one that is away cannot tell of the others.
	Brokers  []string
	ClientID string
	Auth     Auth
	TLS      TLS
	// Timeout is how long an answer of a broker is waited for (default 10 s).
	Timeout time.Duration

	// Patience is how long a step of Open or Load is tried again before its error is returned (default 10 s). A commit
	// always has 10 s.
	Patience time.Duration

	// Topic has checkpoints and nothing else. It is created if it is missing.
	Topic string
	// Name tells the checkpoint from others in the topic (default: cluster/pipeline). It must not be given to two
	// pipelines.
	Name string
	// Partitions of a topic that is created (default 12). Opening a checkpoint reads all of one partition.
	Partitions int
	// Replicas of a topic that is created; 0 means what the broker has for a default.
	Replicas int
	// Compression is one of none (default), gzip, snappy, lz4 and zstd.
	Compression batch.Compression
	// Elected says that a lease decides who uses the checkpoint: then whoever opens it takes it over at once. Open
	// fails without the permission for the transactional id, because nothing else keeps a former leader from the
	// checkpoint.
	Elected bool
	// Log receives warnings; nil means none are written.
	Log *slog.Logger

	// self is this process, except in tests.
	self holder.Holder
}

const defaultPartitions = 12

func (c Config) withDefaults(want checkpoint.Identity) Config {
	if c.Name == "" {
		c.Name = want.Cluster + "/" + want.Pipeline
	}
	if c.Partitions <= 0 {
		c.Partitions = defaultPartitions
	}
	if c.Patience <= 0 {
		c.Patience = session.Patience
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.self == (holder.Holder{}) {
		c.self = holder.Self()
	}
	return c
}

// topicName is what Kafka takes for a name.
var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

var compressions = []batch.Compression{batch.None, batch.Gzip, batch.Snappy, batch.Lz4, batch.Zstd}

func (c *Config) validate() error {
	var problems []error
	if !topicName.MatchString(c.Topic) || strings.Trim(c.Topic, ".") == "" {
		problems = append(problems,
			fmt.Errorf("topic %q: a name has at most 249 letters, digits, dots, hyphens and underscores", c.Topic))
	}
	if c.Compression != "" && !slices.Contains(compressions, c.Compression) {
		problems = append(problems, fmt.Errorf("compression %q: it is one of %v", c.Compression, compressions))
	}
	return errors.Join(problems...)
}

func (c *Config) connection() kafka.Config {
	return kafka.Config{Brokers: c.Brokers, ClientID: c.ClientID, Auth: c.Auth, TLS: c.TLS, Timeout: c.Timeout}
}

// path is what errors call the checkpoint.
func (c *Config) path() string { return fmt.Sprintf("%q in topic %s", c.Name, c.Topic) }

// transactionalID is that of the checkpoint's producer. No transaction is ever begun under it. It has the topic,
// because checkpoints of one name in different topics are different ones.
func (c *Config) transactionalID(id checkpoint.Identity) string {
	return "kube-eventbridge." + id.Cluster + "." + id.Pipeline + ".checkpoint." + c.Topic
}
