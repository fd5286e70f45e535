// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"strconv"
)

// streamJudge checks one stream.
type streamJudge struct {
	judge   *judge
	stream  Stream
	objects map[string]*object
	// lines are the entries about objects, marks the markers, gaps those that may stand for missing states; all in the
	// order of the log.
	lines []*line
	marks []*mark
	gaps  []*mark
	// first is the history of the truth that each history of the log begins with.
	first []int
	start position
	// uncovered counts states that are missing and that nothing stands for.
	uncovered int
}

// object is one name.
type object struct {
	key   string
	truth []State
	lines []*line
	// published says of each state whether the log has it, excused whether it need not, because of a restoration.
	published, excused []bool
}

// line is an entry about an object.
type line struct {
	*Entry
	op      Op
	version uint64
	// at is the state's index in the truth, -1 where it has none.
	at int
	// nth is the line's index among the object's.
	nth int
}

func newStreamJudge(j *judge, stream Stream) *streamJudge {
	s := &streamJudge{judge: j, stream: stream, objects: map[string]*object{}}
	for key, states := range j.truth.Streams[stream] {
		s.objects[key] = &object{key: key, truth: states, published: make([]bool, len(states)), excused: make([]bool, len(states))}
		j.report.States += len(states)
	}
	return s
}

// take files an entry of the stream.
func (s *streamJudge) take(e *Entry) {
	if e.Type == typeGap || e.Type == typeStarted || e.Type == typeCompleted {
		s.marks = append(s.marks, newMark(e))
		return
	}
	op, ok := e.operation()
	version, err := strconv.ParseUint(e.ResourceVersion, 10, 64)
	o := s.objects[e.key()]
	if !ok || err != nil || o == nil {
		s.judge.violate(Violation{Promise: P4, Stream: s.stream.String(), Key: e.key(), What: "an entry that nothing in the truth corresponds to", Log: []string{e.String()}})
		return
	}
	l := &line{Entry: e, op: op, version: version, at: -1, nth: len(o.lines)}
	o.lines = append(o.lines, l)
	s.lines = append(s.lines, l)
	if e.Reason == "recovered" {
		s.judge.report.Recovered++
	}
}

func (s *streamJudge) check() {
	s.matchHistories()
	s.readMarks()
	s.begin()
	for _, key := range sortedKeys(s.objects) {
		s.place(s.objects[key])
		s.checkWriters(s.objects[key])
	}
	s.excuseUnnoticed()
	s.findGaps()
	s.checkPlaces()
	s.checkSnapshots()
	for _, key := range sortedKeys(s.objects) {
		s.checkMissing(s.objects[key])
		s.checkFinal(s.objects[key])
	}
	if s.uncovered > 0 {
		s.judge.violate(Violation{Promise: P6, Stream: s.stream.String(), What: fmt.Sprintf("%d states are missing that no gap announces", s.uncovered)})
	}
	s.checkGaps()
}

// place finds the state of each of an object's entries, and checks that they stand in order, once, under the right id
// and with the right word.
func (s *streamJudge) place(o *object) {
	seen := map[string]bool{}
	previous, history := -1, 0
	for _, l := range o.lines {
		s.checkForm(l)
		if l.History < history {
			s.violateLine(P4, l, fmt.Sprintf("history %d after history %d", l.History, history))
		}
		begins := l.History > history // then what the log has may be published again
		history = max(history, l.History)
		at, before := s.find(o, l, previous)
		name := fmt.Sprint(l.History, l.UID, l.version, l.op == Deleted)
		switch {
		case seen[name], at >= 0 && at == previous && !begins:
			s.violateLine(P5, l, "the same state a second time")
		case at < 0 && before:
			s.violateLine(P4, l, "an older state after a newer one")
		case at < 0:
			s.nowhere(l)
		}
		seen[name] = true
		if l.at = at; at >= 0 {
			o.published[at] = true
			previous = max(previous, at)
		}
		s.checkWord(o, l)
	}
}

func (s *streamJudge) checkForm(l *line) {
	if problem := idProblem(l.Entry, l.op, s.stream.LabelSelector != ""); problem != "" {
		s.violateLine(P5, l, problem)
	}
	if l.SampledRate != 1 && !s.judge.options.Latest[s.stream] {
		s.violateLine(P3, l, fmt.Sprintf("%d changes folded into one", l.SampledRate))
	}
	switch {
	case l.Reason == "repair" && s.judge.options.LogLost.IsZero():
		s.violateLine(P3, l, "published again, and the log was not taken away")
	case l.Type == typeRejected:
		s.violateLine(P1, l, "the broker refused it")
	case l.Reason == "resync", reselected(l.Entry) && !s.judge.options.Selected:
		s.violateLine(P5, l, "nobody asked for it")
	default:
		if problem := dataProblem(l.Entry, s.stream.Resource); problem != "" {
			s.violateLine(P4, l, problem)
		}
	}
}

