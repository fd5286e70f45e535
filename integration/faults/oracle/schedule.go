// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Phase is a time of which it is known what a pipeline selects, or may select.
type Phase struct {
	// Place is where it begins: what happened up to there is of the phase before. At is when that was.
	Place Place
	At    time.Time
	// Selections are what the pipeline may select, each as the streams that read it. Where there is one, it is certain
	// that the pipeline has begun to read that, and has ended what it read before.
	Selections [][]Stream
}

// Forget returns the schedule of a pipeline whose checkpoint and log have become what they were at a time: everything
// that it selected since may have been selected all the time.
func (sc Schedule) Forget(since time.Time) Schedule {
	first := slices.IndexFunc(sc, func(p Phase) bool { return p.At.After(since) })
	if first < 1 {
		return sc
	}
	unclear := Phase{Place: sc[first].Place, At: sc[first].At}
	for _, p := range sc[first-1:] {
		unclear.Selections = append(unclear.Selections, p.Selections...)
	}
	return append(slices.Clone(sc[:first]), unclear)
}

// Place is a place in what happened.
type Place struct {
	History int
	Version uint64
}

// Schedule says what a pipeline selects, in the order of its phases. The first one begins before everything. An empty
// schedule says that each stream selects what it says, always.
type Schedule []Phase

// alone is the schedule of a pipeline that has one stream.
func alone(s Stream) Schedule { return Schedule{{Selections: [][]Stream{{s}}}} }

// chooser decides whether a phase selects objects of an area.
type chooser [][]struct {
	namespace string
	labels    labels.Selector
}

func newChooser(area Stream, p Phase) (chooser, error) {
	c := make(chooser, len(p.Selections))
	for i, selection := range p.Selections {
		for _, s := range selection {
			if !area.shares(s) {
				continue
			}
			selector, err := labels.Parse(s.LabelSelector)
			if err != nil {
				return nil, fmt.Errorf("parse selector of %s: %w", s, err)
			}
			c[i] = append(c[i], struct {
				namespace string
				labels    labels.Selector
			}{s.Namespace, selector})
		}
	}
	return c, nil
}

// takes reports whether one of the selections has an object, and whether not all have it.
func (c chooser) takes(o *Observation) (is, unclear bool) {
	n := 0
	for _, selection := range c {
		for _, s := range selection {
			if (s.namespace == "" || s.namespace == o.Namespace) && s.labels.Matches(labels.Set(o.Labels)) {
				n++
				break
			}
		}
	}
	return n > 0, n > 0 && n < len(c)
}

// shares reports whether two streams may have objects in common, or could but for their selectors.
func (s Stream) shares(o Stream) bool {
	return s.Resource.GroupResource() == o.Resource.GroupResource() &&
		(s.Namespace == "" || o.Namespace == "" || s.Namespace == o.Namespace)
}

// narrator works out the states of the objects of an area.
type narrator struct {
	area     Stream
	choosers []chooser
	schedule Schedule
	phase    int
	states   map[string][]State
	exists   map[string]*Observation
	// gone are the last states of objects that are deleted.
	gone map[string]*Observation
}

// statesIn is [States] of an area whose selection changes. What enters the selection is added with the state that it
// has, and what leaves it is ended.
func statesIn(area Stream, schedule Schedule, all []Observation) (map[string][]State, error) {
	n := narrator{
		area: area, schedule: schedule, states: map[string][]State{}, exists: map[string]*Observation{},
		gone: map[string]*Observation{},
	}
	for _, p := range schedule {
		c, err := newChooser(area, p)
		if err != nil {
			return nil, err
		}
		n.choosers = append(n.choosers, c)
	}
	for i := range all {
		if o := &all[i]; area.Namespace == "" || area.Namespace == o.Namespace {
			n.advance(position{o.History, o.Version})
			n.observe(o)
		}
	}
	n.advance(position{len(all), 0}) // behind all histories
	return n.states, nil
}

// advance has the phases begin that begin before a place.
func (n *narrator) advance(to position) {
	for n.phase+1 < len(n.schedule) {
		begins := n.schedule[n.phase+1].Place
		if (position{begins.History, begins.Version}).compare(to) >= 0 {
			return
		}
		before := n.choosers[n.phase]
		n.phase++
		for key, o := range n.gone {
			is, unclear := n.choosers[n.phase].takes(o)
			if last := len(n.states[key]) - 1; last >= 0 && (!is || unclear) {
				n.states[key][last].Left = true
			}
		}
		for _, key := range sortedKeys(n.exists) {
			o := n.exists[key]
			was, _ := before.takes(o)
			is, unclear := n.choosers[n.phase].takes(o)
			st := State{UID: o.UID, Body: o.Body, Phase: n.phase, Unclear: unclear, Selects: true}
			switch {
			case was && !is:
				st.History, st.Version, st.Op = begins.History, begins.Version, Deleted
			case is && !was:
				st.History, st.Version, st.Op = o.History, o.Version, Added
			default:
				continue
			}
			n.states[key] = append(n.states[key], st)
		}
	}
}

func (n *narrator) observe(o *Observation) {
	key := o.key()
	is, unclear := false, false
	before := n.exists[key]
	if before != nil {
		_, unclear = n.choosers[n.phase].takes(before)
	}
	if delete(n.exists, key); o.Deleted && before != nil {
		n.gone[key] = before
	}
	if !o.Deleted {
		delete(n.gone, key)
		n.exists[key] = o
		is, unclear = n.choosers[n.phase].takes(o)
	}
	had := len(n.states[key])
	next := follow(n.states[key], o, is)
	if next == nil {
		return
	}
	for i := had; i < len(next); i++ {
		next[i].Phase, next[i].Unclear = n.phase, unclear
	}
	n.states[key] = next
}

