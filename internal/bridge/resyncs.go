// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

// ResyncState is how far a [Resync] is.
type ResyncState string

// The states.
const (
	// ResyncRefused: the stream cannot be resynced now. Problem says why.
	ResyncRefused ResyncState = "refused"
	// ResyncQueued: it begins when the one that runs has ended.
	ResyncQueued  ResyncState = "queued"
	ResyncRunning ResyncState = "running"
	// ResyncDone: the log has everything.
	ResyncDone ResyncState = "done"
	// ResyncFailed: it has ended, and the log does not have everything. Problem says why.
	ResyncFailed ResyncState = "failed"
	// ResyncEmpty: what is asked for selects nothing now, so that there is nothing to publish.
	ResyncEmpty ResyncState = "empty"
)

// Ended reports whether nothing more will happen.
func (s ResyncState) Ended() bool { return s != ResyncQueued && s != ResyncRunning }

// Resync is one publication of everything that a stream has.
type Resync struct {
	Pipeline, Stream string
	// Number is in the ids of its events: when it was asked for, or its slot began, in seconds since 1970. It is 0
	// where there is none.
	Number    int64
	Scheduled bool
	State     ResyncState
	// Objects is how many objects exist, about; Listed how many of them were looked at, and Published how many of those
	// were published again. The others have changed, and are published because of that.
	Objects, Listed, Published int
	Problem                    string
	Began                      time.Time
}

// resyncs is what is known of a stream's: those of a session.
type resyncs struct {
	// room is for what is on its way to the log.
	room *semaphore.Weighted
	// asked is sent something when one is asked for.
	asked chan struct{}
	*resyncList
}

func newResyncs() resyncs {
	return resyncs{room: semaphore.NewWeighted(resyncAhead), asked: make(chan struct{}, 1), resyncList: &resyncList{}}
}

// resyncList has at most one that runs, and one that waits.
type resyncList struct {
	mu            sync.Mutex
	running, next *Resync
	// left: an event of the one that runs was not published, because the log turned out to have a later one, or its
	// list is too old to have all.
	left bool
	// ended are the last ones, oldest first.
	ended []Resync
	// failed is when the last one on schedule did.
	failed time.Time
	// again is when the next one may begin that is due because the log may lack something, after how long that is
	// behind the one before.
	again time.Time
	after time.Duration
}

// keptResyncs is how many of them are remembered when they have ended.
const keptResyncs = 8

// ask asks for a resync that begins after the call, and returns it. One that waits already is as good as another.
func (r *resyncs) ask(now time.Time) Resync {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = &Resync{Number: r.unused(now.Unix()), State: ResyncQueued}
		select {
		case r.asked <- struct{}{}:
		default: // nobody has looked since the one before
		}
	}
	return *r.next
}

// unused returns n, or the next number that no resync has. The caller holds mu.
func (r *resyncList) unused(n int64) int64 {
	for _, other := range r.all() {
		n = max(n, other.Number+1)
	}
	return n
}

// all returns what is known, oldest first. The caller holds mu.
func (r *resyncList) all() []Resync {
	all := append([]Resync(nil), r.ended...)
	for _, one := range []*Resync{r.running, r.next} {
		if one != nil {
			all = append(all, *one)
		}
	}
	return all
}

// begin begins the one that was asked for.
func (r *resyncs) begin() (n int64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		return 0, false
	}
	r.running, r.next, r.left = r.next, nil, false
	r.running.State, r.running.Began = ResyncRunning, time.Now()
	return r.running.Number, true
}

// beginSlot begins that of a slot, unless it failed a moment ago.
func (r *resyncs) beginSlot(now time.Time, slot int64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.failed) < resyncDelay {
		return false
	}
	r.left = false
	r.running = &Resync{Number: slot, Scheduled: true, State: ResyncRunning, Began: now}
	return true
}

// wait returns when one is asked for, or after d. The error is ctx's.
func (r *resyncs) wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-r.asked:
		return nil
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// count counts one object of the one that runs.
func (r *resyncList) count(published bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running.Listed++
	if published {
		r.running.Published++
	}
}

// leave takes note that an event was not published.
func (r *resyncList) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = true
}

// missed reports whether an event of the one that runs was not published.
func (r *resyncList) missed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.left
}

// postpone has the next one that is due begin later: the one that has ended did not tell everything.
func (r *resyncList) postpone() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.after = min(max(2*r.after, firstResyncAgain), lastResyncAgain)
	r.again = time.Now().Add(r.after)
}

// told takes note that the one that was due has told everything.
func (r *resyncList) told() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.again, r.after = time.Time{}, 0
}

// mayBegin reports whether one that is due may begin. One that follows another one waits until the log lacks no object.
func (r *resyncList) mayBegin(now time.Time, lacks bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.after == 0 || !lacks && !now.Before(r.again)
}

// await returns when nothing is on its way any more. The error is ctx's.
func (r *resyncs) await(ctx context.Context) error {
	if err := r.room.Acquire(ctx, resyncAhead); err != nil {
		return err
	}
	r.room.Release(resyncAhead)
	return nil
}

// end ends the one that runs, with err if it failed, and returns it.
func (r *resyncList) end(err error) Resync {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running.State = ResyncDone
	if err != nil {
		r.running.State, r.running.Problem = ResyncFailed, err.Error()
		if r.running.Scheduled {
			r.failed = time.Now()
		}
	}
	if len(r.ended) == keptResyncs {
		r.ended = r.ended[1:]
	}
	r.ended = append(r.ended, *r.running)
	r.running = nil
	return r.ended[len(r.ended)-1]
}
