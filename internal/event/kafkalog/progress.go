// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"fmt"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// Acknowledge implements [event.Progress]. It commits the offsets of the group without joining it, in all partitions
// that were read. A group that has members is an error.
func (l *Log) Acknowledge(ctx context.Context, upTo event.Marks) error {
	next := make(map[string]map[int32]int64)
	for at, offset := range l.lanes.next(upTo) {
		if offset == 0 {
			continue
		}
		if next[at.topic] == nil {
			next[at.topic] = make(map[int32]int64)
		}
		next[at.topic][at.number] = offset
	}
	if len(next) == 0 {
		return nil
	}
	if err := l.CommitOffsets(ctx, l.cfg.Group, next); err != nil {
		return fmt.Errorf("at %s: %w", l.brokers(), err)
	}
	return nil
}

// Behind implements [event.Progress]. It asks the leaders of all partitions that were read so far.
func (l *Log) Behind(ctx context.Context, upTo event.Marks) (uint64, error) {
	topics := make(map[string]int)
	next := l.lanes.next(upTo)
	for at := range next {
		topics[at.topic] = max(topics[at.topic], int(at.number)+1)
	}
	behind := uint64(0)
	for topic, n := range topics {
		bounds, err := l.Bounds(ctx, topic, n)
		if err != nil {
			return 0, fmt.Errorf("at %s: %w", l.brokers(), err)
		}
		for number, b := range bounds {
			if read, known := next[place{topic, number}]; known {
				behind += uint64(max(b.Next-max(read, b.First), 0)) //nolint:gosec // it is not negative
			}
		}
	}
	return behind, nil
}
