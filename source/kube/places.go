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
)

// places bound what an API server is asked for at a time, besides watches: maxReads of all resources, in the order in
// which they were asked for.
//
// After slowRead, a list counts among those of its resource only, and what is asked for next of that resource, until
// something is faster: an API server of its own that hangs holds up no other. What is short, as a read of one object
// is, does not count any more then: each reader checks the history before its watch. A list that has waited for a
// pipeline for blockedFor does not count any more, so that a pipeline that takes nothing holds up no other. It is safe
// for concurrent use.
type places struct {
	all *semaphore.Weighted

	mu sync.Mutex
	of map[schema.GroupResource]*queue
}

// queue is of the reads of one resource; users are those who wait or have a place. Slow says that the last one was.
type queue struct {
	free  *semaphore.Weighted
	users int
	slow  bool
}

func newPlaces() *places {
	return &places{all: semaphore.NewWeighted(maxReads), of: map[schema.GroupResource]*queue{}}
}

// Place is that of a read, which has to leave it.
type Place struct {
	// leaveAll and leaveOwn may be called several times. Fast is called where slow has not come to its end.
	leaveAll, leaveOwn, fast func()
	slow                     *time.Timer
	// blocked is how long objects were not taken.
	blocked time.Duration
}

// take waits for a place. Short says that what has it is short. The error is ctx's.
func (p *places) take(ctx context.Context, of schema.GroupResource, short bool) (*Place, error) {
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
	slow := func() {
		p.setSlow(q, true)
		leaveAll()
		if short {
			leaveOwn()
		}
	}
	return &Place{
		slow: time.AfterFunc(slowRead, slow), fast: func() { p.setSlow(q, false) },
		leaveAll: leaveAll, leaveOwn: leaveOwn,
	}, nil
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
	if q.users--; q.users == 0 && !q.slow { // one that is slow is remembered
		delete(p.of, of)
	}
}

// Place waits for a place for several short reads of a stream, whose queries are Placed then. The caller leaves it. The
// error is ctx's.
func (c *Client) Place(ctx context.Context, s source.Stream) (*Place, error) {
	return c.places.take(ctx, s.GroupResource(), true)
}

// Leave gives the place back, if it was not given back before.
func (p *Place) Leave() {
	if p.slow.Stop() {
		p.fast()
	}
	p.leaveAll()
	p.leaveOwn()
}

// lend calls item, and gives the place back as soon as items were not taken for blockedFor, all in all.
func (p *Place) lend(item func([]byte) error) func([]byte) error {
	return func(raw []byte) error {
		began := time.Now()
		blocked := time.AfterFunc(blockedFor-p.blocked, p.Leave)
		defer func() {
			blocked.Stop()
			p.blocked += time.Since(began)
		}()
		return item(raw)
	}
}
