// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// known is what is known of a topic before it is looked at.
type known struct {
	id         string
	partitions int
	// check asks for its id again, bounds for its bounds.
	check, bounds bool
}

// found is a topic that was looked at.
type found struct {
	name, id   string
	partitions int
	// bounds are nil where nothing is new and they were not asked for.
	bounds map[int32]kafka.Bounds
}

// answer is what a survey found. closing says that it was asked where the log ends.
type answer struct {
	topics  []found
	closing bool
	err     error
}

// survey finds the topics that are read.
func (l *Log) survey(ctx context.Context, before map[string]known) ([]found, error) {
	counts, err := l.Topics(ctx)
	if err != nil {
		return nil, err
	}
	var all []found
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if !l.what.fits.MatchString(name) {
			continue
		}
		f, err := l.examine(ctx, name, counts[name], before[name])
		switch {
		case errors.Is(err, kafka.ErrNoTopic): // it has just gone
		case err != nil:
			return nil, err
		default:
			all = append(all, f)
		}
	}
	return all, nil
}

func (l *Log) examine(ctx context.Context, name string, partitions int, before known) (found, error) {
	f := found{name: name, id: before.id, partitions: partitions}
	var err error
	if before.partitions == 0 || before.check || before.bounds {
		if _, f.id, err = l.Incarnation(ctx, name); err != nil {
			return found{}, err
		}
	}
	if partitions != before.partitions || f.id != before.id || before.bounds {
		f.bounds, err = l.Bounds(ctx, name, partitions)
	}
	return f, err
}

// surveys are the looks at the topics.
type surveys struct {
	work sync.WaitGroup
	// answers has what the one found that is under way.
	answers  chan answer
	underway bool
	// began is when the last one began.
	began time.Time
	// now asks for another one, not before again, since so many have failed in a row.
	now    bool
	again  time.Time
	failed int
	// closing says that the time has come until which the log is followed: the next one asks where the log ends.
	closing bool
}

// begin looks at the topics, in a goroutine of its own.
func (s *surveys) begin(ctx context.Context, at *Log, before map[string]known) {
	s.underway, s.now, s.began = true, false, time.Now()
	a := answer{closing: s.closing}
	s.work.Go(func() {
		a.topics, a.err = at.survey(ctx, before)
		select {
		case s.answers <- a:
		case <-ctx.Done():
		}
	})
}

// adopt goes over to what a survey has found.
func (r *reader) adopt(ctx context.Context, a answer) error {
	r.surveys.underway = false
	if a.err != nil {
		return r.surveyFailed(a.err)
	}
	if r.surveys.failed > 0 {
		r.surveys.failed = 0
		for _, p := range r.topics.partitions {
			p.trouble.again = time.Time{}
			if p.trouble.failures > 0 {
				p.trouble.since = time.Now()
			}
		}
	}
	seen := make(map[string]bool, len(a.topics))
	again := r.rewound
	r.rewound = false
	for _, f := range a.topics {
		seen[f.name] = true
		if err := r.meet(f, a.closing, again); err != nil {
			return err
		}
	}
	for _, t := range r.topics.byName {
		if !seen[t.name] {
			if err := r.miss(t, a.closing); err != nil {
				return err
			}
		}
	}
	if a.closing {
		r.follow, r.surveys.closing = false, false
	}
	if r.begun {
		r.reads()
	}
	r.askAll(ctx)
	return nil
}

// meet goes over to what was found of a topic. Again says that topics are read again, so that they are not new.
func (r *reader) meet(f found, closing, again bool) error {
	t := r.topics.byName[f.name]
	switch {
	case r.rewound: // the next survey tells its bounds
	case t == nil && again:
	case t == nil:
		r.cfg.Notice(fmt.Sprintf("reading topic %s too, which is new", f.name))
	case f.id != t.id:
		r.cfg.Notice(fmt.Sprintf("topic %q was replaced by a new one, reading it from its beginning", f.name))
		r.drop(t)
		r.replaced()
	case t.missing && r.newest:
		r.replaced()
	default:
		t.absent, t.missing, t.doubted = time.Time{}, false, t.doubted && f.bounds == nil
		for _, p := range t.partitions {
			if b, known := f.bounds[p.number]; known {
				if err := r.bound(p, b, closing); err != nil {
					return err
				}
			}
		}
	}
	if r.rewound {
		return nil
	}
	return r.add(f, true)
}

// drop forgets a topic. What comes of one of its name is something else.
func (r *reader) drop(t *topic) {
	for _, p := range t.partitions {
		r.lanes.retire(p.place)
	}
	r.topics.drop(t)
}

// replaced says that what was read is not what comes before what is read next.
func (r *reader) replaced() {
	r.Replaced()
	r.past.clear()
	r.markers = markers{}
	r.caughtUp = false
	if r.newest {
		for _, t := range r.topics.byName {
			r.drop(t)
		}
		r.rewound, r.surveys.now = true, true
	}
}

// doubtFor is how long a loss must have been seen to be believed: a broker that was away may tell for a moment what was
// true before.
const doubtFor = 3 * time.Second

// bound goes over to the bounds of a partition.
func (r *reader) bound(p *partition, b kafka.Bounds, closing bool) error {
	p.first, p.high = b.First, b.Next
	if closing {
		p.end = b.Next
	}
	now := time.Now()
	switch {
	case !p.loss.seen, p.closed:
	case p.next < b.First:
		r.cfg.Notice(fmt.Sprintf("records %d to %d of partition %d of topic %q were removed before they were read", p.next,
			b.First-1, p.number, p.place.topic))
		p.next, p.loss = b.First, loss{}
	case p.next <= b.Next:
		p.loss = loss{}
	case p.loss.doubt.IsZero():
		p.loss.doubt, p.topic.doubted, r.surveys.now = now, true, true
	case now.Sub(p.loss.doubt) < doubtFor:
		p.topic.doubted, r.surveys.now = true, true
	default:
		r.cfg.Notice(fmt.Sprintf("partition %d of topic %q has lost records %d to %d, which were read", p.number,
			p.place.topic, b.Next, p.next-1))
		p.next, p.end, p.loss = b.Next, min(p.end, b.Next), loss{}
		r.lanes.retire(p.place)
		var err error
		if p.lane, err = r.lanes.of(p.place); err != nil {
			return fmt.Errorf("read %s at %s: %w", r.what, r.brokers(), err)
		}
		r.replaced()
	}
	return nil
}

// miss notes that a topic was not found.
func (r *reader) miss(t *topic, closing bool) error {
	now := time.Now()
	if t.absent.IsZero() {
		t.absent = now
	}
	switch {
	case closing:
		for _, p := range t.partitions {
			p.closed = true
		}
	case t.missing:
	case now.Sub(t.absent) < doubtFor:
		r.surveys.now = true
	case !r.follow:
		return r.noTopic(t.name)
	default:
		t.missing = true
		if r.what.only {
			r.interrupted(kafka.ErrNoTopic)
		} else {
			r.cfg.Notice(fmt.Sprintf("topic %q is gone", t.name))
		}
	}
	return nil
}