// nowhere judges an entry of which the truth has no state.
func (s *streamJudge) nowhere(l *line) {
	if low, high := s.span(l.History); s.judge.truth.hidden(low, high, l.version) {
		s.judge.report.Unknown++
		return
	}
	what := "a state that never was"
	if slices.ContainsFunc(s.objects[l.key()].truth, func(st State) bool {
		return st.UID == l.UID && st.Version == l.version && st.live() == (l.op != Deleted)
	}) {
		what = "its content is not that of the state"
	}
	s.violateLine(P4, l, what)
}

// find returns the index of a line's state behind the previous one; or -1, and whether it is one before.
func (s *streamJudge) find(o *object, l *line, previous int) (at int, before bool) {
	low, high := s.span(l.History)
	fits := func(i int) bool {
		st := o.truth[i]
		return st.UID == l.UID && st.History >= low && (st.History <= high || s.early(l.History, st)) && st.live() == (l.op != Deleted)
	}
	exact := func(i int) bool { return fits(i) && o.truth[i].Version == l.version && sameBody(o.truth[i], l) }
	if l.op != Deleted {
		return search(o, exact, previous)
	}
	low = 0 // a deletion that was found missing may be of an older history than the one in which it was found
	concluded := s.conclusion(o, l)
	order := []func(int) bool{exact, concluded}
	switch l.Reason {
	case "watch":
		order = order[:1]
	case "relist", "snapshot":
		order = []func(int) bool{concluded, exact}
	}
	for _, f := range order {
		if at, before = search(o, func(i int) bool { return fits(i) && f(i) }, previous); at >= 0 || before {
			return at, before
		}
	}
	return -1, false
}

// sameBody reports whether an entry has a state's content, as far as the truth has it. A deletion may come without.
func sameBody(st State, l *line) bool {
	return st.Body == "" || st.Body == l.Body || l.Body == "" && l.op == Deleted
}

// conclusion says which states a deletion may stand for that was found missing: it has the last version that was known.
func (s *streamJudge) conclusion(o *object, l *line) func(int) bool {
	known := slices.IndexFunc(o.truth, func(st State) bool { return st.UID == l.UID && st.Version == l.version && st.live() })
	return func(i int) bool { return known >= 0 && i > known }
}

// search returns the first index from the previous one on that fits; else -1, and whether one before does.
func search(o *object, fits func(int) bool, previous int) (at int, before bool) {
	for i := max(previous, 0); i < len(o.truth); i++ {
		if fits(i) {
			return i, false
		}
	}
	for i := range max(previous, 0) {
		if fits(i) {
			return -1, true
		}
	}
	return -1, false
}

// checkWord: added is what the stream did not have, updated what it had, and the owner of a name is deleted before
// another takes it.
func (s *streamJudge) checkWord(o *object, l *line) {
	var last *line
	if l.nth > 0 {
		last = o.lines[l.nth-1]
	}
	alive := last != nil && last.op != Deleted
	switch {
	case l.op == Deleted && alive && last.UID != l.UID:
		s.violateLine(P2, l, "another object is deleted, and the one before was not")
	case l.op == Deleted && alive && l.at >= 0 && o.truth[l.at].Version != l.version && last.version != l.version:
		s.violateLine(P4, l, fmt.Sprintf("a deletion that was found missing, and the log's last version is %d", last.version))
	case l.op == Deleted:
	case alive && last.UID != l.UID:
		s.violateLine(P2, l, "another object took the name, and the one before was not deleted")
	case alive && l.op == Added && slices.ContainsFunc(o.truth[max(last.at, 0):max(last.at, l.at, 0)], func(st State) bool { return st.UID == l.UID && !st.live() }):
		s.violateLine(P2, l, "added again, and not deleted in between")
	case alive && l.op == Added:
		s.violateLine(P3, l, "added, and the log has it already")
	case !alive && l.op == Updated && l.Reason != "repair":
		s.violateLine(P3, l, "updated, and the log does not have it")
	}
}

func (s *streamJudge) violateLine(p Promise, l *line, what string) {
	o, at := s.objects[l.key()], l.at
	if at < 0 {
		at = slices.IndexFunc(o.truth, func(st State) bool { return st.Version >= l.version })
	}
	s.violate(p, o, at, l.nth, fmt.Sprintf("entry %d, %s %d: %s", l.Sequence, l.op, l.version, what))
}

func (s *streamJudge) violate(p Promise, o *object, state, nth int, what string) {
	s.judge.violate(Violation{
		Promise: p, Stream: s.stream.String(), Key: o.key, What: what,
		Truth: around(o.truth, state, State.String),
		Log:   around(o.lines, nth, func(l *line) string { return l.Entry.String() }),
	})
}
