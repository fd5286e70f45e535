// SPDX-License-Identifier: Apache-2.0

package stream

import (
	"context"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// refusals has the refused objects of a stream tried again.
type refusals struct {
	*Stream
	refused *refused.Objects
}

// refuse records what was refused of an object; false if the pipeline has as many objects as it may have. The caller
// holds mu.
func (s *refusals) refuse(key string, d *delivery.Delta, err error) bool {
	if !s.refused.Add(key, d.ResourceVersion, d.Changes()-d.Counted, err) {
		return false
	}
	if row, exists := s.Ledger.Get(key); exists && d.Again != 0 {
		row.Behind = true // so that it is told again
		s.Ledger.Put(key, row)
	}
	return true
}

// carry has a change stand for those too that were refused of its object before. The caller holds mu.
func (s *refusals) carry(key string, d *delivery.Delta) {
	changes, ok := s.refused.Carry(refused.Carried{
		Key: key, Version: d.ResourceVersion, Changes: d.Changes() - d.Counted, Counted: d.Counted > 0,
		Outcome: d.Listed && d.Reason != source.ReasonRecovered, // what is read back is a change
	})
	if ok {
		d.Count, d.Counted = changes, 0
	}
}

// Lacks reports whether the log lacks the state of an object that was refused.
func (s *refusals) Lacks() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.refused.Len() > 0
}

// refusals returns how many objects are recorded, and the first of those whose reason is known.
func (s *refusals) first() (n int, first Refusal) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	first.Object, first.Err = s.refused.First()
	return s.refused.Len(), first
}

// retryRefused tries refused objects again until ctx ends.
func (s *refusals) retryRefused(ctx context.Context) {
	for {
		var next <-chan time.Time
		key, at := s.NextRefused()
		if key != "" {
			next = time.After(time.Until(at))
		}
		select {
		case <-next:
			s.Retry(ctx, key)
		case <-s.refused.Added():
		case <-ctx.Done():
			return
		}
	}
}

// NextRefused returns the object that is tried next, and when; an empty key where there is none.
func (s *refusals) NextRefused() (next string, at time.Time) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.refused.Next()
}

// Retry publishes what the log lacks of an object, as it was at the position. What is newer comes with the watch. An
// API server that does not tell is asked again later. Where versions are no numbers it cannot be told whether what is
// read is older than what was refused: the next change or audit shows the object.
func (s *refusals) Retry(ctx context.Context, key string) {
	position := s.Safe()
	if !s.tries(key, position) {
		return
	}
	at := ledger.Ident(key, &checkpoint.Row{})
	item, err := kube.ItemAt(ctx, s.Env.Client, s.At(), at.Namespace, at.Name, position)
	if err != nil {
		return
	}
	size := 0 // of an object that does not exist nothing is held
	if item != nil {
		size = item.Size()
		if s.Env.Budget.Acquire(ctx, size, true) != nil {
			return
		}
	}
	now := time.Now()
	c := source.Change{
		Op: source.Updated, Ident: at, Reason: source.ReasonRelist, Seen: now, Size: size, Listed: true,
		Ticket: source.Ticket(s.Tracker.Open("", now)),
	}
	if item != nil {
		c.Ident, c.Body, c.Written = item.Ident, item.Body(), encode.Written(item.Bytes())
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if !s.triesNow(key, position) {
		s.drop(&c)
		return
	}
	s.offer(key, c, item != nil, position)
}

// tries reports whether an object can be tried again at a position, and says when it is tried next.
func (s *refusals) tries(key, position string) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if !s.triesNow(key, position) {
		s.refused.Wait(key)
		return false
	}
	s.refused.Try(key)
	return true
}

// triesNow reports whether an object can be tried at a position. Where a list is owed, that has the object. The caller
// holds mu.
func (s *refusals) triesNow(key, position string) bool {
	return s.refused.Ready(key, position) && s.Pending[key] == nil && s.Steady()
}

// offer queues what the log lacks of an object that does, or does not, exist at a position. The caller holds mu.
func (s *refusals) offer(key string, c source.Change, exists bool, position string) {
	row, known := s.Ledger.Get(key)
	last, order := ledger.LastOf(&row, known), s.order()
	if exists {
		c.Epoch, c.Version = s.Epoch, s.Number(c.ResourceVersion, &row)
		if s.novelty.next(&c, last, true) {
			s.enqueue(key, delivery.Delta{Change: c})
			return
		}
	} else if known && row.OwesEnd() {
		e, _ := order.Missing(last, s.Number(position, nil))
		d := s.novelty.end(key, &row, e, c.Reason, c.Seen)
		d.Ticket, d.Size, d.Listed = c.Ticket, c.Size, true
		s.enqueue(key, d)
		return
	}
	s.refused.Remove(key)
	s.drop(&c)
}
