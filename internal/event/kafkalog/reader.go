// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// reader is one reading of the log. It is used by one goroutine; others fetch, and look at the topics, and send it what
// they found.
type reader struct {
	*Log
	event.Reading

	topics  topics
	markers markers
	// follow says that reading goes on at the ends: until the time comes until which the log is followed.
	follow bool
	// missing says that the topic was seen not to exist, begun that records were fetched, or that there was none.
	missing, begun bool
	// waiting is the last notice about an interruption, empty while all is well.
	waiting string
	// newest says that the caller wants to know all that the log has, not only what follows. After Replaced it is given
	// all of it again, also what was not replaced; rewound says that this is to begin.
	newest, rewound bool
	// caughtUp says that the caller was told so, void that there was no topic then.
	caughtUp, void bool

	fetches fetches
	surveys surveys
}

func newReader(l *Log, r event.Reading) *reader {
	// Records' times have no more than milliseconds: one of the same may have been stored later in it.
	newest := r.Start.Newest
	if newest {
		r.Start = event.Start{Beginning: true}
	}
	r.Start.Time, r.Until = r.Start.Time.Truncate(time.Millisecond), r.Until.Truncate(time.Millisecond)
	return &reader{
		Log: l, Reading: r, newest: newest, topics: topics{byName: make(map[string]*topic)},
		fetches: newFetches(), surveys: surveys{answers: make(chan answer)},
	}
}

// run reads until ctx ends, the reading is done, Each fails, or it can never succeed.
func (r *reader) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer r.fetches.work.Wait()
	defer r.surveys.work.Wait()
	defer cancel()
	var absent time.Time
	for {
		err := r.open(ctx)
		if err == nil {
			return r.serve(ctx)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := r.hopeless(err); err != nil {
			return err
		}
		r.surveys.failed++
		r.interrupted(err)
		switch now := time.Now(); {
		case !errors.Is(err, kafka.ErrNoTopic):
			absent = time.Time{}
		case absent.IsZero():
			absent = now
		case now.Sub(absent) >= doubtFor && !r.caughtUp && r.CaughtUp != nil:
			r.void = true
			r.catchUp()
		}
		if err := pause.For(ctx, r.backoff(r.surveys.failed)); err != nil {
			return err
		}
	}
}

// open finds the topics, and where to begin.
func (r *reader) open(ctx context.Context) error {
	r.follow = r.Follow && (r.Until.IsZero() || time.Now().Before(r.Until))
	all, err := r.survey(ctx, nil)
	if err != nil {
		return err
	}
	if len(all) == 0 {
		return kafka.ErrNoTopic
	}
	r.topics = topics{byName: make(map[string]*topic)}
	for _, f := range all {
		if err := r.add(f, r.missing); err != nil {
			return err
		}
	}
	if r.void {
		r.void, r.caughtUp = false, false
		r.Replaced()
	}
	if r.Start.Last > 0 {
		return r.beginAtLast(ctx)
	}
	return nil
}

// add takes a topic into what is read, or the partitions of one that were not. A fresh one was not there when reading
// began, or waiting for it.
func (r *reader) add(f found, fresh bool) error {
	t := r.topics.byName[f.name]
	if t == nil {
		t = &topic{name: f.name, id: f.id, checked: time.Now()}
		r.topics.byName[f.name] = t
	}
	for n := len(t.partitions); n < f.partitions; n++ {
		number := int32(n) //nolint:gosec // at most some thousands
		b := f.bounds[number]
		at := place{f.name, number}
		lane, err := r.lanes.of(at)
		if err != nil {
			return fmt.Errorf("read %s at %s: %w", r.what, r.brokers(), err)
		}
		p := &partition{place: at, topic: t, lane: lane, first: b.First, next: b.First, end: b.Next, high: b.Next}
		switch start := r.Start; {
		case start.Last > 0 && !r.begun: // it is found out
		case !start.Time.IsZero():
			p.since = start.Time
		case !start.Beginning && !fresh:
			p.next = b.Next
		}
		r.topics.add(p)
	}
	return nil
}

// serve hands over what is fetched.
func (r *reader) serve(ctx context.Context) error {
	tick := time.NewTicker(r.cfg.Pause)
	defer tick.Stop()
	r.surveys.failed, r.surveys.began = 0, time.Now()
	now := make(chan struct{})
	close(now)
	r.askAll(ctx)
	for {
		if !r.caughtUp && !r.rewound && r.topics.caughtUp() {
			r.catchUp()
		}
		var ready chan struct{}
		next, over := r.topics.next(r.follow)
		switch {
		case next != nil:
			ready = now
		case over && !r.rewound:
			return nil
		}
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case l := <-r.fetches.loads:
			err = r.take(ctx, l)
		case a := <-r.surveys.answers:
			err = r.adopt(ctx, a)
		case <-tick.C:
			r.tick(ctx)
		case <-ready:
			err = r.hand(ctx, next)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return err
		}
	}
}

// catchUp tells once that all was handed over that the log had.
func (r *reader) catchUp() {
	r.caughtUp = true
	if r.CaughtUp != nil {
		r.CaughtUp()
	}
}

// hand gives the first item of a partition away.
func (r *reader) hand(ctx context.Context, p *partition) error {
	it := p.queue.pop()
	r.ask(ctx, p)
	if it.barrier || !r.Copies && r.markers.repeated(&it) {
		r.lanes.passed(p.lane, it.offset()+1, false)
		return nil
	}
	var err error
	if it.Position, err = positionOf(p.lane, it.offset()); err != nil {
		return fmt.Errorf("read %s at %s: %w", r.what, r.brokers(), err)
	}
	it.Lane, it.Lanes = p.lane, len(p.topic.partitions)
	r.past.begin(&it, p.first)
	defer r.past.done(&it)
	r.lanes.passed(p.lane, it.offset()+1, true)
	return r.Each(ctx, it.Message)
}

func (r *reader) askAll(ctx context.Context) {
	for _, p := range r.topics.partitions {
		r.ask(ctx, p)
	}
}

// tick does what is due.
func (r *reader) tick(ctx context.Context) {
	now := time.Now()
	if r.follow && !r.Until.IsZero() && !now.Before(r.Until) {
		r.surveys.closing = true
	}
	due := r.surveys.now || r.surveys.closing || r.follow && now.Sub(r.surveys.began) >= r.cfg.LookEvery
	if due && !r.surveys.underway && !now.Before(r.surveys.again) {
		r.surveys.begin(ctx, r.Log, r.topics.known(now, r.surveys.closing))
	}
	r.late(now)
	r.askAll(ctx)
}
