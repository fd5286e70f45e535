// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

const (
	// maxRefused is how many objects of a pipeline may be recorded as refused at a time.
	maxRefused = 1000
	// maxRefusedDelay is between two tries of an object that the broker has refused for long.
	maxRefusedDelay = 5 * time.Minute
	// unsteadyDelay is between two looks at whether a stream can try an object again.
	unsteadyDelay = time.Second
)

// refusals are the objects of a stream of which the broker took neither the last event nor a rejection in its place.
// Their changes are settled, and the stream goes on. Each is read again at the position, less and less often, and what
// the log lacks of it is published, as one event that stands for all changes since. The stream's mu guards the fields.
type refusals struct {
	tries map[string]*try
	// all counts those of the pipeline.
	all *atomic.Int64
	// some has something when a first one was recorded.
	some chan struct{}
}

// try says when an object is tried again, and how long after that. Version is that of the last change: what the log
// lacks is read when the position has it. Changes is how many are in no event, and not under way.
type try struct {
	at      time.Time
	delay   time.Duration
	version string
	changes int
	err     error
}

func newRefusals(all *atomic.Int64, refused []checkpoint.Refused) refusals {
	r := refusals{tries: map[string]*try{}, all: all, some: make(chan struct{}, 1)}
	for _, o := range refused {
		// At once: another process may have been permitted since.
		r.tries[o.Key] = &try{delay: refusedDelay, version: o.Version, changes: o.Changes}
	}
	all.Add(int64(len(refused)))
	return r
}

// refuse records what was refused of an object; false if the pipeline has as many objects as it may have. The caller
// holds mu.
func (s *stream) refuse(key string, d *delta, err error) bool {
	t := s.refused.tries[key]
	if t == nil {
		if s.refused.all.Add(1) > maxRefused {
			s.refused.all.Add(-1)
			return false
		}
		t = &try{at: time.Now().Add(refusedDelay), delay: 2 * refusedDelay}
		s.refused.tries[key] = t
		select {
		case s.refused.some <- struct{}{}:
		default:
		}
	}
	t.version, t.changes, t.err = d.ResourceVersion, t.changes+count(d)-d.counted, err
	saved := s.record(key)
	saved.Changes = t.changes
	if saved.Version == "" || ledger.After(d.ResourceVersion, saved.Version) {
		saved.Version = d.ResourceVersion
	}
	if row, exists := s.ledger.Get(key); exists && d.Again != 0 {
		row.Behind = true // so that it is told again
		s.ledger.Put(key, row)
	}
	return true
}

// record returns what is saved of an object, to be changed. A commit may have what was saved before, so it is another
// one. The caller holds mu.
func (s *stream) record(key string) *checkpoint.Refused {
	at, there := slices.BinarySearchFunc(s.saved.Refused, key, ledger.ByKey)
	s.saved.Refused = slices.Clone(s.saved.Refused)
	if !there {
		s.saved.Refused = slices.Insert(s.saved.Refused, at, checkpoint.Refused{Key: key})
	}
	return &s.saved.Refused[at]
}

// carry has a change stand for those too that were refused of its object before. What is listed is their outcome, and
// no change of its own; what is read back is one. What is watched again stands for itself, unless it is the last one
// that was refused. The caller holds mu.
func (s *stream) carry(key string, d *delta) {
	t := s.refused.tries[key]
	if t == nil || d.counted > 0 && ledger.After(s.record(key).Version, d.ResourceVersion) {
		return
	}
	if !d.Listed || d.Reason == source.ReasonRecovered || t.changes == 0 {
		t.changes += count(d) - d.counted
	}
	d.Count, d.counted, t.changes = t.changes, 0, 0
}

// uncount takes note that n changes that were counted have events of their own. The caller holds mu.
func (s *stream) uncount(key string, n int) {
	if t := s.refused.tries[key]; t != nil {
		t.changes = max(t.changes-n, 0)
		saved := s.record(key)
		saved.Changes = max(saved.Changes-n, 0)
	}
}

// counted reports whether a change that a watch shows was counted when its object was refused, by a process that died
// before the position had passed it. The caller holds mu.
func (s *stream) counted(key, version string) bool {
	at, refused := slices.BinarySearchFunc(s.saved.Refused, key, ledger.ByKey)
	return refused && ledger.Numeric(version) != 0 &&
		ledger.Numeric(version) <= ledger.Numeric(s.saved.Refused[at].Version)
}

// lacksEvent reports whether the log lacks an event of an object.
func (s *stream) lacksEvent(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isRefused(key)
}

// isRefused reports whether the log lacks the state of an object. The caller holds mu.
func (s *stream) isRefused(key string) bool { return s.refused.tries[key] != nil }

