// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Produce hands a partition's leader one record batch, and returns the offset of its first record once all replicas
// that are in sync have it. addressed is what [batch.Builder.Addressed] returns for the partition: its number, and the
// batch behind its length. It is only read, but after an error it may be read for a while after Produce has returned:
// until then nothing may be written to it.
//
// Batches for partitions of one leader that are handed over at the same time share a request. Two requests to one
// leader are under way at most, not counting those of partitions that were slow in company: such a one has requests of
// its own until it is not slow any more. While much is handed over, a request waits for up to 12 ms, so that
// more share it.
func (c *Client) Produce(
	ctx context.Context, topic string, partition int32, addressed []byte,
) (offset int64, err error) {
	p := &parcel{place: place{topic, partition}, data: addressed, done: make(chan delivery, 1)}
	err = c.do(ctx, "produce to "+p.place.String(), "operation Write on Topic "+topic, func(ctx context.Context) error {
		leader, err := c.leaders.of(ctx, p.place)
		if err != nil {
			return err
		}
		if !c.coalescer.take(leader, p) {
			return ErrClosed
		}
		select {
		case d := <-p.done:
			offset = d.offset
			return d.err
		case <-ctx.Done():
			c.coalescer.withdraw(leader, p)
			return ctx.Err()
		}
	})
	return offset, err
}

// place is a partition.
type place struct {
	topic     string
	partition int32
}

func (p place) String() string { return fmt.Sprintf("%s/%d", p.topic, p.partition) }

// parcel is a batch on its way.
type parcel struct {
	place place
	data  []byte
	done  chan delivery // of one
}

// delivery is what became of a parcel.
type delivery struct {
	offset int64
	err    error
}

const (
	// maxRequests is how many requests with several parcels are under way to one broker: while it works on one, another
	// one comes to it.
	maxRequests = 2
	// maxRequest is how large a request becomes by more than one parcel, in bytes.
	maxRequest = 4 << 20
	// A request costs a broker some 0.1 ms of processor time, and each batch in it some more. Where changes come as fast
	// as they can be read, a request that began at once would have a few of them. So the next one begins pace later for
	// each busy bytes of the last one, at most paces times. If enough bytes wait, it begins one pace later.
	busy   = 32 << 10
	pace   = time.Millisecond
	paces  = 12
	enough = 2 << 20
	// slow is how long an answer may take that concerns several partitions. The slowest of them makes all wait.
	slow = time.Second
)

// errMissing says that an answer does not say what became of a parcel.
var errMissing = errors.New("the answer leaves the partition out")

// coalescer is where parcels wait for a request to their broker.
type coalescer struct {
	// send makes one request to a broker, and returns what became of each parcel, in their order. An error means that
	// there was no answer.
	send func(leader int32, load []*parcel) ([]delivery, error)
	work sync.WaitGroup

	mu     sync.Mutex
	closed bool
	queues map[int32]*brokerQueue
}

// brokerQueue has what waits for one broker.
type brokerQueue struct {
	waiting []*parcel
	// under counts requests that are under way, other than those of partitions which are apart.
	under int
	// apart has the partitions that share no request.
	apart map[place]bool
	// last is when the last request of several parcels began, size how large it was.
	last time.Time
	size int
}

func newCoalescer(send func(int32, []*parcel) ([]delivery, error)) *coalescer {
	return &coalescer{send: send, queues: map[int32]*brokerQueue{}}
}

// take accepts a parcel, which is sent as soon as there is a request for it. It returns false if the coalescer is
// closed.
func (h *coalescer) take(leader int32, p *parcel) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	d := h.queues[leader]
	if d == nil {
		d = &brokerQueue{apart: map[place]bool{}}
		h.queues[leader] = d
	}
	switch {
	case d.apart[p.place]:
		h.work.Go(func() { h.carry(leader, d, []*parcel{p}) })
	case d.under == maxRequests:
		d.waiting = append(d.waiting, p)
	default:
		d.waiting = append(d.waiting, p)
		d.under++
		h.work.Go(func() { h.ply(leader, d) })
	}
	return true
}

// withdraw takes a parcel back if it is not on its way yet.
func (h *coalescer) withdraw(leader int32, p *parcel) {
	h.mu.Lock()
	defer h.mu.Unlock()
	d := h.queues[leader]
	for i, w := range d.waiting {
		if w == p {
			d.waiting = append(d.waiting[:i], d.waiting[i+1:]...)
			return
		}
	}
}

// close refuses what comes, and waits for the end of what is under way.
func (h *coalescer) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.work.Wait()
}

// ply carries loads until nothing waits any more.
func (h *coalescer) ply(leader int32, d *brokerQueue) {
	for load := h.next(d); len(load) > 0; load = h.next(d) {
		h.carry(leader, d, load)
	}
}

// next returns what the next request of several parcels has, when it is time for it. Where nothing waits, there is one
// request less under way.
func (h *coalescer) next(d *brokerQueue) []*parcel {
	h.mu.Lock()
	defer h.mu.Unlock()
	for early := d.early(); early > 0; early = d.early() {
		h.mu.Unlock()
		<-time.After(min(early, pace)) // enough may come meanwhile
		h.mu.Lock()
	}
	load := d.load()
	if len(load) == 0 {
		d.under--
	}
	return load
}

// early returns how long the next request waits for company. The caller holds the coalescer's mu.
func (d *brokerQueue) early() time.Duration {
	waits, bytes := min(d.size/busy, paces), 0
	for _, p := range d.waiting {
		bytes += len(p.data)
	}
	if bytes >= enough {
		waits = min(waits, 1)
	}
	return time.Duration(waits)*pace - time.Since(d.last)
}

// load takes the parcels of the next request out of what waits: the oldest ones, and one of a partition. The caller
// holds the coalescer's mu.
func (d *brokerQueue) load() (load []*parcel) {
	size, left := 0, d.waiting[:0]
	in := make(map[place]bool, len(d.waiting))
	for _, p := range d.waiting {
		if in[p.place] || len(load) > 0 && size+len(p.data) > maxRequest {
			left = append(left, p)
			continue
		}
		in[p.place] = true
		size += len(p.data)
		load = append(load, p)
	}
	clear(d.waiting[len(left):])
	d.waiting = left
	if len(load) > 0 {
		d.last, d.size = time.Now(), size
	}
	return load
}

// carry makes one request. Partitions that had no answer, or a late one, together with others, are apart from then on,
// until they have had one in time.
func (h *coalescer) carry(leader int32, d *brokerQueue, load []*parcel) {
	began := time.Now()
	deliveries, err := h.send(leader, load)
	late := err != nil || time.Since(began) > slow
	h.mu.Lock()
	for _, p := range load {
		switch {
		case !late:
			delete(d.apart, p.place)
		case len(load) > 1:
			d.apart[p.place] = true
		}
	}
	h.mu.Unlock()
	for i, p := range load {
		if err != nil {
			p.done <- delivery{err: err}
		} else {
			p.done <- deliveries[i]
		}
	}
}
