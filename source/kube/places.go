// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

const (
	// maxReads is how many lists, and reads of single objects, a [Client] has under way at a time.
	maxReads = 4
	// slowRead is when one of them is slow, and blockedFor is how long one counts whose objects are not taken.
	slowRead, blockedFor = time.Second, 100 * time.Millisecond
	// waitTime is how long an object takes at least that waits for a pipeline. Less is what work takes.
	waitTime = 20 * time.Millisecond
)

// places bound what an API server is asked for at a time, besides watches: maxReads of all resources, in the order in
// which they were asked for.
//
// After slowRead, a read counts among those of its resource only, and what is asked for next of that resource, until
// something is faster: an API server of its own that hangs holds up no other. Of one resource there are never more
// than maxReads. A list that has waited for a pipeline for blockedFor does not count any more, so that a pipeline that
// takes nothing holds up no other. It is safe for concurrent use.
type places struct {
	all *semaphore.Weighted

	mu sync.Mutex
	of map[schema.GroupResource]*queue
}

// queue is of the reads of one resource; users are those who wait or have a place. Slow says that the last one was, and
// hung that one had no answer in its time, and none has had one since, while there were users.
type queue struct {
	free       *semaphore.Weighted
	users      int
	slow, hung bool
}

func newPlaces() *places {
	return &places{all: semaphore.NewWeighted(maxReads), of: map[schema.GroupResource]*queue{}}
}

// Place is that of a read, which has to leave it.
type Place struct {
	places *places
	queue  *queue
	// leaveAll and leaveOwn may be called several times. Slow is what is called once the read is.
	leaveAll, leaveOwn func()
	slow               *time.Timer
	// blocked is how long objects were not taken.
	blocked time.Duration
}

// take waits for a place. The error is ctx's.
func (p *places) take(ctx context.Context, of schema.GroupResource) (*Place, error) {
	q := p.join(of)
	if err := q.free.Acquire(ctx, 1); err != nil {
		p.leave(of)
		return nil, err
	}
	leaveAll := func() {}
	if !p.slow(q) {
		if err := p.all.Acquire(ctx, 1); err != nil {
			q.free.Release(1)
			p.leave(of)
			return nil, err
		}
		leaveAll = sync.OnceFunc(func() { p.all.Release(1) })
	}
	leaveOwn := sync.OnceFunc(func() {
		q.free.Release(1)
		p.leave(of)
	})
	slow := time.AfterFunc(slowRead, func() {
		p.setSlow(q, true)
		leaveAll()
	})
	return &Place{places: p, queue: q, slow: slow, leaveAll: leaveAll, leaveOwn: leaveOwn}, nil
}

func (p *places) slow(q *queue) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return q.slow
}

func (p *places) setSlow(q *queue, slow bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.slow = slow
}

func (p *places) setHung(q *queue, hung bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q.hung = hung
}

func (p *places) join(of schema.GroupResource) *queue {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.of[of]
	if q == nil {
		q = &queue{free: semaphore.NewWeighted(maxReads)}
		p.of[of] = q
	}
	q.users++
	return q
}

func (p *places) leave(of schema.GroupResource) {
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.of[of]
	if q.users--; q.users > 0 {
		return
	}
	q.hung = false
	if !q.slow { // one that is slow is remembered
		delete(p.of, of)
	}
}

// Place waits for a place for several reads of a stream, whose queries are Placed then. The caller leaves it. The error
// is ctx's.
func (c *Client) Place(ctx context.Context, s source.Stream) (*Place, error) {
	return c.places.take(ctx, s.GroupResource())
}

// Time returns how long answers may take that the read can do without: most, but no longer than slowRead where the
// resource hangs. Or else those who wait for a place would wait for most each.
func (p *Place) Time(most time.Duration) time.Duration {
	p.places.mu.Lock()
	defer p.places.mu.Unlock()
	if p.queue.hung {
		return min(most, slowRead)
	}
	return most
}

// Hang notes that there was no answer in that time.
func (p *Place) Hang() {
	p.slow.Stop()
	p.places.setSlow(p.queue, true)
	p.places.setHung(p.queue, true)
}

// Answer notes that there was an answer in that time.
func (p *Place) Answer() { p.places.setHung(p.queue, false) }

// Leave gives the place back, if it was not given back before.
func (p *Place) Leave() {
	if p.slow.Stop() {
		p.places.setSlow(p.queue, false)
	}
	p.leaveAll()
	p.leaveOwn()
}

// lend calls item, and gives the place back as soon as items have waited for blockedFor, all in all.
func (p *Place) lend(item func([]byte) error) func([]byte) error {
	return func(raw []byte) error {
		began := time.Now()
		blocked := time.AfterFunc(blockedFor-p.blocked, p.Leave)
		defer func() {
			blocked.Stop()
			if waited := time.Since(began); waited >= waitTime {
				p.blocked += waited
			}
		}()
		return item(raw)
	}
}