// unclearly reports whether a state need not be in the log because of what was selected when. Alive says whether the
// log has the object then. The log need not have a state that may not have been selected, and that was over before that
// was certain. Nor need it have a state that the bridge had not read when the selection ended the object, or
// would have ended it.
func (o *object) unclearly(i int, alive bool) bool {
	st := o.truth[i]
	switch {
	case !st.live() && alive:
		return false
	case !st.live() && (st.Selects || st.Unclear || i > 0 && o.truth[i-1].Unclear):
		return true
	case st.live() && st.Unclear && i+1 < len(o.truth) && o.truth[i+1].Phase == st.Phase:
		return true
	}
	for j := i; j < len(o.truth); j++ {
		next := o.truth[j]
		switch {
		case next.Left, j > i && !next.live() && (next.Selects || next.Unclear):
			return true
		case j > i && o.published[j]:
			return false
		}
	}
	return false
}

// floor returns the index behind the last end by which an object was not selected before an event was read. An event
// that is read after the object was selected again is at least of the phase behind that of the end.
func (s *streamJudge) floor(o *object, l *line) int {
	schedule := s.judge.truth.Schedule
	for i := len(o.truth) - 1; i >= 0; i-- {
		st := o.truth[i]
		if st.Selects && !st.live() && st.Phase+1 < len(schedule) && schedule[st.Phase+1].At.Before(l.Recorded) {
			return i + 1
		}
	}
	return 0
}

// arrival is where a state came to be selected.
func (sc Schedule) arrival(st State) position {
	if !st.Selects {
		return st.at()
	}
	return position{sc[st.Phase].Place.History, sc[st.Phase].Place.Version}
}

// scopes reports whether a marker may be about the stream: it is of the stream itself, or of one in the schedule.
func (s *streamJudge) scopes(m *mark) bool {
	is := func(o Stream) bool {
		return o.Namespace == m.body.Namespace && o.LabelSelector == m.body.LabelSelector
	}
	if len(s.judge.truth.Schedule) == 0 {
		return is(s.stream)
	}
	return slices.ContainsFunc(s.judge.truth.Schedule, func(p Phase) bool {
		return slices.ContainsFunc(p.Selections, func(selection []Stream) bool {
			return slices.ContainsFunc(selection, func(o Stream) bool { return s.stream.shares(o) && is(o) })
		})
	})
}

// sources returns the sources that entries may have of the streams that are judged, with one stream of each.
func (j *judge) sources() map[string]Stream {
	all := map[string]Stream{}
	for _, s := range j.streams {
		if all[s.stream.Source()] = s.stream; len(j.truth.Schedule) == 0 {
			continue
		}
		for _, p := range j.truth.Schedule {
			for _, selection := range p.Selections {
				for _, o := range selection {
					if s.stream.shares(o) {
						all[o.Source()] = s.stream
					}
				}
			}
		}
	}
	return all
}

// mayEnd reports whether a deletion may say that its object is not selected any more: a phase has begun before in which
// the stream may select other objects than at first.
func (s *streamJudge) mayEnd(l *line) bool {
	if len(s.judge.truth.Schedule) == 0 {
		return s.judge.options.Selected != nil
	}
	return slices.ContainsFunc(s.judge.truth.Schedule[1:], func(p Phase) bool {
		return !p.At.After(l.Recorded.Add(clockStep)) && len(p.Selections) > 1
	})
}

// clockStep is by how much the time that an event says may be rounded.
const clockStep = time.Second

// endOf returns the index of the end by which the truth says that an object is not selected any more, for an event that
// says so; -1 if there is none from the previous state on.
func (s *streamJudge) endOf(o *object, l *line, previous int) int {
	for i := max(previous, 0); i < len(o.truth); i++ {
		st := o.truth[i]
		if st.Selects && !st.live() && st.UID == l.UID {
			// An object that was told of again before the phase began was selected again, and ended again.
			schedule := s.judge.truth.Schedule
			again := l.nth+1 < len(o.lines) && o.lines[l.nth+1].Recorded.Before(schedule[st.Phase].At)
			if again || schedule[st.Phase-1].At.After(l.Recorded.Add(clockStep)) {
				return -1
			}
			return i
		}
	}
	return -1
}

// retired reports whether a deletion is one of a stream that is not read any more, under a number of its own: of an
// object that is not selected, or that has gone meanwhile.
func (s *streamJudge) retired(l *line) bool {
	if l.op != Deleted || l.Reason != "deselected" && l.Reason != "relist" || !s.mayEnd(l) {
		return false
	}
	if l.Reason == "deselected" {
		return true
	}
	epoch := uint64(0)
	for _, m := range s.marks {
		if m.Place > l.Place {
			break
		}
		epoch = max(epoch, epochOf(m.Entry))
	}
	return l.epoch > epoch
}

// resourceOf returns an event's resource, in the version that its source has.
func (s *streamJudge) resourceOf(l *line) schema.GroupVersionResource {
	of := s.stream.Resource
	if parts := strings.Split(l.Source, "/"); len(parts) > 1 {
		of.Version = parts[len(parts)-2]
	}
	return of
}
