// SPDX-License-Identifier: Apache-2.0

package sink

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// ErrNotRunning is what Publish reports where Run does not run (any more). Nothing was published.
var ErrNotRunning = errors.New("the sink is not running")

// Policy says how a [Retrier] waits. The zero Policy is valid.
type Policy struct {
	// Initial is the first wait after a failure (0: 50 ms). It doubles with each failure up to Max (0: 5 s), starts
	// again after a success, and is shortened by up to a half at random.
	Initial, Max time.Duration
	// OnRetry is told of each message that is about to be published again, and why. It must not block.
	OnRetry func(m *Message, cause error)
}

func (p Policy) withDefaults() Policy {
	if p.Initial <= 0 {
		p.Initial = 50 * time.Millisecond
	}
	if p.Max <= 0 {
		p.Max = 5 * time.Second
	}
	p.Max = max(p.Max, p.Initial)
	if p.OnRetry == nil {
		p.OnRetry = func(*Message, error) {}
	}
	return p
}

// Retrier is a [Publisher] that publishes a message again until the broker has answered for good.
//
// What the broker accepted, will never take ([IsPermanent]) or found to conflict ([ConflictError]) is settled. Any
// other failure is repeated without an end, with the same message: only Verify is set, unless the message is Shared,
// because it is not known whether the broker has it. Previous must therefore be right even where Verify was not asked
// for.
//
// There is one wait for all messages, for what fails is the broker and not the message: while it lasts, new calls of
// Publish wait too. A message that has failed holds no place in the window of the sink behind, so that the memory held
// is bounded by the number of messages that callers have unsettled.
type Retrier struct {
	next   Publisher
	policy Policy
	wake   chan struct{}
	spare  sync.Pool

	mu      sync.Mutex
	ended   error                 // why nothing is published any more
	waiting chan struct{}         // closed when the wait is over, for Run at first; nil while there is none
	failed  []*attempt            // in the order in which they failed
	failing map[*attempt]struct{} // those that have failed and are not settled
	delay   time.Duration         // the last wait; 0 after a success
}

// Retry returns a Retrier in front of next. Nothing is published before its Run runs: Publish waits for it.
func Retry(next Publisher, p Policy) *Retrier {
	r := &Retrier{
		next: next, policy: p.withDefaults(), wake: make(chan struct{}, 1), waiting: make(chan struct{}),
		failing: map[*attempt]struct{}{},
	}
	r.spare.New = func() any {
		a := &attempt{r: r}
		a.settle = a.settled
		return a
	}
	return r
}

// attempt is one message on its way. The context of the call under way is kept, because only it tells an end of
// the caller's patience from a failure of the broker.
type attempt struct {
	r      *Retrier
	ctx    context.Context
	m      *Message
	done   Done
	cause  error
	settle Done
	// since is when it failed first, and last why it failed last. Guarded by r.mu.
	since time.Time
	last  error
}

// Publish implements [Publisher]. It waits while the broker is given time to recover. Once Run has ended, done is told
// the error of its context.
func (r *Retrier) Publish(ctx context.Context, m *Message, done Done) {
	if err := r.admit(ctx); err != nil {
		done(Receipt{}, err)
		return
	}
	a := r.spare.Get().(*attempt)
	a.ctx, a.m, a.done = ctx, m, done
	r.next.Publish(ctx, m, a.settle)
}

