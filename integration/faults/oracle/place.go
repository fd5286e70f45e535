// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
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
	// pauses are times in which nothing was selected.
	pauses []interval
	eras   []era
	start  position
	// uncovered counts states that are missing and that nothing stands for. FirstUncovered is the first one.
	uncovered      int
	firstUncovered string
}

// object is one name.
type object struct {
	key   string
	truth []State
	// lines are the entries, again those that are published again.
	lines, again []*line
	// published says of each state whether the log has it, excused whether it need not, because of a restoration.
	published, excused []bool
	// alike says that only a comparison of contents shows that a restored etcd has another state than the log.
	alike bool
}

// line is an entry about an object.
type line struct {
	*Entry
	op Op
	numbers
	era int
	// late says that a former leader has published it where it may.
	late bool
	// at is the state's index in the truth, -1 where it has none.
	at int
	// retires says that it is a deletion of a stream that is not read any more; see retired.
	retires bool
	// cut says that it was read back, and that the stream has retired before the gap behind that was due.
	cut bool
	// nth is the line's index among the object's.
	nth int
}

func newStreamJudge(j *judge, stream Stream) *streamJudge {
	s := &streamJudge{judge: j, stream: stream, objects: map[string]*object{}}
	for key, states := range j.truth.Streams[stream] {
		s.objects[key] = &object{
			key: key, truth: states, published: make([]bool, len(states)),
			excused: make([]bool, len(states)),
		}
		j.report.States += len(states)
	}
	return s
}

// take files an entry of the stream.
func (s *streamJudge) take(e *Entry) {
	if e.mark() {
		s.marks = append(s.marks, &mark{Entry: e})
		return
	}
	op, ok := e.operation()
	n, formed := numbersOf(e.Sequence)
	o := s.objects[e.key()]
	if !ok || !formed || o == nil {
		s.judge.violate(Violation{
			Promise: P4, Stream: s.stream.String(), Key: e.key(), What: "an entry that nothing in the truth corresponds to",
			Log: []string{e.String()},
		})
		return
	}
	l := &line{Entry: e, op: op, numbers: n, at: -1, nth: len(o.lines)}
	if e.again() {
		o.again = append(o.again, l)
		return
	}
	o.lines = append(o.lines, l)
	s.lines = append(s.lines, l)
	if e.Reason == "recovered" {
		s.judge.report.Recovered++
	}
}

func (s *streamJudge) check() {
	s.findEras()
	s.divideLines()
	s.matchEras()
	s.readMarks()
	s.begin()
	for _, l := range s.lines {
		l.retires = s.retired(l)
	}
	s.findCut()
	for _, key := range sortedKeys(s.objects) {
		s.place(s.objects[key])
		s.placeAgain(s.objects[key])
		s.checkWriters(s.objects[key])
	}
	s.checkEpochs()
	s.excuseUnnoticed()
	s.findGaps()
	s.findPauses()
	s.checkPlaces()
	s.checkSnapshots()
	s.checkResyncs()
	for _, key := range sortedKeys(s.objects) {
		s.checkMissing(s.objects[key])
		s.checkFinal(s.objects[key])
	}
	if s.uncovered > 0 {
		s.judge.violate(Violation{Promise: P6, Stream: s.stream.String(), What: fmt.Sprintf(
			"%d states are missing that no gap announces, the first of them %s", s.uncovered, s.firstUncovered)})
	}
	s.checkGaps()
}