// accept takes note that the log has what an object is. The caller holds mu.
func (s *stream) accept(key string) {
	if _, ok := s.refused.tries[key]; !ok {
		return
	}
	delete(s.refused.tries, key)
	s.refused.all.Add(-1)
	s.saved.Refused = slices.DeleteFunc(slices.Clone(s.saved.Refused),
		func(o checkpoint.Refused) bool { return o.Key == key })
	if len(s.saved.Refused) == 0 {
		s.saved.Refused = nil
	}
}

// acceptEnded forgets those of which nothing is on its way to the log. The caller holds mu.
func (s *stream) acceptEnded() {
	for _, o := range s.saved.Refused {
		if s.pending[o.Key] == nil {
			s.accept(o.Key)
		}
	}
}

// lacks reports whether the log lacks the state of an object that was refused.
func (s *stream) lacks() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.refused.tries) > 0
}

// refusals returns how many objects are recorded, and the first of those whose reason is known.
func (s *stream) refusals() (n int, first Refusal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.saved.Refused {
		if err := s.refused.tries[o.Key].err; err != nil {
			return len(s.saved.Refused), Refusal{o.Key, err}
		}
	}
	return len(s.saved.Refused), Refusal{}
}

// retryRefused tries refused objects again until ctx ends.
func (s *stream) retryRefused(ctx context.Context) {
	for {
		var next <-chan time.Time
		key, at := s.nextRefused()
		if key != "" {
			next = time.After(time.Until(at))
		}
		select {
		case <-next:
			s.retry(ctx, key)
		case <-s.refused.some:
		case <-ctx.Done():
			return
		}
	}
}

// nextRefused returns the object that is tried next, and when; an empty key where there is none.
func (s *stream) nextRefused() (next string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, t := range s.refused.tries {
		if next == "" || t.at.Before(at) {
			next, at = key, t.at
		}
	}
	return next, at
}

// retry publishes what the log lacks of an object, as it was at the position. What is newer comes with the watch. An
// API server that does not tell is asked again later. Where versions are no numbers it cannot be told whether what is
// read is older than what was refused: the next change or audit shows the object.
func (s *stream) retry(ctx context.Context, key string) {
	position := s.safe()
	if !s.tries(key, position) {
		return
	}
	at := ident(key, &checkpoint.Row{})
	item, err := kube.ItemAt(ctx, s.session.cfg.Client, s.Stream, at.Namespace, at.Name, position)
	if err != nil {
		return
	}
	size := 0 // of an object that does not exist nothing is held
	if item != nil {
		size = item.Size()
		if s.session.budget.Acquire(ctx, size, true) != nil {
			return
		}
	}
	now := time.Now()
	c := source.Change{
		Op: source.Updated, Ident: at, Reason: source.ReasonRelist, Seen: now, Size: size, Listed: true,
		Ticket: source.Ticket(s.tracker.Open("", now)),
	}
	if item != nil {
		c.Ident, c.Body, c.Written = item.Ident, item.Body(), encode.Written(item.Bytes())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.triesNow(key, position) {
		s.drop(&c)
		return
	}
	s.offer(key, c, item != nil, position)
}

// tries reports whether an object can be tried again at a position, and says when it is tried next.
func (s *stream) tries(key, position string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.refused.tries[key]
	if t == nil {
		return false
	}
	if !s.triesNow(key, position) {
		t.at = time.Now().Add(unsteadyDelay)
		return false
	}
	t.at, t.delay = time.Now().Add(t.delay), min(2*t.delay, maxRefusedDelay)
	return true
}

// triesNow reports whether the state of an object at a position is what the log lacks of it. Where a list is owed, that
// has the object. The caller holds mu.
func (s *stream) triesNow(key, position string) bool {
	t := s.refused.tries[key]
	return t != nil && ledger.Numeric(position) != 0 && !ledger.After(t.version, position) && s.pending[key] == nil &&
		s.steady()
}

// offer queues what the log lacks of an object that does, or does not, exist at a position. The caller holds mu.
func (s *stream) offer(key string, c source.Change, exists bool, position string) {
	row, known := s.ledger.Get(key)
	last, order := ledger.LastOf(&row, known), s.order()
	if exists {
		c.Epoch, c.Version = s.epoch, s.number(c.ResourceVersion, &row)
		if s.next(&c, last, true) {
			s.enqueue(key, delta{Change: c})
			return
		}
	} else if known && row.OwesEnd() {
		e, _ := order.Missing(last, s.number(position, nil))
		d := s.end(key, &row, e, c.Reason, c.Seen)
		if e.Again {
			d.Again = s.repetition()
		}
		d.Ticket, d.Size, d.Listed = c.Ticket, c.Size, true
		s.enqueue(key, d)
		return
	}
	s.accept(key)
	s.drop(&c)
}
