// SPDX-License-Identifier: Apache-2.0

package stream

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

// Resyncs is what is known of a stream's: those of a session.
type Resyncs struct {
	// Room is for what is on its way to the log.
	Room *semaphore.Weighted
	// asked is sent something when one is asked for.
	asked chan struct{}
	*ResyncList
}

// NewResyncs returns those of a stream that begins.
func NewResyncs() Resyncs {
	return Resyncs{Room: semaphore.NewWeighted(ResyncAhead), asked: make(chan struct{}, 1), ResyncList: &ResyncList{}}
}

// ResyncList has at most one that runs, and one that waits.
type ResyncList struct {
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

// KeptResyncs is how many of them are remembered when they have ended.
const KeptResyncs = 8

// Ask asks for a resync that begins after the call, and returns it. One that waits already is as good as another.
func (r *Resyncs) Ask(now time.Time) Resync {
	r.Mu.Lock()
	defer r.Mu.Unlock()
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
func (r *ResyncList) unused(n int64) int64 {
	for _, other := range r.All() {
		n = max(n, other.Number+1)
	}
	return n
}

// All returns what is known, oldest first. The caller holds mu.
func (r *ResyncList) All() []Resync {
	all := append([]Resync(nil), r.Ended...)
	for _, one := range []*Resync{r.running, r.next} {
		if one != nil {
			all = append(all, *one)
		}
	}
	return all
}

// Begin begins the one that was asked for.
func (r *Resyncs) Begin() (n int64, ok bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if r.next == nil {
		return 0, false
	}
	r.running, r.next, r.left = r.next, nil, false
	r.running.State, r.running.Began = ResyncRunning, time.Now()
	return r.running.Number, true
}

// BeginSlot begins that of a slot, unless it failed a moment ago.
func (r *Resyncs) BeginSlot(now time.Time, slot int64) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	if now.Sub(r.failed) < ResyncDelay {
		return false
	}
	r.left = false
	r.running = &Resync{Number: slot, Scheduled: true, State: ResyncRunning, Began: now}
	return true
}

// Wait returns when one is asked for, or after d. The error is ctx's.
func (r *Resyncs) Wait(ctx context.Context, d time.Duration) error {
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
func (r *ResyncList) count(published bool) {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.running.Listed++
	if published {
		r.running.Published++
	}
}

// leave takes note that an event was not published.
func (r *ResyncList) leave() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.left = true
}

// missed reports whether an event of the one that runs was not published.
func (r *ResyncList) missed() bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.left
}

// Postpone has the next one that is due begin later: the one that has ended did not tell everything.
func (r *ResyncList) Postpone() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.After = min(max(2*r.After, FirstResyncAgain), LastResyncAgain)
	r.again = time.Now().Add(r.After)
}

// Told takes note that the one that was due has told everything.
func (r *ResyncList) Told() {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.again, r.After = time.Time{}, 0
}

// MayBegin reports whether one that is due may begin. One that follows another one waits until the log lacks no object.
func (r *ResyncList) MayBegin(now time.Time, lacks bool) bool {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	return r.After == 0 || !lacks && !now.Before(r.again)
}

// await returns when nothing is on its way any more. The error is ctx's.
func (r *Resyncs) await(ctx context.Context) error {
	if err := r.Room.Acquire(ctx, ResyncAhead); err != nil {
		return err
	}
	r.Room.Release(ResyncAhead)
	return nil
}

// End ends the one that runs, with err if it failed, and returns it.
func (r *ResyncList) End(err error) Resync {
	r.Mu.Lock()
	defer r.Mu.Unlock()
	r.running.State = ResyncDone
	if err != nil {
		r.running.State, r.running.Problem = ResyncFailed, err.Error()
		if r.running.Scheduled {
			r.failed = time.Now()
		}
	}
	if len(r.Ended) == KeptResyncs {
		r.Ended = r.Ended[1:]
	}
	r.Ended = append(r.Ended, *r.running)
	r.running = nil
	return r.Ended[len(r.Ended)-1]
}
