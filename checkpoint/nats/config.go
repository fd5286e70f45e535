// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	gonats "github.com/nats-io/nats.go"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
)

// Config says how the server is reached and which bucket has the checkpoint. Dial and Bucket are required.
type Config struct {
	// Dial connects to a server. The options come on top of what it sets itself.
	Dial func(options ...gonats.Option) (*gonats.Conn, error)
	// Timeout is how long an answer of the server is waited for (default 5 s).
	Timeout time.Duration
	// Patience is how long a step of Open or Load is tried again before its error is returned (default 10 s). A commit
	// always has 10 s.
	Patience time.Duration

	// Bucket has checkpoints and nothing else. It is created if it is missing.
	Bucket string
	// Name tells the checkpoint from others in the bucket: its keys are Name, a dot and a number (default:
	// cluster.pipeline, with _ for the dots in the cluster's name). It must not be given to two pipelines.
	Name string
	// Replicas of a bucket that is created (default 1).
	Replicas int
	// Elected says that a lease decides who uses the checkpoint: then whoever opens it takes it over at once.
	Elected bool
	// Log receives warnings; nil means none are written.
	Log *slog.Logger

	// self is this process, except in tests.
	self holder.Holder
}

const defaultTimeout = 5 * time.Second

func (c Config) withDefaults(want checkpoint.Identity) Config {
	if c.Name == "" {
		c.Name = strings.ReplaceAll(want.Cluster, ".", "_") + "." + want.Pipeline
	}
	if c.Timeout <= 0 {
		c.Timeout = defaultTimeout
	}
	if c.Patience <= 0 {
		c.Patience = session.Patience
	}
	if c.Replicas <= 0 {
		c.Replicas = 1
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.self == (holder.Holder{}) {
		c.self = holder.Self()
	}
	return c
}

var (
	// bucketName is what the clients of NATS take for a bucket's name.
	bucketName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,200}$`)
	keyName    = regexp.MustCompile(`^[A-Za-z0-9_=/-]+(\.[A-Za-z0-9_=/-]+)*$`)
)

func (c *Config) validate() error {
	var problems []error
	if c.Dial == nil {
		problems = append(problems, errors.New("no server is named"))
	}
	if !bucketName.MatchString(c.Bucket) {
		problems = append(problems, fmt.Errorf("bucket %q: a name has letters, digits, hyphens and underscores, at most 200",
			c.Bucket))
	}
	if !keyName.MatchString(c.Name) {
		problems = append(problems, fmt.Errorf("name %q: keys have letters, digits and -_=/, and dots between them", c.Name))
	}
	return errors.Join(problems...)
}

// path is what errors call the checkpoint.
func (c *Config) path() string { return fmt.Sprintf("%q in bucket %s", c.Name, c.Bucket) }

// stream is the name of the stream that the bucket is.
func (c *Config) stream() string { return "KV_" + c.Bucket }

// prefix is how the subjects of the checkpoint's keys begin.
func (c *Config) prefix() string { return "$KV." + c.Bucket + "." + c.Name + "." }
