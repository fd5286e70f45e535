// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// checkGaps checks where each gap begins and whether it is justified, and takes note of what it cost. A gap begins at
// the position from which a watch could not go on. That is never older than the newest list which was complete
// before: its version is stored before anything is watched behind it. What was watched since is stored once a second;
// so a gap may begin before what a process published right before it was killed.
func (s *streamJudge) checkGaps() {
	complete, listed := position{}, (*mark)(nil)
	next := 0
	for _, m := range s.marks {
		for ; next < len(s.lines) && s.lines[next].Place < m.Place; next++ {
			if s.lines[next].Reason == "watch" && listed != nil {
				complete = listed.to
			}
		}
		if m.body.N != 0 {
			continue
		}
		listed = m
		if m.Type != typeGap {
			if m.Type == typeCompleted {
				complete = m.to
			}
			continue
		}
		// A lost checkpoint takes the positions with it, and a stream that takes over several goes on from the oldest.
		if m.from.compare(complete) < 0 && m.body.Cause != CheckpointLost && !m.takesOver &&
			!s.judge.options.lostAt(m.Recorded) {
			s.violateMark(m, fmt.Sprintf("it begins at %d, and the log is complete up to %d", m.from.version, complete.version))
		}
		s.figure(m, next)
	}
}

// longestBehind is many times what the position may be behind the log, which is stored once a second.
const longestBehind = 5 * time.Second

// figure adds what a gap cost to the report, and asks whether it is justified. Before it stand lines up to the next
// one.
func (s *streamJudge) figure(m *mark, next int) {
	figure := GapFigure{
		Stream: s.stream, Place: m.Place, Epoch: m.epoch, From: m.from.version, To: m.to.version,
		Cause: m.body.Cause, Message: m.body.Message, At: m.Recorded,
		Hidden: m.hidden, Recovered: m.recovered, Avoidable: m.avoidable, Behind: s.behind(m, next),
	}
	s.judge.report.Gaps = append(s.judge.report.Gaps, figure)
	s.judge.report.Avoidable += m.avoidable
	limit := longestBehind
	if behind := s.judge.options.Behind; behind != nil {
		limit = max(limit, behind(figure))
	}
	if figure.Behind > limit && m.body.Cause != CheckpointLost && m.body.Cause != LogLost {
		s.violateMark(m, fmt.Sprintf("the gap begins before what the log had got %s earlier", figure.Behind))
	}
	if m.avoidable > 0 && m.saysAll() {
		s.violateMark(m, fmt.Sprintf("it says that all was read back, and etcd had %d states more", m.avoidable))
	}
	if why := s.judge.options.Gaps(figure); why != "" {
		s.violateMark(m, "a gap that is not justified: "+why)
	}
}

// readBack is what the message of a gap says of how much was read back.
var readBack = regexp.MustCompile(`(\d+) changes? (?:was|were) read back`)

// saysAll reports whether the message of a gap says that all was read back, and is about all that was. A process that
// dies while it reads back takes with it what it has not read.
func (m *mark) saysAll() bool {
	said := 0
	for _, found := range readBack.FindAllStringSubmatch(m.body.Message, -1) {
		n, _ := strconv.Atoi(found[1])
		said += n
	}
	return readBack.MatchString(m.body.Message) && said == m.recovered &&
		!strings.Contains(m.body.Message, "not completely")
}

// behind is [GapFigure.Behind]: since the position could pass the first state above the gap's beginning. It can when
// the log has that state, and something behind it was shown: several changes can have one version.
func (s *streamJudge) behind(m *mark, next int) time.Duration {
	first, had := s.firstAbove(m)
	if !had {
		return 0
	}
	var passed, last time.Time
	for _, o := range s.objects {
		for _, l := range o.lines {
			if l.Reason == "watch" && l.Place < m.Place && l.at >= 0 && o.truth[l.at].at().compare(first) > 0 &&
				(passed.IsZero() || l.Stored.Before(passed)) {
				passed = l.Stored
			}
		}
	}
	for _, l := range s.lines[:next] {
		if l.Reason == "watch" && l.Stored.After(last) {
			last = l.Stored
		}
	}
	if passed.IsZero() {
		return 0
	}
	return max(last.Sub(passed), 0)
}

// firstAbove returns the first state above a gap's beginning, and whether the log had it before the gap.
func (s *streamJudge) firstAbove(m *mark) (first position, had bool) {
	first = m.to
	for _, o := range s.objects {
		for i, st := range o.truth {
			if st.at().compare(m.from) > 0 && st.at().compare(first) < 0 {
				first = st.at()
				had = slices.ContainsFunc(o.lines, func(l *line) bool {
					return l.at == i && l.Reason == "watch" && l.Place < m.Place
				})
			}
		}
	}
	return first, had
}

// compactionLag is how late the recorder may know of a compaction, and how long after the list behind a gap the last
// state may have been read back.
const compactionLag = 2 * time.Second

// avoidable reports whether a state that a gap hides could still be read from etcd when the gap was announced, and
// the bridge could have known of it. Not so: what was created and deleted within the gap, as docs/event-reference.md
// says; comings and goings of a selection; what is folded; and the gaps of an etcd that was restored and of a log that
// was lost, behind which everything is listed and nothing is read back.
//
// The bridge may hide such states all the same: its reads are limited in number and time (source.Recovery), and it may
// lack permission. The gap's message has to say so. They are counted, for whoever limits how many there may be, and are
// a violation where the message says that all was read back.
func (s *streamJudge) avoidable(m *mark, o *object, i int) bool {
	st := o.truth[i]
	switch {
	case s.stream.LabelSelector != "", s.judge.options.Latest[s.stream]:
		return false
	case m.body.Cause != Expired, m.from.version == 0, m.from.history != m.to.history, !s.within(m, o, st):
		return false
	}
	replaced := m.to.version + 1
	if i+1 < len(o.truth) && o.truth[i+1].History == st.History {
		replaced = o.truth[i+1].Version
	}
	compacted := uint64(0)
	for _, c := range s.judge.truth.Compactions {
		if c.History == st.History && !c.At.After(m.Recorded.Add(compactionLag)) {
			compacted = c.Revision
		}
	}
	return replaced > compacted
}

// within reports whether the log had an object when a gap began, or it existed at the end.
func (s *streamJudge) within(m *mark, o *object, st State) bool {
	known, exists := false, false
	for _, l := range o.lines {
		if l.Place < m.Place && l.Reason != "recovered" {
			known = l.op != Deleted && l.UID == st.UID
		}
	}
	for _, other := range o.truth {
		if other.at().compare(m.to) <= 0 {
			exists = other.live() && other.UID == st.UID
		}
	}
	return known || exists
}