// place finds the state of each of an object's entries, and checks that they stand in order, once, under the right id
// and with the right word.
func (s *streamJudge) place(o *object) {
	seen := map[string]bool{}
	previous, era := -1, 0
	for _, l := range o.lines {
		s.checkForm(l)
		last := o.lineBefore(l)
		if last != nil && l.Sequence <= last.Sequence {
			s.violateLine(P4, l, fmt.Sprintf("its sequence is not greater than that of entry %d", last.Place))
		}
		if l.Reason == "deselected" {
			if l.at = max(previous, 0); s.endOf(o, l, previous) >= 0 {
				l.at = s.endOf(o, l, previous)
				previous, o.published[l.at] = l.at, true
			}
			s.checkWord(o, l)
			continue
		}
		// Behind a number of the first case, or when it is selected again, what the log has may be published again.
		again := l.era > era || last != nil && (last.Reason == "deselected" ||
			last.op == Deleted && last.at >= 0 && o.truth[last.at].Unclear)
		if era = max(era, l.era); again {
			clear(seen)
		}
		at, older := s.find(o, l, max(previous, s.floor(o, l)))
		name := fmt.Sprint(l.epoch, l.UID, l.version, l.step)
		switch {
		case seen[name], at >= 0 && at == previous && !again:
			s.violateLine(P5, l, "the same state a second time")
		case at < 0 && older:
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

// lineBefore returns the line before one of an object; nil if there is none.
func (o *object) lineBefore(l *line) *line {
	if l.nth == 0 {
		return nil
	}
	return o.lines[l.nth-1]
}

// placeAgain checks what is published again: it is a state that the log has, or had before a rewind, with its
// sequence and content.
func (s *streamJudge) placeAgain(o *object) {
	for _, l := range o.again {
		l.era = s.eraOf(l.epoch)
		s.checkForm(l)
		low, high := s.span(l.era)
		told := slices.ContainsFunc(o.lines, func(of *line) bool {
			return of.Place < l.Place && of.Sequence == l.Sequence && of.UID == l.UID && of.op == Deleted == (l.op == Deleted) &&
				(of.Body == "" || l.Body == "" || of.Body == l.Body)
		})
		// The end of an object that a lost log had alive, or of what was not selected any more, has the number of its
		// row.
		if told || l.op == Deleted && s.judge.options.lostAt(l.Recorded) {
			continue
		}
		if l.at = slices.IndexFunc(o.truth, func(st State) bool {
			return st.History >= low && st.History <= high && st.UID == l.UID && st.Version == l.version &&
				st.live() == (l.op != Deleted) && sameBody(st, l)
		}); l.at < 0 {
			s.violateLine(P4, l, "published again, and it never was")
			continue
		}
		o.published[l.at] = true
	}
}

// folds reports whether an event may stand for several changes.
func (s *streamJudge) folds() bool {
	return s.judge.options.Latest[s.stream] || s.judge.options.Refused != nil
}

func (s *streamJudge) checkForm(l *line) {
	for _, problem := range []string{l.idProblem(s.judge.options.lostAt(l.Recorded)), l.sequenceProblem()} {
		if problem != "" {
			s.violateLine(P5, l, problem)
		}
	}
	if l.SampledRate != 1 && !s.folds() {
		s.violateLine(P3, l, fmt.Sprintf("%d changes folded into one", l.SampledRate))
	}
	switch {
	case l.Reason == "repair" && s.judge.options.LogLost.IsZero():
		s.violateLine(P3, l, "published again, and the log was not taken away")
	case l.Type == typeRejected:
		if may := s.judge.options.Refused; may == nil || !may(l.Entry) {
			s.violateLine(P1, l, "the broker refused it")
		}
	case l.Reason == "resync" && !s.judge.options.Resync, l.Reason == "deselected" && !s.mayEnd(l):
		s.violateLine(P5, l, "it was not asked for")
	case l.Reason == "deselected" && l.op != Deleted:
		s.violateLine(P4, l, "it is deselected, and not deleted")
	default:
		if problem := dataProblem(l.Entry, s.resourceOf(l)); problem != "" {
			s.violateLine(P4, l, problem)
		}
	}
}

// nowhere judges an entry of which the truth has no state.
func (s *streamJudge) nowhere(l *line) {
	if low, high := s.span(l.era); s.judge.truth.hidden(low, high, l.version) {
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
	low, high := s.span(l.era)
	fits := func(i int) bool {
		st := o.truth[i]
		return st.UID == l.UID && st.History >= low && (st.History <= high || s.early(l.era, st) || s.reselected(l, st)) &&
			(st.live() == (l.op != Deleted) || st.Unclear && l.op == Deleted)
	}
	if l.Reason == "recovered" && s.taken(l) { // what is read back may be the first sign of a restoration
		high = min(high+1, len(s.judge.truth.Histories)-1)
	}
	// Of what has left a selection that may have had it, the deletion has the content before.
	exact := func(i int) bool {
		return fits(i) && o.truth[i].Version == l.version &&
			(sameBody(o.truth[i], l) || l.op == Deleted && o.truth[i].live())
	}
	if l.op != Deleted {
		return search(o, exact, previous)
	}
	low = 0 // a deletion that was found missing may be of an older history than the one in which it was found
	order := []func(int) bool{s.concluded(o, l, previous, high)}
	switch {
	case l.Reason == "watch" && !s.taken(l):
		order = []func(int) bool{exact}
	case l.Reason == "recovered" && !s.taken(l):
		order = []func(int) bool{exact, order[0]}
	}
	for _, f := range order {
		if at, before = search(o, func(i int) bool { return fits(i) && f(i) }, previous); at >= 0 || before {
			return at, before
		}
	}
	return -1, false
}

// sameBody reports whether an entry has a state's content, as far as the truth and the entry's payload have it. A
// deletion may come without.
func sameBody(st State, l *line) bool {
	whole := l.content() != nil
	return st.Body == "" || st.Body == l.Body || l.Body == "" && (l.op == Deleted || !whole)
}

// concluded says which ends a deletion may stand for that was found missing: those behind the last version that was
// known, up to the version of the list that did not have the object. What retires was listed later than its sequence
// says.
func (s *streamJudge) concluded(o *object, l *line, previous, high int) func(int) bool {
	last := -1
	for i, st := range o.truth {
		is := st.UID == l.UID && fmt.Sprint(st.Version) == l.ResourceVersion && st.live()
		if is && (last < 0 || i <= previous) {
			last = i
		}
	}
	any := s.taken(l) || l.retires
	return func(i int) bool {
		st := o.truth[i]
		listed := any || st.Selects || st.History > high || st.at().compare(position{high, l.version}) <= 0
		return last >= 0 && i > last && listed
	}
}

// taken reports whether an end stands between an object's last event and the first one of another object that has the
// name. It has the last event's sequence, as an end.
func (s *streamJudge) taken(l *line) bool {
	o := s.objects[l.key()]
	before := o.lineBefore(l)
	if l.op != Deleted || before == nil || before.UID != l.UID || before.op == Deleted ||
		before.epoch != l.epoch || before.version != l.version || l.ResourceVersion != before.ResourceVersion {
		return false
	}
	if l.nth+1 == len(o.lines) { // a list is cut short by a crash, and what a watch shows comes again
		return l.Reason != "watch" || s.judge.options.Prefix
	}
	return o.lines[l.nth+1].UID != l.UID
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
	last := o.lineBefore(l)
	alive := last != nil && last.op != Deleted
	switch {
	case l.op == Deleted && alive && last.UID != l.UID:
		s.violateLine(P2, l, "another object is deleted, and the one before was not")
	case l.op == Deleted && alive && !s.live(o, l) && last.ResourceVersion != l.ResourceVersion:
		s.violateLine(P4, l, fmt.Sprintf("a deletion that was found missing, and the log's last version is %d", last.version))
	case l.op == Deleted && !s.live(o, l) && !s.taken(l) && !s.listed(l):
		s.violateLine(P4, l, "a deletion that was found missing, and its sequence is of no list")
	case l.op == Deleted:
	case alive && last.UID != l.UID:
		s.violateLine(P2, l, "another object took the name, and the one before was not deleted")
	case alive && l.op == Added && slices.ContainsFunc(o.truth[max(last.at, 0):max(last.at, l.at, 0)],
		func(st State) bool { return st.UID == l.UID && !st.live() }):
		s.violateLine(P2, l, "added again, and not deleted in between")
	case alive && l.op == Added:
		s.violateLine(P3, l, "added, and the log has it already")
	case !alive && l.op == Updated && l.Reason != "repair":
		s.violateLine(P3, l, "updated, and the log does not have it")
	}
}

// live reports whether a deletion was seen when it happened.
func (s *streamJudge) live(o *object, l *line) bool {
	return l.Reason == "watch" && !s.taken(l) ||
		l.Reason == "recovered" && l.at >= 0 && o.truth[l.at].Version == l.version &&
			l.ResourceVersion == fmt.Sprint(l.version)
}

// listed reports whether a marker before a deletion has the version that its sequence has: of the list that did not
// show the object. A repair makes its list behind its gap.
func (s *streamJudge) listed(l *line) bool {
	return slices.ContainsFunc(s.marks, func(m *mark) bool {
		if m.Place > l.Place || m.epoch != l.epoch {
			return false
		}
		return m.to.version == l.version || l.Reason == "repair" && m.body.Cause == LogLost && m.said <= l.version
	}) || l.retires || l.Reason != "relist" && l.Reason != "snapshot" && l.Reason != "repair" || s.foundGone(l)
}

// foundGone reports whether a deletion may be one that the broker has refused: the object was read again, at a version
// behind its end, and before the log has another object of the name.
func (s *streamJudge) foundGone(l *line) bool {
	if s.judge.options.Refused == nil || l.Reason != "relist" {
		return false
	}
	o, ended := s.objects[l.key()], false
	for i, st := range o.truth {
		switch {
		case st.Version > l.version:
		case st.UID == l.UID:
			ended = !st.live()
		case ended && o.published[i]:
			return false
		}
	}
	return ended
}

func (s *streamJudge) violateLine(p Promise, l *line, what string) {
	o, at := s.objects[l.key()], l.at
	if at < 0 {
		at = slices.IndexFunc(o.truth, func(st State) bool { return st.Version >= l.version })
	}
	s.violate(p, o, at, l.nth, fmt.Sprintf("entry %d, %s %d: %s", l.Place, l.op, l.version, what))
}

func (s *streamJudge) violate(p Promise, o *object, state, nth int, what string) {
	s.judge.violate(Violation{
		Promise: p, Stream: s.stream.String(), Key: o.key, What: what,
		Truth: around(o.truth, state, State.String),
		Log:   around(o.lines, nth, func(l *line) string { return l.Entry.String() }),
	})
}
