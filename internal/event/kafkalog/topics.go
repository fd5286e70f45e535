// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"slices"
	"time"
)

// topics are what is read.
type topics struct {
	byName     map[string]*topic
	partitions []*partition
}

// topic is one that is read.
type topic struct {
	name string
	// id is another one when the topic is recreated; empty where brokers have none.
	id         string
	partitions []*partition
	// absent is since when surveys have not found the topic; missing says that it is believed.
	absent  time.Time
	missing bool
	// doubted says that its bounds have to be asked for.
	doubted bool
	// checked is when its id was asked for.
	checked time.Time
}

// add takes a partition into what is read.
func (ts *topics) add(p *partition) {
	p.topic.partitions = append(p.topic.partitions, p)
	ts.partitions = append(ts.partitions, p)
}

// drop forgets a topic.
func (ts *topics) drop(t *topic) {
	for _, p := range t.partitions {
		p.closed = true
	}
	delete(ts.byName, t.name)
	ts.partitions = slices.DeleteFunc(ts.partitions, func(p *partition) bool { return p.topic == t })
}

// next returns the partition whose first item is to be handed over: that with the oldest one, once there is one of each
// partition that has more of the past. It is nil where there is none yet; over says that nothing will come any more.
func (ts *topics) next(follow bool) (next *partition, over bool) {
	over = true
	wait := false
	for _, p := range ts.partitions {
		switch {
		case len(p.queue.items) > 0:
			over = false
			if next == nil || p.queue.items[0].Time.Before(next.queue.items[0].Time) {
				next = p
			}
		case p.behind():
			over = false
			// Whoever follows does not wait for a partition that is away.
			wait = wait || !follow || !p.trouble.told
		case follow && !p.closed:
			over = false
		}
	}
	if wait {
		return nil, false
	}
	return next, over
}

// caughtUp reports whether all partitions have.
func (ts *topics) caughtUp() bool {
	return !slices.ContainsFunc(ts.partitions, func(p *partition) bool { return !p.caughtUp() })
}

// failing reports whether something of them cannot be read.
func (ts *topics) failing() bool {
	return slices.ContainsFunc(ts.partitions, func(p *partition) bool {
		return p.trouble.failures > 0 || p.loss.seen || p.topic.missing
	})
}

// closed reports whether no partition is wanted any more.
func (ts *topics) closed() bool {
	return !slices.ContainsFunc(ts.partitions, func(p *partition) bool { return !p.closed })
}

// checkEvery is how often it is asked whether a topic is still the same.
const checkEvery = 5 * time.Second

// known returns what is known of them for a survey that begins now, and notes whose ids it asks for. It asks for all
// bounds where reading is closing.
func (ts *topics) known(now time.Time, closing bool) map[string]known {
	before := make(map[string]known, len(ts.byName))
	for _, t := range ts.byName {
		k := known{id: t.id, partitions: len(t.partitions), bounds: t.doubted || closing}
		k.check = !t.absent.IsZero() || now.Sub(t.checked) >= checkEvery ||
			slices.ContainsFunc(t.partitions, func(p *partition) bool { return p.trouble.failures > 0 })
		if k.check {
			t.checked = now
		}
		before[t.name] = k
	}
	return before
}
