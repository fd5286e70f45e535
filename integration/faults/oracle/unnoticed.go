// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"slices"

	"k8s.io/client-go/kubernetes/scheme"
)

// excuseUnnoticed looks at restorations that a stream could not notice, because nothing that the log has was undone by
// them. What was undone and not published is in no history that can still be read, and what a restored etcd has as
// before is not published again. A stream that comes to know of one later, and whose position had moved in the new
// history before, has no gap for what was undone: it did not know where its history had ended.
func (s *streamJudge) excuseUnnoticed() {
	for h := 1; h < len(s.judge.truth.Histories); h++ {
		n := slices.IndexFunc(s.eras[1:], func(e era) bool { return e.first == h && !e.snapshot }) + 1
		if n > 0 && (!s.unaware(h, true) || !s.hadMoved(n)) {
			continue
		}
		at, first := s.restoredAt(h), s.firstEarly(n)
		alike := s.alike(h) || first > 0
		for _, o := range s.objects {
			counted, undone := o.excuse(h, at, first, alike)
			s.judge.report.Alike += counted
			s.judge.report.Undone += undone
		}
	}
}

// unaware reports whether a stream could not notice by itself that history h began, at a version that its former
// history had passed: of each object of which the log has a state that was undone, h has the last such version too,
// with whatever content. A stream knows of each object that exists the version that it has published last. It looks for
// no object that it has published the end of.
//
// If the stream was told later, it may have looked late: h, and the object, may have passed by then what the log had.
// An object that has a version in h behind the former history only had shown the restoration to whoever looked before.
func (s *streamJudge) unaware(h int, told bool) bool {
	histories := s.judge.truth.Histories
	if histories[h].First > histories[h-1].Last {
		return false
	}
	for _, o := range s.objects {
		for _, l := range slices.Backward(o.lines) {
			if l.version > histories[h].First && s.has(h-1, l) {
				to := l.version
				if told {
					to = histories[h-1].Last
				}
				if l.op != Deleted && !o.lives(h, l.UID, l.version, to) && !s.forgotten(h, o, l) {
					return false
				}
				break
			}
		}
	}
	return true
}

// forgotten reports whether a history was compacted beyond an entry's version, and its object was gone by then. No read
// at that version shows the restoration any more, and for a list the object was deleted.
func (s *streamJudge) forgotten(h int, o *object, l *line) bool {
	for _, c := range s.judge.truth.Compactions {
		if c.History == h && c.Revision > l.version && !o.livesAt(h, l.UID, c.Revision) {
			return true
		}
	}
	return false
}

// livesAt reports whether an object of a uid exists in a history at a version.
func (o *object) livesAt(history int, uid string, version uint64) (lives bool) {
	for _, st := range o.truth {
		if st.History == history && st.UID == uid && st.Version <= version {
			lives = st.live()
		}
	}
	return lives
}

// alike reports whether no stream that tells this one could notice that history h began: then an object that has in h
// the version which the log has of it, and another content, is as the log has it for whoever knows versions only.
// Custom resources tell no other stream: their API server may have versions of its own.
func (s *streamJudge) alike(h int) bool {
	return !slices.ContainsFunc(s.judge.streams, func(other *streamJudge) bool {
		return (other == s || scheme.Scheme.IsGroupRegistered(other.stream.Resource.Group)) && !other.unaware(h, false)
	})
}

// lives reports whether an object of a uid lives in a history at a version from one up to another.
func (o *object) lives(history int, uid string, from, to uint64) bool {
	return slices.ContainsFunc(o.truth, func(st State) bool {
		return st.History == history && st.UID == uid && st.live() && st.Version >= from && st.Version <= to
	})
}

// in returns the index of the state of a history that has the uid and the version of another one and is as alive; -1 if
// there is none.
func (o *object) in(history int, as State) int {
	return slices.IndexFunc(o.truth, func(st State) bool {
		return st.History == history && st.UID == as.UID && st.Version == as.Version && st.live() == as.live()
	})
}

