// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// mark is a marker of the log.
type mark struct {
	*Entry
	// epoch is the marker's, and era the one of its stream that the epoch is in.
	epoch uint64
	era   int
	body  markBody
	// takesOver: it is the first of a stream that goes on where others were.
	takesOver bool
	// from and to are where the marker's range begins and ends in the truth; a snapshot has only to, a resync neither.
	// Said is the version of to in the marker.
	from, to                     position
	said                         uint64
	hidden, avoidable, recovered int
}

type markBody struct {
	Namespace     string `json:"namespace"`
	LabelSelector string `json:"labelSelector"`
	FieldSelector string `json:"fieldSelector"`
	// From, To, Cause, Message and Epoch are a gap's.
	From    string `json:"from"`
	To      string `json:"to"`
	Cause   Cause  `json:"cause"`
	Message string `json:"message"`
	Epoch   uint64 `json:"epoch"`
	// ResourceVersion is a snapshot's.
	ResourceVersion string `json:"resourceVersion"`
	// N is a resync's. Objects is there where a list has ended, Complete where a resync has.
	N        uint64 `json:"n"`
	Objects  *int   `json:"objects"`
	Complete *bool  `json:"complete"`
}

// Cause is why there is a gap.
type Cause string

// The causes.
const (
	Expired        Cause = "expired"
	Restored       Cause = "restored"
	Rebuilt        Cause = "rebuilt"
	LogLost        Cause = "log-lost"
	CheckpointLost Cause = "checkpoint-lost"
	Selection      Cause = "selection"
	ResourceGone   Cause = "resource-gone"
	Audit          Cause = "audit"
)

// Causes are all of them.
var Causes = []Cause{Expired, Restored, Rebuilt, LogLost, CheckpointLost, Selection, ResourceGone, Audit}

// bodyOfMark reads a marker's data. Data that has another form is reported as malformed elsewhere.
func bodyOfMark(e *Entry) (body markBody) {
	_ = json.Unmarshal(e.Data, &body)
	return body
}

func namespaceOf(e *Entry) string {
	if !e.mark() {
		return e.Namespace
	}
	return bodyOfMark(e).Namespace
}

// epochOf returns the epoch of a marker, as its id has it; 0 if that has another form.
func epochOf(e *Entry) uint64 {
	parts := strings.Split(e.ID, ".")
	if len(parts) != 4 {
		return 0
	}
	epoch, _ := strconv.ParseUint(parts[2], 10, 64)
	return epoch
}

// read checks a marker's form and returns what is wrong with it.
func (m *mark) read(s *streamJudge) error {
	from := json.NewDecoder(bytes.NewReader(m.Data))
	from.DisallowUnknownFields()
	if err := from.Decode(&m.body); err != nil {
		return fmt.Errorf("its data: %w", err)
	}
	if !s.scopes(m) || m.body.FieldSelector != "" {
		return fmt.Errorf("it is about the scope %q %q", m.body.Namespace, m.body.LabelSelector)
	}
	if m.Recorded.IsZero() {
		return errors.New("it does not say when it was recorded")
	}
	m.epoch = epochOf(m.Entry)
	kind := strings.TrimSuffix(strings.TrimPrefix(m.Type, typeStream), typeVersion)
	version, rest, err := m.of()
	if err != nil {
		return err
	}
	// A resync has the stream's position there, if anything, and not in its data.
	if m.ResourceVersion != version && (m.body.N == 0 || version != "") {
		return fmt.Errorf("its attribute resourceversion is %s, its data says %s", m.ResourceVersion, version)
	}
	of := Stream{Namespace: m.body.Namespace, LabelSelector: m.body.LabelSelector}
	if want := fmt.Sprintf("%s.%s.%d.%s", kind, of.scope(), m.epoch, rest); m.epoch == 0 || m.ID != want {
		return fmt.Errorf("its id is not %s", want)
	}
	if version == "" {
		return nil
	}
	m.to.version, err = strconv.ParseUint(version, 10, 64)
	return err
}

