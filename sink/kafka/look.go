// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// leastPatience is how long a loss must have been seen at least to be believed: a broker that was away may tell for a
// moment what was true before.
const leastPatience = 2 * time.Second

func (c *Config) patience() time.Duration { return max(c.LookEvery, leastPatience) }

// look compares the topics with what was acknowledged, every [Config].LookEvery until ctx ends.
func (s *Sink) look(ctx context.Context) error {
	doubted := map[*topic]time.Time{}
	for pause.For(ctx, s.cfg.LookEvery) == nil {
		for _, t := range s.topics.found() {
			lost, err := s.admin.lost(ctx, t)
			switch {
			case ctx.Err() != nil:
				return nil
			case err != nil:
				s.health.failing(t.name, err)
				continue
			case lost == nil:
				delete(doubted, t)
				s.health.working(t.name)
				s.admin.grown(ctx, t)
				continue
			case doubted[t].IsZero():
				doubted[t] = time.Now()
			}
			s.health.failing(t.name, lost)
			if time.Since(doubted[t]) >= s.cfg.patience() {
				return lost
			}
		}
	}
	return nil
}

// doubt finds out what a broker has that does not know a producer's sequence any more: a partition that lost something
// says so, and else what was sent last may be there or not.
func (s *Sink) doubt(ctx context.Context, p *partition, cause error) error {
	interrupted := &sink.InterruptedError{Target: "partition " + p.String(), Cause: cause}
	for began := time.Now(); ; {
		lost, err := s.admin.lost(ctx, p.topic)
		switch {
		case err == nil && lost == nil, ctx.Err() != nil:
			return interrupted
		case time.Since(began) < s.cfg.patience():
		case err != nil:
			return interrupted
		default:
			return lost
		}
		if pause.For(ctx, s.cfg.Wait) != nil {
			return interrupted
		}
	}
}

// lost compares a topic with what was acknowledged, and returns a [*sink.RewoundError] if it has less, or is another
// one.
func (a *admin) lost(ctx context.Context, t *topic) (lost, err error) {
	known := make([]int64, len(t.partitions))
	var last int64
	for i, p := range t.partitions {
		known[i] = max(p.next.Load(), p.told.Load())
		last = max(last, known[i])
	}
	_, id, err := a.client.Incarnation(ctx, t.name)
	switch {
	case errors.Is(err, kafka.ErrNoTopic):
		return rewound("topic "+t.name, last, 0), nil
	case err != nil:
		return nil, err
	case id != t.id:
		return rewound("topic "+t.name, last, 0), nil
	}
	bounds, err := a.client.Bounds(ctx, t.name, len(t.partitions))
	if err != nil {
		return nil, err
	}
	for i, p := range t.partitions {
		if end := bounds[p.number].Next; end < known[i] {
			return rewound("partition "+p.String(), known[i], end), nil
		}
	}
	return nil, nil
}

func rewound(target string, acknowledged, last int64) error {
	return &sink.RewoundError{Target: target, Acknowledged: uint64(acknowledged), Last: uint64(last)} //nolint:gosec // offsets are not negative
}

// raise sets v to n, unless it is that or more already. Several may do so at once.
func raise(v *atomic.Int64, n int64) {
	for now := v.Load(); now < n && !v.CompareAndSwap(now, n); now = v.Load() {
	}
}

// grown warns of partitions that a topic has got since it was opened: keys stay where they were until the next start.
func (a *admin) grown(ctx context.Context, t *topic) {
	n, err := a.client.Partitions(ctx, t.name)
	if err == nil && n > len(t.partitions) && !t.warned {
		t.warned = true
		a.cfg.Log.Warn("a topic has got more partitions: they are used after the next start, and keys move then",
			"topic", t.name, "partitions", n, "used", len(t.partitions))
	}
}