// admit returns when no wait is under way.
func (r *Retrier) admit(ctx context.Context) error {
	for {
		r.mu.Lock()
		ended, waiting := r.ended, r.waiting
		r.mu.Unlock()
		switch {
		case ended != nil:
			return ended
		case waiting == nil:
			return nil
		}
		select {
		case <-waiting:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// settled is the Done of the sink behind.
func (a *attempt) settled(rc Receipt, err error) {
	if err != nil && a.retriable(err) && a.r.park(a, err) {
		return
	}
	if a.r.settled(a, err == nil) && IsPermanent(err) {
		err = &unansweredError{err}
	}
	r, done := a.r, a.done
	a.ctx, a.m, a.done, a.cause = nil, nil, nil, nil
	r.spare.Put(a)
	done(rc, err)
}

func (a *attempt) retriable(err error) bool {
	if ended := a.ctx.Err(); ended != nil && errors.Is(err, ended) {
		return false
	}
	var conflict *ConflictError
	return !IsPermanent(err) && !errors.As(err, &conflict)
}

// park keeps a for the next round. It reports false where there will be none.
func (r *Retrier) park(a *attempt, cause error) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended != nil {
		return false
	}
	a.cause, a.last = cause, cause
	if a.since.IsZero() {
		a.since = time.Now()
	}
	r.failing[a] = struct{}{}
	r.failed = append(r.failed, a)
	if r.waiting == nil {
		r.waiting = make(chan struct{})
	}
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return true
}

// settled takes note that a is not published again, and reports whether it has failed before.
func (r *Retrier) settled(a *attempt, succeeded bool) (failed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if succeeded {
		r.delay = 0
	}
	delete(r.failing, a)
	failed = !a.since.IsZero()
	a.since, a.last = time.Time{}, nil
	return failed
}

type unansweredError struct{ error }

func (e *unansweredError) Unwrap() error { return e.error }

// IsUnanswered reports whether err is that of a [Retrier] for a message that the broker will never take, of which it
// may have taken an earlier try whose answer did not come.
func IsUnanswered(err error) bool {
	var unanswered *unansweredError
	return errors.As(err, &unanswered)
}

// Failing returns since when the message fails that has failed longest of those that are not settled, and why it failed
// last. The error is nil where there is none.
func (r *Retrier) Failing() (since time.Time, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for a := range r.failing {
		if cause == nil || a.since.Before(since) {
			since, cause = a.since, a.last
		}
	}
	return since, cause
}

// Run retries until ctx ends, and then returns nil. By then every message that waited for its turn has been told ctx's
// error; what the sink behind still has is settled by that sink, once and without a retry. Run is called once.
func (r *Retrier) Run(ctx context.Context) error {
	defer r.end(ctx)
	r.again(ctx)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.wake:
		}
		if !r.wait(ctx) {
			return nil
		}
		r.again(ctx)
	}
}

// wait lets the broker recover. It reports false if ctx ended.
func (r *Retrier) wait(ctx context.Context) bool {
	r.mu.Lock()
	r.delay = min(max(2*r.delay, r.policy.Initial), r.policy.Max)
	d := r.delay - rand.N(r.delay/2+1)
	r.mu.Unlock()
	return pause.For(ctx, d) == nil
}

// again ends the wait and publishes what has failed. What fails once more starts the next wait.
func (r *Retrier) again(ctx context.Context) {
	r.mu.Lock()
	round, waiting := r.failed, r.waiting
	r.failed, r.waiting = nil, nil
	select {
	case <-r.wake: // by what has failed during the wait, and is in the round
	default:
	}
	r.mu.Unlock()
	if waiting != nil {
		close(waiting)
	}
	for i, a := range round {
		if ctx.Err() != nil {
			r.mu.Lock()
			r.failed = append(r.failed, round[i:]...)
			r.mu.Unlock()
			return
		}
		r.policy.OnRetry(a.m, a.cause)
		a.ctx, a.cause = ctx, nil
		a.m.Verify = a.m.Verify || !a.m.Shared
		r.next.Publish(ctx, a.m, a.settle)
	}
}

// end tells everything that waits that ctx has ended.
func (r *Retrier) end(ctx context.Context) {
	r.mu.Lock()
	r.ended = ctx.Err()
	left, waiting := r.failed, r.waiting
	r.failed, r.waiting = nil, nil
	clear(r.failing)
	r.mu.Unlock()
	if waiting != nil {
		close(waiting)
	}
	for _, a := range left {
		a.done(Receipt{}, ctx.Err())
	}
}
