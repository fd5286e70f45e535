// SPDX-License-Identifier: Apache-2.0

package resyncs

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// Rate is how many objects of a stream are published again in a second, at most.
	Rate = 200
	// Ahead is how many of them may be on their way to the log at a time: a change that happens waits behind no
	// more.
	Ahead = 32
	// FailedDelay is between a resync on schedule that failed and the next try.
	FailedDelay = time.Minute
	// FirstDelay is between a resync that was due and did not tell everything, and the next one.
	FirstDelay = time.Second
	// LastDelay is between two such resyncs after many.
	LastDelay = time.Hour
)

// State is how far a [Resync] is.
type State string

// The states.
const (
	// Refused: the stream cannot be resynced now. Problem says why.
	Refused State = "refused"
	// Queued: it begins when the one that runs has ended.
	Queued State = "queued"
	// Running: it publishes.
	Running State = "running"
	// Done: the log has everything.
	Done State = "done"
	// Failed: it has ended, and the log does not have everything. Problem says why.
	Failed State = "failed"
	// Empty: what is asked for selects nothing now, so that there is nothing to publish.
	Empty State = "empty"
)

// Ended reports whether nothing more will happen.
func (s State) Ended() bool { return s != Queued && s != Running }

// Resync is one publication of everything that a stream has.
type Resync struct {
	Pipeline, Stream string
	// Number is in the ids of its events: when it was asked for, or its slot began, in seconds since 1970. It is 0
	// where there is none.
	Number    int64
	Scheduled bool
	State     State
	// Objects is how many objects exist, about; Listed how many of them were looked at, and Published how many of those
	// were published again. The others have changed, and are published because of that.
	Objects, Listed, Published int
	Problem                    string
	Began                      time.Time
}

// Queue is what is known of a stream's resyncs: those of a session.
type Queue struct {
	// Room is for what is on its way to the log.
	Room *semaphore.Weighted
	// asked is sent something when one is asked for.
	asked chan struct{}
	*List
}

// New returns those of a stream that begins.
func New() Queue {
	return Queue{Room: semaphore.NewWeighted(Ahead), asked: make(chan struct{}, 1), List: &List{}}
}

// List has at most one that runs, and one that waits.
type List struct {
	Mu            sync.Mutex
	running, next *Resync
	// left: an event of the one that runs was not published, because the log turned out to have a later one, or its
	// list is too old to have all.
	left bool
	// Ended are the last ones, oldest first.
	Ended []Resync
	// failed is when the last one on schedule did.
	failed time.Time
	// again is when the next one may begin that is due because the log may lack something, after how long that is
	// behind the one before.
	again time.Time
	After time.Duration
}

// Kept is how many of them are remembered when they have ended.
const Kept = 8

// Ask asks for a resync that begins after the call, and returns it. One that waits already is as good as another.
func (r *Queue) Ask(now time.Time) Resync {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.next == nil {
		r.next = &Resync{Number: r.unused(now.Unix()), State: Queued}
		select {
		case r.asked <- struct{}{}:
		default: // the one before has not been looked at yet
		}
	}
	return *r.next
}

// unused returns n, or the next number that no resync has. The caller holds mu.
func (r *List) unused(n int64) int64 {
	for _, other := range r.All() {
		n = max(n, other.Number+1)
	}
	return n
}

// All returns what is known, oldest first. The caller holds mu.
func (r *List) All() []Resync {
	all := append([]Resync(nil), r.Ended...)
	for _, one := range []*Resync{r.running, r.next} {
		if one != nil {
			all = append(all, *one)
		}
	}
	return all
}

// Begin begins the one that was asked for.
func (r *Queue) Begin() (n int64, ok bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.next == nil {
		return 0, false
	}
	r.running, r.next, r.left = r.next, nil, false
	r.running.State, r.running.Began = Running, time.Now()
	return r.running.Number, true
}

// BeginSlot begins that of a slot, unless it failed a moment ago.
func (r *Queue) BeginSlot(now time.Time, slot int64) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if now.Sub(r.failed) < FailedDelay {
		return false
	}
	r.left = false
	r.running = &Resync{Number: slot, Scheduled: true, State: Running, Began: now}
	return true
}

// Wait returns when one is asked for, or after d. The error is ctx's.
func (r *Queue) Wait(ctx context.Context, d time.Duration) error {
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

// Count counts one object of the one that runs.
func (r *List) Count(published bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.running.Listed++
	if published {
		r.running.Published++
	}
}

// Leave takes note that an event was not published.
func (r *List) Leave() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.left = true
}

// Missed reports whether an event of the one that runs was not published.
func (r *List) Missed() bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.left
}

// Postpone has the next one that is due begin later: the one that has ended did not tell everything.
func (r *List) Postpone() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.After = min(max(2*r.After, FirstDelay), LastDelay)
	r.again = time.Now().Add(r.After)
}

// Told takes note that the one that was due has told everything.
func (r *List) Told() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.again, r.After = time.Time{}, 0
}

// MayBegin reports whether one that is due may begin. One that follows another one waits until the log lacks no object.
func (r *List) MayBegin(now time.Time, lacks bool) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.After == 0 || !lacks && !now.Before(r.again)
}

// Await returns when nothing is on its way any more. The error is ctx's.
func (r *Queue) Await(ctx context.Context) error {
	if err := r.Room.Acquire(ctx, Ahead); err != nil {
		return err
	}
	r.Room.Release(Ahead)
	return nil
}

// End ends the one that runs, with err if it failed, and returns it.
func (r *List) End(err error) Resync {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.running.State = Done
	if err != nil {
		r.running.State, r.running.Problem = Failed, err.Error()
		if r.running.Scheduled {
			r.failed = time.Now()
		}
	}
	if len(r.Ended) == Kept {
		r.Ended = r.Ended[1:]
	}
	r.Ended = append(r.Ended, *r.running)
	r.running = nil
	return r.Ended[len(r.Ended)-1]
}
