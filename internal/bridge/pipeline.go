// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// StreamSpec is one resource in one scope as a pipeline wants it.
type StreamSpec struct {
	// Resource is what the user calls it; what the API server calls it is found out while running.
	Resource                                string
	Namespace, LabelSelector, FieldSelector string
	// Latest allows changes of one object that are still waiting to be folded into one.
	Latest bool
	// SkipSnapshot: what exists at the start is known, not published.
	SkipSnapshot bool
	Encoding     encode.Config
}

// Config says what a pipeline consists of. All fields are needed except Drain and Log.
type Config struct {
	Name      string
	Streams   []StreamSpec
	Client    *source.Client
	Discovery *source.Discovery
	// Sink makes a sink. It is called once for each [session]: a sink that has ended is not used again.
	Sink func() (sink.Sink, error)
	// Store must belong to this pipeline and cluster.
	Store    checkpoint.Store
	Identity checkpoint.Identity
	// Buffer bounds the bytes between the API server and the broker's acknowledgement.
	Buffer int64
	// Recovery bounds what is read back of a gap.
	Recovery source.Recovery
	// Audit is how often each stream is compared with what exists; zero is never.
	Audit time.Duration
	// StopOnReject ends the pipeline, with an error, where the broker refuses an event for good. Without it a rejection stands in the
	// event's place.
	StopOnReject bool
	Metrics      *Metrics
	// Drain bounds how long a stop waits for acknowledgements: 20 s if zero.
	Drain time.Duration
	Log   *slog.Logger
}

// restartDelay is between two sessions.
const restartDelay = time.Second

// SpecError is what the API server's answers show to be wrong with a pipeline's streams: they have to be configured differently.
type SpecError struct{ err error }

// Error implements error.
func (e *SpecError) Error() string { return e.err.Error() }

// Unwrap returns what is wrong.
func (e *SpecError) Unwrap() error { return e.err }

// Pipeline publishes the changes of its streams to its sink.
type Pipeline struct {
	cfg Config
	// current is the session that runs, or ran last; nil before the first.
	current atomic.Pointer[session]
}

// New returns a pipeline that does nothing until Run.
func New(c Config) *Pipeline {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("pipeline", c.Name)
	if c.Drain == 0 {
		c.Drain = defaultDrain
	}
	p := &Pipeline{cfg: c}
	c.Metrics.add(p)
	return p
}

// Run publishes until ctx ends; then it stops reading, waits at most the drain time for what is under way, commits, and returns
// nil. It returns an error where something must not be used: a checkpoint, a stream of the broker. Where the log lost what it
// had acknowledged, all starts again from the checkpoint, as after a crash, and what the log lost is published again.
// Run may be called once.
func (p *Pipeline) Run(ctx context.Context) error {
	for {
		err := p.session(ctx)
		var rewound *sink.RewoundError
		switch {
		case errors.As(err, &rewound):
			p.cfg.Log.Warn("the log has lost what it had acknowledged", "err", rewound)
			if pause.For(ctx, restartDelay) != nil {
				return nil // the next start finds it
			}
		case err != nil:
			return fmt.Errorf("pipeline %s: %w", p.cfg.Name, err)
		default:
			return nil
		}
	}
}

func (p *Pipeline) session(ctx context.Context) error {
	to, err := p.cfg.Sink()
	if err != nil {
		return err
	}
	s := newSession(&p.cfg, to)
	p.current.Store(s)
	return s.run(ctx)
}
