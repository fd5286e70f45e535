// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mark is a marker of the log.
type mark struct {
	*Entry
	// history is the one that the log counts.
	history int
	body    markBody
	// from and to are where the marker's range begins and ends in the truth; a snapshot has only to.
	from, to                     position
	hidden, avoidable, recovered int
	// begins says that a history of the log begins with the marker.
	begins bool
}

type markBody struct {
	Namespace     string `json:"namespace"`
	LabelSelector string `json:"labelSelector"`
	From          string `json:"from"`
	To            string `json:"to"`
	Reason        string `json:"reason"`
	// ResourceVersion is a snapshot's.
	ResourceVersion string `json:"resourceVersion"`
}

func namespaceOf(e *Entry) string {
	if e.Type != typeGap && e.Type != typeStarted && e.Type != typeCompleted {
		return e.Namespace
	}
	var body markBody
	_ = json.Unmarshal(e.Data, &body) // one that is no JSON is reported as malformed
	return body.Namespace
}

// markHistory is in a marker's id; the attribute is only on events about objects.
var markHistory = regexp.MustCompile(`\.h([1-9][0-9]*)(\.|$)`)

func newMark(e *Entry) *mark {
	m := &mark{Entry: e, history: e.History}
	if found := markHistory.FindStringSubmatch(e.ID); found != nil && m.history == 0 {
		m.history, _ = strconv.Atoi(found[1])
	}
	return m
}

// read checks a marker's form and returns what is wrong with it.
func (m *mark) read(s Stream) error {
	if err := json.Unmarshal(m.Data, &m.body); err != nil {
		return fmt.Errorf("its data: %w", err)
	}
	if m.body.Namespace != s.Namespace || m.body.LabelSelector != s.LabelSelector {
		return fmt.Errorf("it is about the scope %q %q", m.body.Namespace, m.body.LabelSelector)
	}
	if m.Recorded.IsZero() {
		return fmt.Errorf("it does not say when it was recorded")
	}
	version, id := m.body.ResourceVersion, ""
	switch m.Type {
	case typeGap:
		version, id = m.body.To, "gap."+s.scope()+"."+m.body.From+"-"+m.body.To
		if m.body.Reason == "" {
			return fmt.Errorf("it has no reason")
		}
		from, err := strconv.ParseUint(m.body.From, 10, 64)
		if err != nil {
			return fmt.Errorf("from: %w", err)
		}
		m.from.version = from
	case typeStarted:
		id = "snapshot-started." + s.scope() + "." + version
	case typeCompleted:
		id = "snapshot-completed." + s.scope() + "." + version
	}
	to, err := strconv.ParseUint(version, 10, 64)
	if err != nil {
		return fmt.Errorf("its version: %w", err)
	}
	m.to.version = to
	if m.ResourceVersion != version {
		return fmt.Errorf("its attribute resourceversion is %s, its data says %s", m.ResourceVersion, version)
	}
	if end, is := strings.CutPrefix(m.ID, id); !is || !tail.MatchString(end) {
		return fmt.Errorf("its id does not begin with %s", id)
	}
	return nil
}

// readMarks checks the form of the markers and finds their places in the truth. Those that are malformed are left out.
func (s *streamJudge) readMarks() {
	var good []*mark
	current := 0
	for _, m := range s.marks {
		if err := m.read(s.stream); err != nil {
			s.violateMark(m, "a malformed marker: "+err.Error())
			continue
		}
		low, high := s.span(m.history)
		m.from = s.judge.truth.locate(min(current, low), high, m.from.version)
		if m.Type == typeGap {
			// A list behind a gap may be the first sign of a restoration: then the gap ends in a history that the log does not
			// know yet.
			high = min(high+1, len(s.judge.truth.Histories)-1)
		}
		m.to = s.locateEnd(m, max(current, low), high)
		if m.to.version > s.judge.truth.last(m.to.history) || m.from.version > s.judge.truth.last(m.from.history) {
			s.violateMark(m, "a marker with a version that never was")
			continue
		}
		if m.Type == typeGap && m.from.compare(m.to) > 0 {
			s.violateMark(m, "a malformed marker: it ends before it begins")
			continue
		}
		current = m.to.history
		good = append(good, m)
	}
	s.marks = good
}

// locateEnd finds the history among low to high that a marker ends in. Where several have its version, because a
// restoration went unnoticed, it is the one that has the most of what the list behind the marker found; of equals the
// first.
func (s *streamJudge) locateEnd(m *mark, low, high int) position {
	next := uint64(math.MaxUint64)
	for _, other := range s.marks {
		if other.Sequence > m.Sequence {
			next = other.Sequence
			break
		}
	}
	behind := slices.DeleteFunc(slices.Clone(s.lines), func(l *line) bool {
		// The version of a deletion that a list found missing is an older one.
		return l.Sequence < m.Sequence || l.Sequence > next || l.op == Deleted || l.Reason != "relist"
	})
	first := s.judge.truth.locate(low, high, m.to.version)
	best := first
	most := s.matching(behind, first.history)
	for h := first.history + 1; h <= high; h++ {
		if m.to.version > s.judge.truth.last(h) {
			continue
		}
		if count := s.matching(behind, h); count > most {
			most, best = count, position{h, m.to.version}
		}
	}
	return best
}

