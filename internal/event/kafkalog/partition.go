// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"time"
)

// partition is one that is read. It is used by the reader's goroutine only.
type partition struct {
	place
	topic *topic
	// lane is its number in positions.
	lane uint16
	// first is the oldest offset as far as it is known, next the one to fetch next, end where the partition ended when
	// reading began, high where it ended when it was asked last.
	first, next, end, high int64
	// since drops what was stored before it, until the first record that was not; sought says that brokers were asked
	// where that one is.
	since  time.Time
	sought bool
	// queue is what was fetched and not handed over.
	queue queue
	// asked says that a fetch is under way, closed that no more is wanted.
	asked, closed bool

	loss    loss
	trouble trouble
}

// queue holds items in their order.
type queue struct {
	items []item
	// size is how much they are.
	size int
}

func (q *queue) push(it item) {
	q.items = append(q.items, it)
	q.size += it.size()
}

func (q *queue) pop() item {
	it := q.items[0]
	q.items[0] = item{}
	q.items = q.items[1:]
	q.size -= it.size()
	return it
}

// loss is that a partition has nothing at the next offset.
type loss struct {
	seen bool
	// doubt is when it was first seen that the partition ends before what was read of it.
	doubt time.Time
}

// trouble is that fetches fail.
type trouble struct {
	// failures is how often they have in a row, with err at last; since is since when, again not before when the next
	// one is made.
	failures     int
	err          error
	since, again time.Time
	// told says that notice was given of it.
	told bool
}

func (t *trouble) add(err error, now time.Time) {
	t.failures++
	t.err = err
	if t.since.IsZero() {
		t.since = now
	}
}

// behind reports whether there is more of the past to fetch.
func (p *partition) behind() bool { return !p.closed && p.next < p.end }

// caughtUp reports whether all was handed over that the partition had when reading began. A topic that is gone has
// nothing.
func (p *partition) caughtUp() bool {
	return p.topic.missing || !p.behind() && (len(p.queue.items) == 0 || p.queue.items[0].offset() >= p.end)
}

// admit reports whether the item is of what is read, which ends at a time unless that is zero.
func (p *partition) admit(it *item, follow bool, until time.Time) bool {
	switch {
	case p.closed, !follow && it.offset() >= p.end, it.Time.Before(p.since):
		return false
	case !until.IsZero() && !it.Time.Before(until):
		p.closed = true
		return false
	default:
		p.since = time.Time{}
		return true
	}
}
