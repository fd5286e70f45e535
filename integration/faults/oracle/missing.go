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
		if st.at().compare(s.start) <= 0 {
			newest = i
		}
	}
	latest := s.judge.options.Latest[s.stream]
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
			if latest {
				s.checkRate(o, i, since)
			}
			since = rate{}
		case s.judge.options.Prefix && s.perhapsToCome(o, next):
		case o.excused[i], s.excused(o, i, newest, next):
			s.judge.report.Hidden++
			since.hidden++
		case latest && (st.live() && next < len(o.lines) || !st.live() && !had(alive, st)):
			s.judge.report.Folded++
			since.folded++
		default:
			s.lost(o, i, next, !st.live() && had(alive, st))
		}
	}
}

// rate counts the states since the last one that the log has.
type rate struct{ folded, hidden int }

// checkRate checks how many changes the entries of a state stand for: those since the entry before. The
// bridge may have seen some of those that a gap or a snapshot hides, so they may be counted or not. An entry that repeats a state stands for itself.
func (s *streamJudge) checkRate(o *object, state int, since rate) {
	first := true
	for _, l := range o.lines {
		if l.at != state {
			continue
		}
		least, most := 1+since.folded, 1+since.folded+since.hidden
		if !first {
			least, most = 1, 1
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
	return l.Reason == "recovered" && (len(s.gaps) == 0 || s.gaps[len(s.gaps)-1].Sequence < l.Sequence)
}

func had(l *line, st State) bool { return l != nil && l.op != Deleted && l.UID == st.UID }

func (s *streamJudge) lost(o *object, i, near int, deletion bool) {
	s.judge.report.Lost++
	s.uncovered++
	promise := P3
	switch {
	case deletion:
		promise = P2
	case s.judge.options.Latest[s.stream]:
		return // whether the last state is there is P1
	}
	s.violate(promise, o, i, near, fmt.Sprintf("%s %d is not in the log, and no gap covers it", o.truth[i].Op, o.truth[i].Version))
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
	return s.judge.truth.hidden(st.History, st.History, st.Version)
}

// checkFinal: the last word about an object is its last state, and what the log has alive is alive.
func (s *streamJudge) checkFinal(o *object) {
	if len(o.truth) == 0 || s.judge.options.Prefix {
		return
	}
	end := len(o.truth) - 1
	want := o.truth[end]
	if len(o.lines) == 0 {
		if want.live() {
			s.violate(P1, o, end, 0, "it exists, and the log has nothing of it")
		}
		return
	}
	last := o.lines[len(o.lines)-1]
	switch {
	case !want.live() && last.op != Deleted:
		s.violate(P1, o, end, last.nth, "it is gone, and the log ends with it alive")
		s.violate(P2, o, end, last.nth, "its deletion is not in the log")
	case want.live() && (last.op == Deleted || last.UID != want.UID || last.version != want.Version):
		s.violate(P1, o, end, last.nth, fmt.Sprintf("its last state is %d, and the log ends with another", want.Version))
	case want.live() && last.History != s.lastHistory():
		s.violate(P1, o, end, last.nth, fmt.Sprintf("the log is in history %d, and the object was not published again in it", s.lastHistory()))
	}
}

// lastHistory is the history that the log has arrived at.
func (s *streamJudge) lastHistory() int { return len(s.first) - 1 }

// matchHistories finds which histories of the truth those of the log are: the bridge counts what it has seen, and a
// restoration may go unnoticed, or two look like one. Each begins as late as what it shows allows.
func (s *streamJudge) matchHistories() {
	most := 0
	for _, l := range s.lines {
		most = max(most, l.History)
	}
	for _, m := range s.marks {
		most = max(most, m.history)
	}
	s.first = make([]int, most+1)
	real := len(s.judge.truth.Histories) - 1
	if most > real {
		s.judge.violate(Violation{Promise: P6, Stream: s.stream.String(), What: fmt.Sprintf("the log is in history %d, and etcd was restored %d times", most, real)})
	}
	for n := 1; n <= most; n++ {
		latest := max(real-(most-n), 0)
		h := min(s.first[n-1]+1, latest)
		for h < latest && !s.shows(n, h, latest) {
			h++
		}
		s.first[n] = h
	}
}

// shows reports whether a history of the log has a state that one of the truth has and none from there to latest.
func (s *streamJudge) shows(logged, history, latest int) bool {
	return slices.ContainsFunc(s.lines, func(l *line) bool {
		if l.History != logged || l.op == Deleted || !s.has(history, l) {
			return false
		}
		for h := history + 1; h <= latest; h++ {
			if s.has(h, l) {
				return false
			}
		}
		return true
	})
}

// matching counts the entries that are states of a history of the truth.
func (s *streamJudge) matching(lines []*line, history int) int {
	count := 0
	for _, l := range lines {
		if s.has(history, l) {
			count++
		}
	}
	return count
}

// has reports whether a history of the truth has the state of an entry.
func (s *streamJudge) has(history int, l *line) bool {
	return slices.ContainsFunc(s.objects[l.key()].truth, func(st State) bool {
		return st.History == history && st.UID == l.UID && st.Version == l.version && st.live() == (l.op != Deleted) && sameBody(st, l)
	})
}

// early reports whether a state may be in a history of the log although it belongs to the next one: where versions
// were bumped, a stream may publish something before an older object tells it of the restoration, and where they were
// not, before another stream does. That of an object which the restoration took away may be of one in between, which
// the stream has seen nothing of.
func (s *streamJudge) early(logged int, st State) bool {
	if logged+1 >= len(s.first) || st.History == 0 || st.History > s.first[logged+1] {
		return false
	}
	if st.History == s.first[logged+1] && s.unaware(st.History) && st.Version > s.judge.truth.Histories[st.History].First {
		return true
	}
	undone := !st.live() && st.Version == s.judge.truth.Histories[st.History].First
	return undone || st.History == s.first[logged+1] && st.Version > s.judge.truth.last(st.History-1)
}

// span returns the first and the last history of the truth that a history of the log may speak of. It is more than
// one where a restoration went unnoticed, because versions went on.
func (s *streamJudge) span(logged int) (low, high int) {
	high = len(s.judge.truth.Histories) - 1
	if logged >= len(s.first) {
		return high, high
	}
	if logged+1 < len(s.first) {
		high = max(s.first[logged+1]-1, s.first[logged])
	}
	return s.first[logged], high
}
