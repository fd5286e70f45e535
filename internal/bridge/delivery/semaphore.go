// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"context"
	"slices"
	"sync"
)

// semaphore is a number of bytes that may become another one. Who asks first gets first; what is larger than all of it,
// or than what is not reserved, passes alone.
type semaphore struct {
	mu          sync.Mutex
	limit, used int64
	// gone is reserved for deleted objects, and kept for previous states.
	gone, kept int64
	waiting    []*claim
}

// claim is who waits for bytes.
type claim struct {
	size  int64
	taken chan struct{}
}

func newSemaphore(limit int64) *semaphore { return &semaphore{limit: limit} }

// acquire waits for bytes. The error is ctx's; then nothing was taken.
func (r *semaphore) acquire(ctx context.Context, size int) error {
	r.mu.Lock()
	if len(r.waiting) == 0 && r.fits(int64(size)) {
		r.used += int64(size)
		r.mu.Unlock()
		return nil
	}
	c := &claim{int64(size), make(chan struct{})}
	r.waiting = append(r.waiting, c)
	r.mu.Unlock()
	select {
	case <-c.taken:
		return nil
	case <-ctx.Done():
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-c.taken: // in this moment
		r.used -= c.size
	default:
		r.waiting = slices.DeleteFunc(r.waiting, func(o *claim) bool { return o == c })
	}
	r.admit()
	return ctx.Err()
}

// release gives back what was taken.
func (r *semaphore) release(size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.used -= int64(size); r.used < 0 {
		panic("BUG: more bytes are given back than were taken")
	}
	r.admit()
}

// setLimit makes it larger or smaller. What is taken stays.
func (r *semaphore) setLimit(limit int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limit = limit
	r.admit()
}

// reserve takes bytes without being asked, or gives them back.
func (r *semaphore) reserve(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gone += bytes; r.gone < 0 {
		panic("BUG: more bytes are given back than were reserved")
	}
	r.admit()
}

// keep takes bytes of the share, if they are left; a negative number gives bytes back.
func (r *semaphore) keep(bytes int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if bytes > 0 && (r.kept+bytes > r.share() || r.used+r.gone+r.kept+bytes > r.limit) {
		return false
	}
	if r.kept += bytes; r.kept < 0 {
		panic("BUG: more bytes are given back than were kept")
	}
	r.admit()
	return true
}

// keeps reports whether so many bytes could be kept if none were, and whether more are kept than the share.
func (r *semaphore) keeps(bytes int64) (fits, over bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return bytes <= r.share() && r.used+r.gone+bytes <= r.limit, r.kept > r.share()
}

// share is how many bytes may be kept; the caller holds mu.
func (r *semaphore) share() int64 { return max(r.limit-r.gone, 0) / 4 }

// held returns how many bytes are held in all, and how many of them are reserved.
func (r *semaphore) held() (all, reserved int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used + r.gone + r.kept, r.gone
}

// size returns how large it is.
func (r *semaphore) size() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limit
}

// fits reports whether so many bytes may be taken; the caller holds mu.
func (r *semaphore) fits(size int64) bool { return r.used == 0 || r.used+r.gone+r.kept+size <= r.limit }

// admit lets in who waits, as far as it goes; the caller holds mu.
func (r *semaphore) admit() {
	for len(r.waiting) > 0 && r.fits(r.waiting[0].size) {
		c := r.waiting[0]
		r.waiting = slices.Delete(r.waiting, 0, 1)
		r.used += c.size
		close(c.taken)
	}
}
