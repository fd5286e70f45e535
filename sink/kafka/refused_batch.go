// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// refused deals with a load that the broker will not take, and has not taken: what is alone and as small as it can be
// is refused for good, anything else is sent on its own.
func (p *partition) refused(ctx context.Context, l *load, cause error) error {
	e := l.entries[0]
	switch {
	case len(l.entries) > 1:
		if kafka.TooLarge(cause) {
			p.topic.takesLess(l.builder.Size())
		}
		return p.oneByOne(ctx, l.entries)
	case kafka.TooLarge(cause) && !l.large && p.sink.codec == nil:
		return p.oneByOne(ctx, l.entries)
	}
	err := fmt.Errorf("publish %s (%d bytes of data, %d in the batch): %w", e.m.ID, len(e.m.Data), l.builder.Size(), cause)
	refuse := sink.Permanent
	if kafka.TooLarge(cause) {
		refuse = sink.TooLarge
	}
	e.done(sink.Receipt{}, refuse(err))
	return nil
}

// oneByOne sends each message in a load of its own, compressed.
func (p *partition) oneByOne(ctx context.Context, entries []entry) error {
	var failed error
	for _, e := range entries {
		if failed != nil {
			e.done(sink.Receipt{}, failed)
			continue
		}
		l := p.alone(e.m, e.done)
		l.large = true
		failed = p.deliver(ctx, l)
	}
	return failed
}

// alone returns a load with one message. The partition's scribe is not asked: others use it meanwhile.
func (p *partition) alone(m *sink.Message, done sink.Done) *load {
	l, w := &load{}, scribe{names: &p.sink.names, clock: p.sink.cfg.Clock, tombstones: p.sink.cfg.Tombstones}
	w.append(l, m, done, unlimited)
	return l
}
