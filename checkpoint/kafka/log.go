// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/holder"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// log reads what a topic has of a checkpoint.
type log struct {
	session     *session.Session
	reader      reader
	topic, name string
	keys        *keys
}

func newLog(cfg *Config, use *session.Session, from reader) log {
	return log{session: use, reader: from, topic: cfg.Topic, name: cfg.Name, keys: newKeys(cfg.Name)}
}

// locate returns what the topic has of the checkpoint. That is in the partition of its name, unless the topic had
// another number of partitions when it was begun.
func (l *log) locate(ctx context.Context, partitions int) (*replay, error) {
	bounds, err := l.bounds(ctx, partitions)
	if err != nil {
		return nil, err
	}
	home := batch.Partition(l.name, int32(partitions)) //nolint:gosec // it was an int32 on the wire
	found := newReplay(l.cursor(home, bounds[home].First))
	if err := found.readTo(ctx, bounds[home].Next); err != nil || found.begun() {
		return found, err
	}
	for p, b := range bounds {
		if p == home {
			continue
		}
		r := newReplay(l.cursor(p, b.First))
		if err := r.readTo(ctx, b.Next); err != nil || r.begun() {
			return r, err
		}
	}
	return found, nil
}

func (l *log) bounds(ctx context.Context, partitions int) (bounds map[int32]kafka.Bounds, err error) {
	err = again(ctx, l.session.Patience, func() (err error) {
		bounds, err = l.reader.Bounds(ctx, l.topic, partitions)
		return err
	})
	return bounds, err
}

// cursor returns one that begins at an offset.
func (l *log) cursor(partition int32, first int64) cursor {
	return cursor{
		session: l.session, from: l.reader, topic: l.topic, partition: partition, prefix: l.keys.prefix, next: first,
	}
}

// catchUp reads until there is no more. Compaction may remove a record before it is read, where a later one has its
// key: so what is read is what was committed only when nothing came meanwhile.
func (l *log) catchUp(ctx context.Context, r *replay, partitions int) error {
	for {
		bounds, err := l.bounds(ctx, partitions)
		if err != nil {
			return err
		}
		if end := bounds[r.partition].Next; r.next >= end {
			return nil
		} else if err := r.readTo(ctx, end); err != nil {
			return err
		}
	}
}

// keysIn returns the keys of the checkpoint's records by partition, and whether one is of an older version.
func (l *log) keysIn(ctx context.Context, partitions int) (keys map[int32]map[string]bool, old bool, err error) {
	bounds, err := l.bounds(ctx, partitions)
	if err != nil {
		return nil, false, err
	}
	keys = map[int32]map[string]bool{}
	for partition, b := range bounds {
		live, outdated := map[string]bool{}, map[string]bool{}
		c := l.cursor(partition, b.First)
		err := c.fetchTo(ctx, b.Next, func(record *kafka.Record) error {
			if _, ours := cutPrefix(record.Key, c.prefix); !ours {
				return nil
			}
			key := string(record.Key)
			delete(live, key)
			delete(outdated, key)
			if record.Value != nil {
				live[key], outdated[key] = true, len(record.Value) > 0 && record.Value[0] < format
			}
			return nil
		})
		if err != nil {
			return nil, false, err
		}
		if len(live) > 0 {
			keys[partition] = live
		}
		for _, is := range outdated {
			old = old || is
		}
	}
	return keys, old, nil
}

// awaitEnd returns nil once no other process uses the checkpoint: it has closed it, has ended, or has written nothing
// for [holder.Silence]. The error is a [*checkpoint.HeldError] if the other one writes. R reads on meanwhile.
func (l *log) awaitEnd(ctx context.Context, r *replay) error {
	for began := time.Now(); !r.gone() && time.Since(began) < holder.Silence; {
		if err := pause.For(ctx, holder.Look); err != nil {
			return err
		}
		bounds, err := l.bounds(ctx, int(r.partition)+1)
		if err != nil {
			return err
		}
		known := r.records
		if err := r.readTo(ctx, bounds[r.partition].Next); err != nil {
			return err
		}
		if r.records > known && !r.gone() {
			return &checkpoint.HeldError{Holder: holder.Parse(r.user).String()}
		}
	}
	return nil
}