// of returns a marker's version, and the last part of its id.
func (m *mark) of() (version, id string, err error) {
	switch b := &m.body; m.Type {
	case typeGap:
		switch m.from.version, err = strconv.ParseUint(b.From, 10, 64); {
		case err != nil || b.To == "":
			return "", "", fmt.Errorf("it goes from %q to %q", b.From, b.To)
		case !slices.Contains(Causes, b.Cause):
			return "", "", fmt.Errorf("its cause is %q", b.Cause)
		case b.Message == "":
			return "", "", errors.New("it has no message")
		case b.Epoch != m.epoch:
			return "", "", fmt.Errorf("its data has the epoch %d", b.Epoch)
		}
		return b.To, b.From + "-" + b.To, nil
	case typeStarted, typeCompleted:
		if b.ResourceVersion == "" || (b.Objects != nil) != (m.Type == typeCompleted) {
			return "", "", errors.New("it has no version, or lacks its number of objects")
		}
		return b.ResourceVersion, b.ResourceVersion, nil
	default:
		if end := m.Type == typeResyncCompleted; b.N == 0 || (b.Objects != nil) != end || (b.Complete != nil) != end {
			return "", "", errors.New("it lacks n, its number of objects, or whether it is complete")
		}
		return b.ResourceVersion, strconv.FormatUint(b.N, 10), nil
	}
}