// hadMoved reports whether a stream's position may have been one of the next era already when the gap of that began:
// events move it, and so do bookmarks, of which the log shows nothing. A list that is older than the position does not
// allow it.
func (s *streamJudge) hadMoved(next int) bool {
	return slices.ContainsFunc(s.marks, func(m *mark) bool {
		return m.Type == typeGap && m.epoch == s.eras[next].epoch && m.said >= m.from.version
	})
}

// firstEarly returns up to which version a watch shows nothing of the history of the next era: it began at a version of
// the history before, and showed something of the new one before another stream told of that. It is 0 where there is no
// next era, or nothing of the kind.
func (s *streamJudge) firstEarly(next int) (first uint64) {
	if next == 0 {
		return 0
	}
	h := s.eras[next].first
	for _, l := range s.lines {
		early := l.era < next && l.version > s.judge.truth.Histories[h].First && s.has(h, l) && !s.has(h-1, l)
		if early && (first == 0 || l.version < first) {
			first = l.version
		}
	}
	return min(first, s.judge.truth.last(h-1)+1)
}

// restoredAt returns the version that history h was restored to, or the newest one of it that the stream can tell,
// where versions were bumped.
func (s *streamJudge) restoredAt(h int) (version uint64) {
	histories := s.judge.truth.Histories
	if histories[h].First <= histories[h-1].Last {
		return histories[h].First
	}
	for _, o := range s.objects {
		if i := o.begins(h); i >= 0 && o.stateBefore(i) >= 0 {
			version = max(version, o.truth[i].Version)
		}
	}
	return version
}

// begins returns the index of the first state of a history; -1 if it has none.
func (o *object) begins(h int) int {
	return slices.IndexFunc(o.truth, func(st State) bool { return st.History == h })
}

// stateBefore returns the index of the state of an earlier history that state i repeats; -1 if it repeats none.
func (o *object) stateBefore(i int) int {
	return slices.IndexFunc(o.truth[:i], func(st State) bool {
		return st.UID == o.truth[i].UID && st.Version == o.truth[i].Version && st.live() && o.truth[i].live()
	})
}

// excuse marks what the log need not have because of the restoration to a version that began history h. Alike says that
// no version showed the restoration in time. Then two things of h are excused and counted: what an object went through
// up to the last version that was published and undone, if h has that version too; and what lies below first, up to
// which a watch showed nothing of h. What was undone and never published is excused, and counted apart.
func (o *object) excuse(h int, version, first uint64, alike bool) (counted, before int) {
	undone := func(st State) bool { return st.History == h-1 && st.Version > version }
	last, twin := o.lastPublished(undone), -1
	if last >= 0 {
		if !alike {
			return 0, 0
		}
		twin = o.in(h, o.truth[last])
	}
	for i, st := range o.truth {
		if !o.excused[i] && undone(st) && i > last {
			o.excused[i] = true
			before++
		}
	}
	for i, st := range o.truth {
		switch {
		case st.History != h || o.excused[i]:
		case st.Version <= version:
			// An end is that of an object of which no stream was told; what lives is as it was.
			o.excused[i] = !st.live() || o.repeats(i)
		case i <= twin, st.Version < first && !o.published[i]:
			o.excused[i], o.alike = true, o.alike || i <= twin
			counted++
		}
	}
	return counted, before
}

// lastPublished returns the index of the last state of some that the log has; -1 if it has none.
func (o *object) lastPublished(some func(State) bool) int {
	last := -1
	for i, st := range o.truth {
		if o.published[i] && some(st) {
			last = i
		}
	}
	return last
}

// repeats reports whether state i repeats one of an earlier history that the log has, or need not have.
func (o *object) repeats(i int) bool {
	for j, st := range o.truth[:i] {
		if st.UID == o.truth[i].UID && st.Version == o.truth[i].Version && st.live() && (o.published[j] || o.excused[j]) {
			return true
		}
	}
	return false
}
