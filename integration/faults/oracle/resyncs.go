// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
)

// checkResyncs checks that the markers of resyncs belong together, that a complete one has told every object that
// exists, and that a lost log is repaired between such markers.
func (s *streamJudge) checkResyncs() {
	open := map[uint64]*mark{}
	next := 0
	var lost *mark // the newest gap that tells of a lost log
	var owed bool  // nothing has repaired that yet: an epoch that begins meanwhile takes it over
	for _, m := range s.marks {
		for ; next < len(s.lines) && s.lines[next].Place < m.Place; next++ {
			s.checkRepair(s.lines[next], lost, len(open) > 0)
		}
		switch before := open[m.body.N]; {
		case m.Type == typeGap && m.body.Cause == LogLost:
			lost, owed = m, true
		case m.Type == typeGap && owed && m.epoch > lost.epoch:
			lost = m
		case m.Type == typeResyncStarted:
			open[m.body.N] = m
			if !s.judge.options.Resync && (lost == nil || lost.epoch != m.epoch) {
				s.violateMark(m, "a resync that was not asked for")
			}
		case m.Type == typeResyncCompleted && before == nil:
			s.violateMark(m, "it ends a resync that has not started")
		case m.Type == typeResyncCompleted:
			delete(open, m.body.N)
			owed = owed && m.epoch != lost.epoch
			if *m.body.Complete {
				s.checkTold(before, m)
			}
		}
	}
	for ; next < len(s.lines); next++ {
		s.checkRepair(s.lines[next], lost, len(open) > 0)
	}
}

// checkRepair checks that a repair is announced. The end of an object whose name another one has taken has the epoch
// that the object had.
func (s *streamJudge) checkRepair(l *line, lost *mark, open bool) {
	if l.Reason == "repair" && (lost == nil || lost.epoch != l.epoch && !s.taken(l) || !open) {
		s.violateLine(P6, l, "a repair that no gap and no resync announces")
	}
}

// checkTold checks that an object which a complete resync did not tell is gone: the log has nothing of its uid
// behind the resync, and it does not exist at the end.
func (s *streamJudge) checkTold(started, completed *mark) {
	for _, key := range sortedKeys(s.objects) {
		o := s.objects[key]
		told := func(l *line) bool { return l.Place > started.Place && l.Place < completed.Place }
		if slices.ContainsFunc(o.lines, told) || slices.ContainsFunc(o.again, told) {
			continue
		}
		var last, later *line
		for _, l := range o.lines {
			if l.Place < started.Place {
				last = l
			} else if later == nil {
				later = l
			}
		}
		if last == nil || last.op == Deleted {
			continue
		}
		end := o.truth[len(o.truth)-1]
		exists := !s.judge.options.Prefix && end.live() && end.UID == last.UID && s.judge.selected(s.stream, key)
		if later != nil && later.UID == last.UID || exists {
			s.violateLine(P6, last, fmt.Sprintf("resync %d is complete, and has not told it", completed.body.N))
		}
	}
}