// readMarks checks the form of the markers and finds their places in the truth. Those that are malformed are left out.
func (s *streamJudge) readMarks() {
	var good []*mark
	current, epoch := 0, uint64(0)
	for _, m := range s.marks {
		if err := m.read(s); err != nil {
			s.violateMark(m, "a malformed marker: "+err.Error())
			continue
		}
		switch {
		case m.epoch < epoch:
			s.violateMark(m, fmt.Sprintf("its epoch is over: a marker before it has %d", epoch))
		case m.epoch > epoch && (m.body.Cause == Expired || m.body.N != 0):
			s.violateMark(m, "it begins an epoch, and nothing says why")
		}
		epoch = max(epoch, m.epoch)
		m.era = s.eraOf(m.epoch)
		if m.body.N != 0 {
			good = append(good, m)
			continue
		}
		low, high := s.span(m.era)
		m.from = s.locateBegin(m, good, min(current, low), high)
		if m.Type == typeGap {
			// A list behind a gap may be the first sign of a restoration: then the gap ends in a history that the log
			// does not know yet.
			high = min(high+1, len(s.judge.truth.Histories)-1)
		}
		m.said = m.to.version
		if m.body.Cause == LogLost {
			m.to.version = max(m.to.version, s.repaired(m.epoch))
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

// locateBegin finds the history among low to high that a marker begins in. A process that died behind a gap announces
// it again, with what its own list has; the gap begins where it began.
func (s *streamJudge) locateBegin(m *mark, before []*mark, low, high int) position {
	for _, b := range before {
		if b.Type == typeGap && b.epoch == m.epoch && b.body.Cause == m.body.Cause && b.body.From == m.body.From {
			return b.from
		}
	}
	return s.judge.truth.locate(low, high, m.from.version)
}

// locateEnd finds the history among low to high that a marker ends in. Where several have its version, because a
// restoration went unnoticed, it is the one that has the most of what the list behind the marker found; of equals the
// first.
func (s *streamJudge) locateEnd(m *mark, low, high int) position {
	next := uint64(math.MaxUint64)
	for _, other := range s.marks {
		if other.Place > m.Place && bodyOfMark(other.Entry).N == 0 {
			next = other.Place
			break
		}
	}
	behind := slices.DeleteFunc(slices.Clone(s.lines), func(l *line) bool {
		// The version of a deletion that a list found missing is an older one.
		return l.Place < m.Place || l.Place > next || l.op == Deleted ||
			l.Reason != "relist" && l.Reason != "repair"
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

// repaired returns the greatest version that the repair of an epoch tells. Its list is made when the gap is in the
// log, so that it may be newer than the gap says. A later repair ends what had that epoch.
func (s *streamJudge) repaired(epoch uint64) (version uint64) {
	for _, l := range s.lines {
		if l.Reason == "repair" && l.epoch == epoch && !s.taken(l) {
			version = max(version, l.version)
		}
	}
	return version
}

func (s *streamJudge) violateMark(m *mark, what string) {
	s.judge.violate(Violation{
		Promise: P6, Stream: s.stream.String(), What: what,
		Log: []string{m.String(), string(m.Data)},
	})
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
// that, unless it was read back: a gap does not excuse what was missing already. The newest state in a gap's range
// comes with the list behind the gap. If the process died before that, a later gap hides the state.
func (s *streamJudge) covers(o *object, i int, next *line) (found *mark) {
	p := o.truth[i].at()
	for _, m := range s.gaps {
		if m.body.Cause == Selection && o.truth[i].Selects { // what enters or leaves the selection is told
			continue
		}
		if m.from.compare(p) >= 0 || p.compare(m.to) > 0 ||
			next != nil && next.Place <= m.Place && next.Reason != "recovered" {
			continue
		}
		found = m
		if i+1 < len(o.truth) && o.truth[i+1].at().compare(m.to) <= 0 {
			break
		}
	}
	return found
}

// interval is a time in which nothing of a stream was selected: from the ends of its objects to the next snapshot.
type interval struct {
	from uint64
	to   *mark
}

// findPauses collects the times in which nothing of the stream was selected. Where no object was alive in the log no
// end tells when that began: it may have been right after the list before.
func (s *streamJudge) findPauses() {
	if len(s.judge.truth.Schedule) > 0 {
		return // it says more
	}
	ended, listed, next, alive := uint64(0), uint64(0), 0, map[string]struct{}{}
	for _, m := range s.marks {
		for ; next < len(s.lines) && s.lines[next].Place < m.Place; next++ {
			l := s.lines[next]
			key := l.Namespace + "/" + l.Name
			alive[key] = struct{}{}
			if l.op == Deleted {
				delete(alive, key)
			}
			if l.Reason == "deselected" {
				ended = max(ended, l.version)
			}
		}
		if m.Type != typeStarted {
			listed = m.to.version
			continue
		}
		if len(alive) == 0 && s.judge.options.Selected != nil {
			ended = max(ended, listed)
		}
		if ended > 0 {
			s.pauses = append(s.pauses, interval{ended, m})
		}
	}
}

// unselected reports whether a state was passed over while nothing of the stream was selected. Behind is what the log
// says next of the object.
func (s *streamJudge) unselected(st position, behind *line) bool {
	return slices.ContainsFunc(s.pauses, func(p interval) bool {
		return p.from < st.version && st.compare(p.to.to) <= 0 && (behind == nil || behind.Place > p.to.Place)
	})
}

// findGaps collects what may stand for missing states, and counts what was read back before each gap.
func (s *streamJudge) findGaps() {
	recovered, next := 0, 0
	for _, m := range s.marks {
		for ; next < len(s.lines) && s.lines[next].Place < m.Place; next++ {
			if s.lines[next].Reason == "recovered" {
				recovered++
			}
		}
		if m.Type == typeGap {
			m.recovered, recovered = recovered, 0
			s.gaps = append(s.gaps, m)
		}
	}
}

// findCut finds what was read back by a stream that retired before its list was complete: no gap, and nothing but
// deletions, stand between. Nothing tells then what was missing before.
func (s *streamJudge) findCut() {
	next := len(s.marks) - 1
	retires := false // the next line that was not read back is of a stream that retires
	for i := len(s.lines) - 1; i >= 0; i-- {
		l := s.lines[i]
		for ; next >= 0 && s.marks[next].Place > l.Place; next-- {
			retires = retires && s.marks[next].Type != typeGap
		}
		if l.Reason != "recovered" {
			retires = l.retires
		}
		l.cut = l.Reason == "recovered" && retires
	}
}

// checkSnapshots checks that what a first list shows stands between its markers, and that nothing is watched before
// it is complete. A gap takes the place of a snapshot that was lost.
func (s *streamJudge) checkSnapshots() {
	next, last := 0, ""
	for _, l := range s.lines {
		for ; next < len(s.marks) && s.marks[next].Place < l.Place; next++ {
			if s.marks[next].body.N == 0 {
				last = s.marks[next].Type
			}
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
// before anything of a new epoch.
func (s *streamJudge) checkPlaces() {
	var last *mark // the newest gap before the line
	next := 0
	for _, l := range s.lines {
		for ; next < len(s.gaps) && s.gaps[next].Place < l.Place; next++ {
			last = s.gaps[next]
		}
		switch {
		case l.retires, l.Reason == "relist" && s.judge.options.Refused != nil:
		case l.Reason == "relist" && (last == nil || l.at >= 0 && s.stateOf(l).at().compare(last.to) > 0):
			s.violateLine(P6, l, "found by a list that no gap announces")
		case l.Reason == "recovered" && !l.cut && !s.judge.options.Prefix && !s.announced(next, l):
			s.violateLine(P6, l, "read back, and no gap follows")
		case l.Reason == "watch" && last != nil && !l.again() && l.at >= 0 && s.stateOf(l).at().compare(last.to) <= 0:
			s.violateLine(P6, l, "seen by a watch, and the gap before it says that nothing is known of it")
		}
	}
}

func (s *streamJudge) stateOf(l *line) State { return s.objects[l.key()].truth[l.at] }

// announced reports whether one of the gaps from the next on goes as far as what was recovered.
func (s *streamJudge) announced(next int, l *line) bool {
	for _, m := range s.gaps[next:] {
		if m.era > l.era || m.era == l.era && m.to.version >= l.version {
			return true
		}
	}
	return false
}
