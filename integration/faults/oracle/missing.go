// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// checkMissing accounts for each state that the log does not have.
func (s *streamJudge) checkMissing(o *object) {
	newest := -1 // what the first snapshot shows of the object
	for i, st := range o.truth {
		if s.judge.truth.Schedule.arrival(st).compare(s.start) <= 0 {
			newest = i
		}
	}
	latest := s.folds()
	var since rate
	var alive *line // the last line before the state that the log has of the object
	next := 0
	for i, st := range o.truth {
		for ; next < len(o.lines) && o.lines[next].at <= i; next++ {
			if o.lines[next].at >= 0 {
				alive = o.lines[next]
			}
		}
		switch {
		case o.published[i]:
			s.judge.report.Published++
			if latest && s.judge.options.Refused == nil {
				s.checkRate(o, i, since)
			}
			since = rate{}
		case s.judge.options.Prefix && s.perhapsToCome(o, next):
			since.hidden++
		case o.unclearly(i, had(alive, st)), next < len(o.lines) && (o.lines[next].retires || o.lines[next].cut),
			o.excused[i], s.left(alive), s.excused(o, i, newest, next):
			s.judge.report.Hidden++
			since.hidden++
		case latest && s.standsFor(o, next, st.live()) && (st.live() || !had(alive, st)):
			s.judge.report.Folded++
			since.folded++
		case s.cameAndWent(o, i):
			s.judge.report.Hidden++
			since.hidden++
		default:
			s.lost(o, i, next, !st.live() && had(alive, st))
		}
	}
}

// standsFor reports whether a line may stand for what is missing before it. Where the broker has refused events, it has
// to show that; behind the last line an object may have come and gone.
func (s *streamJudge) standsFor(o *object, next int, live bool) bool {
	refused := s.judge.options.Refused != nil
	if next == len(o.lines) {
		return refused || !live
	}
	l := o.lines[next]
	return !refused || l.Type == typeRejected || l.Reason == "relist" || l.SampledRate > 1 ||
		l.op == Deleted && next+1 < len(o.lines) && s.standsFor(o, next+1, live) // the next object of the name has the number
}

// cameAndWent reports whether a state is of an object that was made while the broker refused events, and has ended, and
// that the log has nothing of.
func (s *streamJudge) cameAndWent(o *object, i int) bool {
	may, uid := s.judge.options.RefusedState, o.truth[i].UID
	of := func(st State) bool { return st.UID == uid }
	first := slices.IndexFunc(o.truth, of)
	return may != nil && may(o.truth[first]) &&
		slices.ContainsFunc(o.truth[first:], func(st State) bool { return of(st) && !st.live() }) &&
		!slices.ContainsFunc(o.lines, func(l *line) bool { return l.UID == uid })
}

// left reports whether an event says that its object is not selected any more, where no schedule says when it was.
func (s *streamJudge) left(l *line) bool {
	return len(s.judge.truth.Schedule) == 0 && l != nil && l.Reason == "deselected"
}

// rate counts the states since the last one that the log has.
type rate struct{ folded, hidden int }

// checkRate checks how many changes the entries of a state stand for: those since the entry before. The bridge may have
// seen some of those that a gap or a snapshot hides, so they may be counted or not. It has not seen those before a
// first list. An entry that repeats a state stands for itself.
func (s *streamJudge) checkRate(o *object, state int, since rate) {
	first := true
	for _, l := range o.lines {
		if l.at != state {
			continue
		}
		least, most := 1+since.folded, 1+since.folded+since.hidden
		switch {
		case !first:
			least, most = 1, 1
		case l.Reason == "snapshot": // a first list shows no change before it
			least = 1
		}
		if l.SampledRate < least || l.SampledRate > most {
			s.violateLine(P3, l, fmt.Sprintf("it stands for %d changes, and there were %d to %d since the entry before",
				l.SampledRate, least, most))
		}
		first = false
	}
}

// perhapsToCome reports whether a log that was cut off may have been about to account for what is missing before an
// entry: by an entry, or by the gap behind what was read back.
func (s *streamJudge) perhapsToCome(o *object, next int) bool {
	if next == len(o.lines) {
		return true
	}
	l := o.lines[next]
	return l.Reason == "recovered" && (len(s.gaps) == 0 || s.gaps[len(s.gaps)-1].Place < l.Place)
}

func had(l *line, st State) bool { return l != nil && l.op != Deleted && l.UID == st.UID }

func (s *streamJudge) lost(o *object, i, near int, deletion bool) {
	s.judge.report.Lost++
	if s.uncovered++; s.uncovered == 1 {
		s.firstUncovered = o.key + " " + o.truth[i].String()
	}
	promise := P3
	switch {
	case deletion:
		promise = P2
	case s.folds():
		return // whether the last state is there is P1
	}
	s.violate(promise, o, i, near, fmt.Sprintf("%s %d is not in the log, and no gap covers it", o.truth[i].Op,
		o.truth[i].Version))
}

// excused reports whether a state may be missing: it was over before the first snapshot, or lies in a gap, or the
// truth is not sure of it.
func (s *streamJudge) excused(o *object, i, newest, next int) bool {
	st := o.truth[i]
	if i < newest || i == newest && !st.live() {
		return true
	}
	var behind *line
	if next < len(o.lines) {
		behind = o.lines[next]
	}
	if m := s.covers(o, i, behind); m != nil {
		m.hidden++
		if s.avoidable(m, o, i) {
			m.avoidable++
		}
		return true
	}
	if s.unselected(st.at(), behind) {
		return true
	}
	return s.judge.truth.hidden(st.History, st.History, st.Version)
}

// checkFinal: the last word about an object is its last state, and what the log has alive is alive.
func (s *streamJudge) checkFinal(o *object) {
	if len(o.truth) == 0 || s.judge.options.Prefix {
		return
	}
	end := len(o.truth) - 1
	want := o.truth[end]
	exists := want.live() && s.judge.selected(s.stream, o.key)
	lines := o.lines
	if len(lines) == 0 { // of a log that has lost its beginning, a resync tells
		lines = o.again
	}
	if len(lines) == 0 {
		if exists {
			s.violate(P1, o, end, 0, "it exists, and the log has nothing of it")
		}
		return
	}
	last := lines[len(lines)-1]
	switch {
	case !exists && last.op != Deleted:
		s.violate(P1, o, end, last.nth, "it is gone, and the log ends with it alive")
		s.violate(P2, o, end, last.nth, "its deletion is not in the log")
	case exists && (last.op == Deleted || last.UID != want.UID || last.version != want.Version):
		s.violate(P1, o, end, last.nth, fmt.Sprintf("its last state is %d, and the log ends with another", want.Version))
	case exists && last.era < len(s.eras)-1:
		s.violate(P1, o, end, last.nth, fmt.Sprintf(
			"versions compare from epoch %d on, and the object was not published again in it", s.eras[len(s.eras)-1].epoch))
	}
}
