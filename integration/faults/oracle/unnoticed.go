// SPDX-License-Identifier: Apache-2.0

package oracle

import "slices"

// excuseUnnoticed looks at restorations that a stream could not notice, because nothing that the log has was undone by them. What was undone and not
// published is in no history that can still be read, and what a restored etcd has as before is not published again. A stream that was told of one by
// another stream, and had published something of the new history before, has no gap for what was undone: it did not know where its history had ended.
func (s *streamJudge) excuseUnnoticed() {
	for h := 1; h < len(s.judge.truth.Histories); h++ {
		if n := slices.Index(s.first[1:], h) + 1; n > 0 && (!s.unaware(h) || !s.wasEarly(n)) {
			continue
		}
		at := s.restoredAt(h)
		for _, o := range s.objects {
			o.excuse(h, at)
		}
	}
}

// unaware reports whether a stream could not notice by itself that history h began, at a version that its former history had passed: of what
// was undone the log has nothing.
func (s *streamJudge) unaware(h int) bool {
	histories := s.judge.truth.Histories
	if histories[h].First > histories[h-1].Last {
		return false
	}
	return !slices.ContainsFunc(s.lines, func(l *line) bool {
		return l.version > histories[h].First && s.has(h-1, l) && !s.has(h, l)
	})
}

// wasEarly reports whether a history of the log has something that only the next one should have.
func (s *streamJudge) wasEarly(next int) bool {
	h := s.first[next]
	return slices.ContainsFunc(s.lines, func(l *line) bool {
		return l.History < next && l.version > s.judge.truth.Histories[h].First && s.has(h, l) && !s.has(h-1, l)
	})
}

// restoredAt returns the version that history h was restored to, or the newest one of it that the stream can tell, where versions were bumped.
func (s *streamJudge) restoredAt(h int) (version uint64) {
	histories := s.judge.truth.Histories
	if histories[h].First <= histories[h-1].Last {
		return histories[h].First
	}
	for _, o := range s.objects {
		if i := o.begins(h); i >= 0 && o.before(i) >= 0 {
			version = max(version, o.truth[i].Version)
		}
	}
	return version
}

// begins returns the index of the first state of a history; -1 if it has none.
func (o *object) begins(h int) int {
	return slices.IndexFunc(o.truth, func(st State) bool { return st.History == h })
}

// before returns the index of the state of an earlier history that state i repeats; -1 if it repeats none.
func (o *object) before(i int) int {
	return slices.IndexFunc(o.truth[:i], func(st State) bool {
		return st.UID == o.truth[i].UID && st.Version == o.truth[i].Version && st.live() && o.truth[i].live()
	})
}

// excuse marks what need not be in a log of which nothing was undone by the restoration to a version that began history h.
func (o *object) excuse(h int, version uint64) {
	undone := func(st State) bool { return st.History == h-1 && st.Version > version }
	for i, st := range o.truth {
		if undone(st) && o.published[i] {
			return
		}
	}
	for i, st := range o.truth {
		o.excused[i] = o.excused[i] || undone(st)
	}
	for i, st := range o.truth {
		if st.History != h || st.Version > version {
			continue
		}
		// An end is that of an object which nobody was told of; what lives is as it was.
		o.excused[i] = o.excused[i] || !st.live() || o.repeats(i)
	}
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
