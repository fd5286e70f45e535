// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

// filtered reports whether an attempt's change is to be remembered and not published; row is what is known of the
// object.
func (s *stream) filtered(a *attempt, row checkpoint.Row) bool {
	d := &a.delta
	s.see(a)
	switch {
	case s.spec.Filter == nil:
		return d.silent
	case a.rejected != nil:
		d.digest = [16]byte{} // of the state itself the log has nothing
		return false
	case d.passed:
		// What the log turned out to have may make it another operation. In doubt it is published.
		return false
	}
	before := row.Digest
	if !s.compares(&row) || d.Again != 0 {
		before = [16]byte{} // what is published again is published whatever the state
	}
	find, done := s.stateBefore(d.Key(), a, row)
	reason, now, err := s.spec.Filter.Filter(&d.Change, before, find)
	done()
	d.digest = now
	if d.silent {
		return true
	}
	if err != nil && !a.unknown {
		s.undecided(d.Key(), reason != "", err)
	}
	if reason == "" {
		d.passed = true
		return false
	}
	if s.lacksEvent(d.Key()) {
		a.rejected, d.digest = errRefusedBefore, [16]byte{}
		return false
	}
	s.metrics.Filtered(reason)
	return true
}

// errRefusedBefore is why a rejection stands for a change that the filter leaves out.
var errRefusedBefore = errors.New("the broker has refused an event of the object that the filter had let through, " +
	"and the filter leaves this one out")

// undecided reports that the filter could not decide on a change.
func (s *stream) undecided(key string, dropped bool, err error) {
	s.metrics.FilterErrors.Inc()
	becomes := "published"
	if dropped {
		becomes = "dropped"
	}
	s.often.undecided.Do(func() {
		s.session.log.Warn("filter fails", "stream", s.name, "object", key, "err", err, "changeIs", becomes,
			"advice", "ask for what may be missing with has(…) first, as in has(object.data.colour) && …")
	})
}
