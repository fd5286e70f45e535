// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// seek returns the offset of the first record that was stored at or after t; hi, where the partition ended, if there is
// none.
func (l *Log) seek(ctx context.Context, at place, hi int64, t time.Time) (int64, error) {
	offset, err := l.Since(ctx, at.topic, at.number, t)
	if offset < 0 {
		offset = hi
	}
	return offset, err
}

// window is the end of a partition, as far as it was looked at.
type window struct {
	p    *partition
	from int64
	// marks are the messages that count, the oldest ones first, at most as many as are looked for.
	marks []mark
	// oldest is the least time of the records.
	oldest time.Time
}

// mark is a message that counts for Start.Last.
type mark struct {
	offset int64
	time   time.Time
	// marker is what a marker is recognised by in another partition.
	marker string
}

// beginAtLast lets reading begin with the n-th last message that counts: it reads ever longer ends of the partitions.
func (r *reader) beginAtLast(ctx context.Context) error {
	n := r.Start.Last
	var windows []*window
	for _, p := range r.topics.partitions {
		windows = append(windows, &window{p: p, from: p.end})
	}
	for step := int64(n); ; step *= 4 {
		chosen, cutoff := choose(windows, n)
		more := false
		for _, w := range windows {
			// Nothing in the log before what is known of a partition is newer than that.
			if w.from <= w.p.first || chosen >= n && !w.oldest.IsZero() && w.oldest.Before(cutoff) {
				continue
			}
			more = true
			if err := w.widen(ctx, r, max(w.p.first, w.from-step), n); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// widen looks at more of the end of a partition.
func (w *window) widen(ctx context.Context, r *reader, from int64, n int) error {
	var marks []mark
	err := scan(ctx, r, w.p.place, from, w.from, func(rec *kafka.Record) error {
		if w.oldest.IsZero() || rec.Time.Before(w.oldest) {
			w.oldest = rec.Time
		}
		if rec.Value == nil {
			return nil
		}
		it := convert(w.p.place.topic, w.p.number, rec)
		inTime := r.Until.IsZero() || it.Time.Before(r.Until)
		if inTime && !it.barrier && r.Counts(it.Message) {
			marks = append(marks, mark{it.offset(), it.Time, it.marker()})
			marks = marks[max(0, len(marks)-n):]
		}
		return nil
	})
	if err != nil {
		return err
	}
	w.from = from
	w.marks = append(slices.Clone(marks), w.marks...)
	w.marks = w.marks[max(0, len(w.marks)-n):]
	return nil
}

// choose lets each partition begin with its part of the last n messages that count, and returns how many those are and
// the time of the oldest one. It goes backwards as reading goes forwards: with the newest of what each partition has.
func choose(windows []*window, n int) (chosen int, cutoff time.Time) {
	left := make([]int, len(windows))
	for i, w := range windows {
		left[i] = len(w.marks)
		w.p.next = w.p.end
	}
	seen := make(map[string]int)
	for chosen < n {
		newest := -1
		for i, w := range windows {
			if left[i] > 0 && (newest < 0 || !w.marks[left[i]-1].time.Before(windows[newest].marks[left[newest]-1].time)) {
				newest = i
			}
		}
		if newest < 0 {
			break
		}
		left[newest]--
		m := windows[newest].marks[left[newest]]
		windows[newest].p.next = m.offset
		cutoff = m.time
		if in, known := seen[m.marker]; m.marker == "" || !known || in == newest {
			chosen++
			seen[m.marker] = newest
		}
	}
	return chosen, cutoff
}
