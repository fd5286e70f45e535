// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// Config says which stream is published to, and how the broker is reached.
type Config struct {
	Client natsclient.Config

	// Stream is the stream's name.
	Stream string
	// Subjects are what the stream must cover; a missing stream is created with them.
	Subjects []string
	// Limits are used only to create a stream that is missing. Of one that has others, a warning says so.
	Limits Limits
	// Domain is the JetStream domain, usually empty.
	Domain string

	// Broken returns why the server stores no messages, or nil. It may be nil where only the server's answers tell.
	Broken func() error

	// Window is how many messages may be unacknowledged, at most 65536 (default 512).
	Window int
	// AckTimeout is how long an answer of the broker is waited for (default 5 s).
	AckTimeout time.Duration
	// Wait is how long a broker that failed is left alone before the second attempt (default 250 ms). It doubles with
	// each attempt up to 10 s and is shortened by up to a half at random.
	Wait time.Duration
	// LookEvery is how often the stream is looked at while nothing seems to be wrong (default 10 s). Nothing else tells
	// of a stream that was removed and recreated.
	LookEvery time.Duration
}

// Limits of a stream; zero means none.
type Limits struct {
	MaxBytes int64
	MaxAge   time.Duration
	// Replicas defaults to 1.
	Replicas int
	// Duplicates is how long the stream remembers ids (default 2 min, at most MaxAge).
	Duplicates time.Duration
}

const (
	defaultWindow     = 512
	maxWindow         = 1 << 16
	defaultAckTimeout = 5 * time.Second
	defaultWait       = 250 * time.Millisecond
	maxWait           = 10 * time.Second
	defaultLookEvery  = 10 * time.Second
	defaultDuplicates = 2 * time.Minute
	// minDuplicates is the shortest memory for ids in which a connection can be lost, found and used again.
	minDuplicates = 10 * time.Second
)

func (c Config) withDefaults() Config {
	c.Client = c.Client.WithDefaults()
	if c.Window == 0 {
		c.Window = defaultWindow
	}
	if c.AckTimeout == 0 {
		c.AckTimeout = defaultAckTimeout
	}
	if c.Wait == 0 {
		c.Wait = defaultWait
	}
	if c.LookEvery == 0 {
		c.LookEvery = defaultLookEvery
	}
	if c.Limits.Replicas == 0 {
		c.Limits.Replicas = 1
	}
	if c.Limits.Duplicates == 0 {
		c.Limits.Duplicates = defaultDuplicates
	}
	if c.Limits.MaxAge > 0 {
		c.Limits.Duplicates = min(c.Limits.Duplicates, c.Limits.MaxAge)
	}
	return c
}

// validate reports everything that is wrong with a configuration that has its defaults.
func (c Config) validate() error {
	errs := []error{c.Client.Validate()}
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if c.Stream == "" || strings.ContainsAny(c.Stream, ".*>/\\ \t\r\n") {
		wrong("stream: %q is not a stream's name: it must not be empty or contain . * > / \\ or a space", c.Stream)
	}
	if len(c.Subjects) == 0 {
		wrong("subjects: none given")
	}
	for i, s := range c.Subjects {
		if !natsclient.ValidPattern(s) {
			wrong("subjects[%d]: %q is not a subject", i, s)
		}
	}
	if c.Window < 1 || c.Window > maxWindow {
		wrong("window: %d is not between 1 and %d", c.Window, maxWindow)
	}
	if c.AckTimeout < 0 {
		wrong("ackTimeout: %v is negative", c.AckTimeout)
	}
	if c.Wait < time.Millisecond {
		wrong("wait: %v is less than 1ms", c.Wait)
	}
	if c.LookEvery < time.Millisecond {
		wrong("lookEvery: %v is less than 1ms", c.LookEvery)
	}
	if d := c.Limits.Duplicates; d < minDuplicates {
		wrong("duplicates and maxAge: ids must be remembered for %v at least, not %v", minDuplicates, d)
	}
	return errors.Join(errs...)
}

// backoff is how long to wait after the n-th failure, from 1.
func (c *Config) backoff(n int) time.Duration { return pause.Backoff(n, c.Wait, maxWait) }
