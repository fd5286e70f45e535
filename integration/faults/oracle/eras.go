// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"strconv"
)

// era is a part of a stream's log in which versions compare. It has one epoch or more.
type era struct {
	// epoch is the first one.
	epoch uint64
	// later says that the era begins in a later history than the one before, because a gap tells of a restoration. An
	// era without it may do so as well: where everything is published again, nothing is compared.
	later bool
	// snapshot says that the era begins with a snapshot: what was not selected for a while is selected again.
	snapshot bool
	// first is the history of the truth that the era begins with.
	first int
}

// findEras finds the epochs at which versions stop to compare. A log begins in an era that may be empty. Who has lost
// the checkpoint may tell of a restoration again, and so may a stream that takes over several of which one has not
// told. A stream that begins behind a restoration may be told of it by another stream that shows it later.
func (s *streamJudge) findEras() {
	s.eras = []era{{}}
	newest, told, forgot, behind := uint64(0), false, false, s.beginsBehind()
	var scope *string
	for _, m := range s.marks {
		body := bodyOfMark(m.Entry)
		m.takesOver, scope = scope != nil && *scope != body.Namespace, &body.Namespace
		epoch, cause := epochOf(m.Entry), body.Cause
		if epoch <= newest {
			continue
		}
		restored, again := cause == Restored || cause == Rebuilt, told && m.takesOver
		later := restored && !forgot && !again && !behind
		behind = behind && !restored
		told, forgot = told || restored, forgot && !restored || told && cause == CheckpointLost
		switch {
		case restored, cause == LogLost, cause == Audit, m.Type == typeStarted && newest > 0:
			s.eras = append(s.eras, era{epoch: epoch, later: later, snapshot: m.Type == typeStarted})
		}
		newest = epoch
	}
}

// beginsBehind reports whether the stream begins behind a restoration, as a version of its first list shows. A process
// may have died during a first try of that list.
func (s *streamJudge) beginsBehind() bool {
	for _, m := range s.marks {
		if epochOf(m.Entry) != epochOf(s.marks[0].Entry) || m.Type != typeStarted && m.Type != typeCompleted {
			return false
		}
		version, err := strconv.ParseUint(bodyOfMark(m.Entry).ResourceVersion, 10, 64)
		if err == nil && version > s.judge.truth.last(0) {
			return true
		}
	}
	return false
}

// divideLines gives each line its era. The end of an object whose name another one has in the same list is of the era
// in which the list was made.
func (s *streamJudge) divideLines() {
	next, epoch := 0, uint64(0)
	for _, l := range s.lines {
		for ; next < len(s.marks) && s.marks[next].Place < l.Place; next++ {
			epoch = max(epoch, epochOf(s.marks[next].Entry))
		}
		if l.era = s.eraOf(l.epoch); s.taken(l) {
			l.era = s.eraOf(epoch)
		}
	}
}

// eraOf returns the index of the era that has an epoch.
func (s *streamJudge) eraOf(epoch uint64) int {
	n := len(s.eras) - 1
	for n > 0 && s.eras[n].epoch > epoch {
		n--
	}
	return n
}

// matchEras finds the history of the truth that each era begins with: the latest one that its states allow. A
// restoration may go unnoticed, and two may look like one.
func (s *streamJudge) matchEras() {
	newest, restored := len(s.judge.truth.Histories)-1, 0
	for _, e := range s.eras {
		if e.later {
			restored++
		}
	}
	if restored > newest {
		s.judge.violate(Violation{Promise: P6, Stream: s.stream.String(), What: fmt.Sprintf(
			"the log tells of %d restorations, and etcd was restored %d times", restored, newest)})
	}
	allowed := s.allowed(newest)
	for n := 1; n < len(s.eras); n++ {
		e := &s.eras[n]
		h := s.eras[n-1].first
		if e.later {
			h, restored = h+1, restored-1
		}
		latest := max(newest-restored, 0)
		e.first = max(min(h, latest), min(allowed[n], latest))
	}
}

// allowed returns the latest history of the truth that each era can begin with, because of its own states and of those
// of the eras behind it.
func (s *streamJudge) allowed(newest int) []int {
	all := make([]int, len(s.eras))
	for n := len(all) - 1; n >= 0; n-- {
		h := 0
		for h < newest && !s.shows(n, h, newest) {
			h++
		}
		all[n], newest = h, h
		if s.eras[n].later {
			newest = max(h-1, 0)
		}
	}
	return all
}

// shows reports whether an era has a state that one history of the truth has and none from there to latest.
func (s *streamJudge) shows(era, history, latest int) bool {
	return slices.ContainsFunc(s.lines, func(l *line) bool {
		if l.era != era || l.op == Deleted || !s.has(history, l) {
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
		return st.History == history && st.UID == l.UID && st.Version == l.version && st.live() == (l.op != Deleted) &&
			sameBody(st, l)
	})
}

// span returns the first and the last history of the truth that an era may speak of. It is more than one where a
// restoration went unnoticed: the era after it may begin in the history in which this one ends.
func (s *streamJudge) span(era int) (low, high int) {
	low, high = s.eras[era].first, len(s.judge.truth.Histories)-1
	if era+1 < len(s.eras) {
		next := s.eras[era+1]
		if high = next.first; next.later {
			high--
		}
	}
	return low, max(low, high)
}

// early reports whether a state may be in an era although it belongs to the next one: a stream may publish something
// before another stream tells it of the restoration, or an older object does where versions were bumped. An end that
// the restoration brought is early as well; where another object has the name, it has the version of that one.
func (s *streamJudge) early(era int, st State) bool {
	if era+1 == len(s.eras) || st.History == 0 || st.History > s.eras[era+1].first {
		return false
	}
	began := s.judge.truth.Histories[st.History].First
	if !st.live() && st.Version <= began {
		return true
	}
	return st.History == s.eras[era+1].first &&
		(st.Version > s.judge.truth.last(st.History-1) || s.unaware(st.History, true) && st.Version > began)
}

// reselected reports whether a state may be in a line's era although it belongs to the next one: another selection, or
// what a lost checkpoint had known, was listed under an epoch of its own, in which nothing has shown the restoration
// yet.
func (s *streamJudge) reselected(l *line, st State) bool {
	if l.era+1 == len(s.eras) || st.History != s.eras[l.era+1].first {
		return false
	}
	reselected, epoch := false, s.eras[l.era].epoch
	for _, m := range s.marks {
		if m.Place > l.Place {
			break
		}
		if m.epoch > epoch {
			reselected, epoch = m.body.Cause == Selection || m.body.Cause == CheckpointLost, m.epoch
		}
	}
	return reselected
}

// checkEpochs checks that each event has the epoch of the newest marker before it. Only the end of an object whose
// name another one has in the same list goes with the object's last event.
func (s *streamJudge) checkEpochs() {
	next, epoch := 0, uint64(0)
	for _, l := range s.lines {
		for ; next < len(s.marks) && s.marks[next].Place < l.Place; next++ {
			epoch = s.marks[next].epoch
		}
		switch {
		case l.late, s.taken(l), l.retires:
		case l.epoch > epoch:
			s.violateLine(P6, l, fmt.Sprintf("no marker begins its epoch, and the newest one is %d", epoch))
		case l.epoch < epoch:
			s.violateLine(P6, l, fmt.Sprintf("its epoch is over: a marker before it has %d", epoch))
		}
	}
}