func (s *streamJudge) violateMark(m *mark, what string) {
	s.judge.violate(Violation{Promise: P6, Stream: s.stream.String(), What: what, Log: []string{m.String(), string(m.Data)}})
}

// begin finds the version of the first snapshot: before it the log need only have what was newest then. It is the
// last one that was started before one was completed, as one that a crash cut short starts again.
func (s *streamJudge) begin() {
	s.start = position{0, s.judge.truth.Histories[0].First}
	for _, m := range s.marks {
		switch m.Type {
		case typeStarted:
			s.start = m.to
		case typeCompleted:
			s.start = m.to
			return
		}
	}
}

// covers returns the gap that hides a state; nil if there is none. What the log says next of the object stands behind
// that, unless it was read back: a gap does not excuse what was missing already. The newest state in a gap's range comes
// with the list behind the gap. If the process died before that, a later gap hides the state.
func (s *streamJudge) covers(o *object, i int, next *line) (found *mark) {
	p := o.truth[i].at()
	for _, m := range s.gaps {
		if m.from.compare(p) >= 0 || p.compare(m.to) > 0 || next != nil && next.Sequence <= m.Sequence && next.Reason != "recovered" {
			continue
		}
		found = m
		if i+1 < len(o.truth) && o.truth[i+1].at().compare(m.to) <= 0 {
			break
		}
	}
	return found
}

// findGaps collects what may stand for missing states, and counts what was read back before each gap.
func (s *streamJudge) findGaps() {
	recovered, next, history := 0, 0, 0
	for _, m := range s.marks {
		for ; next < len(s.lines) && s.lines[next].Sequence < m.Sequence; next++ {
			if s.lines[next].Reason == "recovered" {
				recovered++
			}
		}
		if m.Type == typeGap {
			m.recovered, recovered = recovered, 0
			m.begins, history = m.history > history, max(history, m.history)
			s.gaps = append(s.gaps, m)
		}
	}
}

// checkSnapshots checks that what a first list shows stands between its markers, and that nothing is watched before
// it is complete. A gap takes the place of a snapshot that was lost.
func (s *streamJudge) checkSnapshots() {
	next, last := 0, ""
	for _, l := range s.lines {
		for ; next < len(s.marks) && s.marks[next].Sequence < l.Sequence; next++ {
			last = s.marks[next].Type
		}
		switch {
		case l.Reason == "snapshot" && last != typeStarted:
			s.violateLine(P6, l, "of a first list that was not announced")
		case l.Reason == "watch" && last != typeCompleted && last != typeGap:
			s.violateLine(P6, l, "seen by a watch, and the first list is not complete")
		}
	}
}

// checkPlaces checks that gaps stand where they belong: behind what was recovered, before what the list found, and
// before anything of a new history.
func (s *streamJudge) checkPlaces() {
	var last *mark // the newest gap before the line
	next, history := 0, 0
	for _, l := range s.lines {
		for ; next < len(s.gaps) && s.gaps[next].Sequence < l.Sequence; next++ {
			last = s.gaps[next]
		}
		switch {
		case l.History > history && (last == nil || last.history < l.History) && s.snapshotBefore(l) == nil:
			s.violateLine(P6, l, fmt.Sprintf("history %d begins without a gap before it", l.History))
		case l.Reason == "relist" && (last == nil || l.at >= 0 && s.stateOf(l).at().compare(last.to) > 0):
			s.violateLine(P6, l, "found by a list that no gap announces")
		case l.Reason == "recovered" && !s.judge.options.Prefix && !s.announced(next, l):
			s.violateLine(P6, l, "read back, and no gap follows")
		case l.Reason == "watch" && last != nil && l.at >= 0 && s.stateOf(l).at().compare(last.to) <= 0:
			s.violateLine(P6, l, "seen by a watch, and the gap before it says that nothing is known of it")
		}
		history = max(history, l.History)
	}
}

func (s *streamJudge) stateOf(l *line) State { return s.objects[l.key()].truth[l.at] }

// snapshotBefore finds a snapshot that belongs to a line's history.
func (s *streamJudge) snapshotBefore(l *line) *mark {
	for _, m := range s.marks {
		if m.Sequence < l.Sequence && m.Type == typeStarted && m.history == l.History {
			return m
		}
	}
	return nil
}

// announced reports whether one of the gaps from the next on goes as far as what was recovered.
func (s *streamJudge) announced(next int, l *line) bool {
	return slices.ContainsFunc(s.gaps[next:], func(m *mark) bool {
		return m.history > l.History || m.history == l.History && m.to.version >= l.version
	})
}
