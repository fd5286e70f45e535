// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// availability says whether something can be published: there is a connection, and the stream was checked on it.
type availability struct {
	down atomic.Pointer[error] // why nothing can be published; nil: something can
	wake chan struct{}         // asks for the stream to be checked
	over chan struct{}         // closed when Run has ended

	mu    sync.Mutex    // guards what follows, and writing to down
	epoch int           // counts the times down was set
	up    chan struct{} // closed when something can be published again
}

func newAvailability() *availability {
	a := &availability{wake: make(chan struct{}, 1), over: make(chan struct{}), up: make(chan struct{})}
	a.setDown(sink.ErrNotRunning)
	return a
}

// err returns why nothing can be published.
func (a *availability) err() error {
	if err := a.down.Load(); err != nil {
		return *err
	}
	return nil
}

// setDown says why nothing can be published from now on.
func (a *availability) setDown(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch++
	a.down.Store(&err)
}

// setLost says that the connection is lost, unless there is another reason why nothing can be published.
func (a *availability) setLost() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epoch++
	a.down.CompareAndSwap(nil, &errDisconnected)
}

// setUp says that the stream was found good, and reports whether that is news. If something has happened since epoch,
// it is looked at again instead.
func (a *availability) setUp(epoch int) (news bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.epoch != epoch {
		a.look()
		return false
	}
	if a.down.Swap(nil) == nil {
		return false
	}
	close(a.up)
	a.up = make(chan struct{})
	return true
}

// suspect asks for another look at the stream, and stops publishing meanwhile.
func (a *availability) suspect(err error) {
	if a.down.CompareAndSwap(nil, &err) {
		a.look()
	}
}

// look asks for another look at the stream.
func (a *availability) look() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

func (a *availability) currentEpoch() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.epoch
}

// await returns when the stream was checked and can be asked.
func (a *availability) await(ctx context.Context) error {
	for {
		a.mu.Lock()
		up := a.up
		a.mu.Unlock()
		if a.err() == nil {
			return nil
		}
		select {
		case <-up:
		case <-ctx.Done():
			return ctx.Err()
		case <-a.over:
			return sink.ErrNotRunning
		}
	}
}
