// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// toAndFro is the schedule of an entry that is removed at version 10, certainly not read from 20 on, added at 30, and
// certainly read again from 40 on. A second of its time passes with each version.
func toAndFro() Schedule {
	read, not := []Stream{plain}, []Stream(nil)
	phase := func(version int, selections ...[]Stream) Phase {
		return Phase{Place: Place{Version: uint64(version)}, At: timeOf(version), Selections: selections}
	}
	return Schedule{
		{Selections: [][]Stream{read}},
		phase(10, read, not), phase(20, not), phase(30, not, read), phase(40, read),
	}
}

func timeOf(version int) time.Time { return now.Add(time.Duration(version) * time.Second) }

func TestStates_follow_what_is_selected_when(t *testing.T) {
	yes := map[string]string{"x": "yes"}
	selected := plain
	selected.LabelSelector = "x=yes"
	widened := toAndFro()
	widened[0].Selections, widened[4].Selections = [][]Stream{{selected}}, [][]Stream{{selected}}
	widened[1].Selections, widened[3].Selections = [][]Stream{{selected}, {plain}}, [][]Stream{{selected}, {plain}}
	widened[2].Selections = [][]Stream{{plain}}
	for name, c := range map[string]struct {
		schedule Schedule
		all      []Observation
		want     string
	}{
		"an entry removed and added": {
			toAndFro(),
			[]Observation{
				{UID: "a", Version: 5}, {UID: "a", Version: 15}, {UID: "a", Version: 25}, {UID: "a", Version: 45},
			},
			"added 5; updated 15?; deleted 20!; added 25?!; updated 45",
		},
		"an object that ends meanwhile": {
			toAndFro(),
			[]Observation{{UID: "a", Version: 5}, {UID: "a", Version: 25, Deleted: true}, {UID: "b", Version: 35}},
			"added 5; deleted 20!; added 35?",
		},
		"a selector dropped and given back": {
			widened, []Observation{
				{UID: "a", Version: 5}, {UID: "a", Version: 15}, {UID: "a", Version: 25}, {UID: "a", Version: 45, Labels: yes},
			}, "added 5?!; updated 15?; updated 25; deleted 40!; added 45",
		},
		"what the selector has is selected all the time": {
			widened,
			[]Observation{{UID: "a", Version: 5, Labels: yes}, {UID: "a", Version: 35, Labels: yes}},
			"added 5; updated 35",
		},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range c.all {
				c.all[i].Name = "x"
			}
			var got []string
			for _, st := range must.Get(statesIn(plain, c.schedule, c.all))(t)["x"] {
				text := string(st.Op) + " " + strconv.FormatUint(st.Version, 10)
				if st.Unclear {
					text += "?"
				}
				if st.Selects {
					text += "!"
				}
				got = append(got, text)
			}
			assert.Equal(t, c.want, strings.Join(got, "; "))
		})
	}
}

// What has been over for long when the entry is removed may be what the bridge had not read yet.
func TestCheck_needs_nothing_that_was_not_read_when_the_selection_ended(t *testing.T) {
	all := []Observation{{Name: "x", UID: "u1", Version: 6}, {Name: "x", UID: "u1", Version: 8, Deleted: true}}
	for name, c := range map[string]struct {
		schedule Schedule
		want     bool
	}{
		"it ends":           {toAndFro(), false},
		"it does not end":   {toAndFro()[:1], true},
		"it ends, perhaps":  {toAndFro().Forget(timeOf(5)), false},
		"it ended before":   {Schedule{{Selections: [][]Stream{nil}}, toAndFro()[0]}, true},
		"nothing is forgot": {toAndFro().Forget(timeOf(50)), false},
	} {
		t.Run(name, func(t *testing.T) {
			truth := &Truth{Histories: []History{{First: 1, Last: 1000}}, Schedule: c.schedule}
			truth.Streams = map[Stream]map[string][]State{plain: must.Get(statesIn(plain, c.schedule, all))(t)}
			log := []Entry{entryOf("snapshot-started 1", 1), entryOf("snapshot-completed 1", 2)}
			assert.Equal(t, c.want, len(Check(truth, log, Options{Gaps: AnyGap})) > 0)
		})
	}
}

// A stream was to say what is missing before what it has read back, and its entry was removed.
func TestCheck_knows_what_a_stream_has_not_come_to_say(t *testing.T) {
	all := []Observation{
		{Name: "x", UID: "u1", Version: 5}, {Name: "x", UID: "u1", Version: 6}, {Name: "x", UID: "u1", Version: 8},
	}
	begins := []string{"snapshot-started 1", "snapshot-completed 1", "added u1 5 watch", "updated u1 8 recovered"}
	for name, c := range map[string]struct {
		log  []string
		want bool
	}{
		"it retires":        {append(slices.Clone(begins), "deleted u1 8>12@2 deselected"), true},
		"it goes on":        {append(slices.Clone(begins), "updated u1 9 watch", "deleted u1 9>12@2 deselected"), false},
		"it says of it all": {append(slices.Clone(begins), "gap 5 8", "deleted u1 8>12@2 deselected"), true},
	} {
		t.Run(name, func(t *testing.T) {
			all := all
			if !c.want {
				all = append(slices.Clone(all), Observation{Name: "x", UID: "u1", Version: 9})
			}
			schedule := toAndFro()[:3]
			truth := &Truth{Histories: []History{{First: 1, Last: 1000}}, Schedule: schedule}
			truth.Streams = map[Stream]map[string][]State{plain: must.Get(statesIn(plain, schedule, all))(t)}
			var log []Entry
			for i, line := range c.log {
				log = append(log, entryOf(line, uint64(i+1)))
				log[i].Recorded = timeOf(13)
			}
			assert.Equal(t, c.want, len(Check(truth, log, Options{Gaps: AnyGap})) == 0)
		})
	}
}

// The log and the checkpoint were put back to what they were at 15, and what was selected then is selected again: they
// have no trace of what was between.
func TestCheck_knows_what_a_pipeline_has_forgotten(t *testing.T) {
	all := []Observation{{Name: "x", UID: "u1", Version: 5}, {Name: "x", UID: "u1", Version: 45}}
	for _, forgets := range []bool{false, true} {
		schedule := toAndFro()
		if forgets {
			schedule = schedule.Forget(timeOf(9))
		}
		truth := &Truth{Histories: []History{{First: 1, Last: 1000}}, Schedule: schedule}
		truth.Streams = map[Stream]map[string][]State{plain: must.Get(statesIn(plain, schedule, all))(t)}
		var log []Entry
		for i, line := range []string{
			"snapshot-started 1", "snapshot-completed 1", "added u1 5 watch", "updated u1 45 watch",
		} {
			log = append(log, entryOf(line, uint64(i+1)))
		}
		assert.Equal(t, forgets, len(Check(truth, log, Options{Gaps: AnyGap})) == 0, "forgets %v", forgets)
	}
}

// A line of these logs ends in the second in which the event was read.
func TestCheck_knows_what_is_selected_when(t *testing.T) {
	begins := []string{"snapshot-started 1 0", "snapshot-completed 1 0", "added u1 5 watch 5"}
	again := []string{
		"snapshot-started 35@3 35", "added u1 32@3 snapshot 35", "snapshot-completed 35@3 35", "updated u1 36@3 watch 36",
	}
	deselected, last := "deleted u1 5>12@2 deselected 13", "updated u1 45@3 watch 45"
	for name, c := range map[string]struct {
		log  []string
		want []Promise
	}{
		"it is ended and added": {slices.Concat(begins, []string{deselected}, again, []string{last}), nil},
		"it is also told of what it may be": {slices.Concat(
			begins, []string{"updated u1 11 watch 11", "deleted u1 11>12@2 deselected 13"}, again, []string{last},
		), nil},
		"it is ended, added, and ended before that is certain": {slices.Concat(begins, []string{
			deselected, "gap 12 14@3 selection 14", "added u1 11@3 relist 14", "deleted u1 11>14@4 deselected 15",
			"gap 14 35@5 selection 35", "added u1 32@5 relist 35", "updated u1 36@5 watch 36", "updated u1 45@5 watch 45",
		}), nil},
		"it is not ended": {slices.Concat(begins, []string{
			"gap 12 35@3 selection 35", "updated u1 32@3 relist 35", "updated u1 36@3 watch 36", last,
		}), []Promise{P2}},
		"it is told of although it is not selected": {slices.Concat(
			begins, []string{"updated u1 25 watch 25", "deleted u1 25>26@2 deselected 26"}, again, []string{last},
		), []Promise{P2}},
		"it is not added again": {slices.Concat(begins, []string{deselected}), []Promise{P1, P9}},
		"it is added again, and what follows is missing": {
			slices.Concat(begins, []string{deselected}, again), []Promise{P1, P3, P9},
		},
		"it is added again, and what came before that was certain is missing": {
			slices.Concat(begins, []string{deselected}, again[:3], []string{last}), []Promise{P3},
		},
		"it is ended too early": {
			slices.Concat(begins, []string{"deleted u1 5>8@2 deselected 7"}, again, []string{last}), []Promise{P5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var all []Observation
			for _, version := range []uint64{5, 11, 25, 32, 36, 45} {
				all = append(all, Observation{Name: "x", UID: "u1", Version: version})
			}
			truth := &Truth{Histories: []History{{First: 1, Last: 1000}}, Streams: map[Stream]map[string][]State{}}
			var log []Entry
			for i, line := range c.log {
				at := strings.LastIndexByte(line, ' ')
				log = append(log, entryOf(line[:at], uint64(i+1)))
				log[i].Recorded = timeOf(must.Get(strconv.Atoi(line[at+1:]))(t))
			}
			truth.Schedule = toAndFro()
			truth.Streams[plain] = must.Get(statesIn(plain, truth.Schedule, all))(t)
			broken := map[Promise]bool{}
			for _, v := range Check(truth, log, Options{Gaps: AnyGap}) {
				broken[v.Promise] = true
			}
			for _, p := range c.want {
				assert.Contains(t, broken, p)
			}
			if len(c.want) == 0 {
				assert.Empty(t, Check(truth, log, Options{Gaps: AnyGap}))
			}
		})
	}
}

// The log has an object as it was when it was selected again, and learns of its end from the next owner of the name.
// That end has the number of the state. It does not belong to a phase in which the selection is uncertain.
func TestCheck_knows_the_end_of_an_object_that_was_selected_again(t *testing.T) {
	truth := &Truth{Histories: []History{{First: 1, Last: 1000}}, Schedule: toAndFro()}
	truth.Streams = map[Stream]map[string][]State{plain: must.Get(statesIn(plain, truth.Schedule, []Observation{
		{Name: "x", UID: "u1", Version: 5},
		{Name: "x", UID: "u1", Version: 40, Deleted: true},
		{Name: "x", UID: "u2", Version: 42},
	}))(t)}
	var log []Entry
	for i, line := range []string{
		"snapshot-started 1 0", "snapshot-completed 1 0", "added u1 5 watch 5", "deleted u1 5>12@2 deselected 13",
		"snapshot-started 35@3 35", "added u1 5@3 snapshot 35", "snapshot-completed 35@3 35",
		"deleted u1 5>5@3 recovered 45", "added u2 42@3 recovered 45",
		"gap 35 43@3 expired 45",
	} {
		at := strings.LastIndexByte(line, ' ')
		log = append(log, entryOf(line[:at], uint64(i+1)))
		log[i].Recorded = timeOf(must.Get(strconv.Atoi(line[at+1:]))(t))
	}
	assert.Empty(t, Check(truth, log, Options{Gaps: AnyGap}))
}

// One of two streams has not told of a restored etcd yet when another selection joins them: the one that takes over
// does.
func TestCheck_lets_a_restoration_be_told_again_by_a_stream_that_takes_over(t *testing.T) {
	area := plain
	area.Namespace = "a"
	for name, c := range map[string]struct {
		teller Stream
		want   []Promise
	}{"by one that takes over": {plain, nil}, "by the same one": {area, []Promise{P6}}} {
		t.Run(name, func(t *testing.T) {
			states := []State{
				{UID: "u1", Version: 4, Op: Added},
				{UID: "u1", Version: 7, Op: Updated},
				{History: 1, UID: "u1", Version: 4, Op: Updated},
				{History: 1, UID: "u1", Version: 12, Op: Updated},
			}
			truth := &Truth{
				Histories: restored, Streams: map[Stream]map[string][]State{area: {"a/x": states}},
				Schedule: Schedule{
					{Selections: [][]Stream{{area}}},
					{Place: Place{History: 1, Version: 30}, At: now, Selections: [][]Stream{{area}, {plain}}},
				},
			}
			log := []Entry{
				markerOf(area, "snapshot-started", 1, 0, 1, ""), markerOf(area, "snapshot-completed", 1, 0, 1, ""),
				entryOf("added u1 4 watch", 0), entryOf("updated u1 7 watch", 0),
				markerOf(area, "gap", 2, 8, 13, Restored), entryOf("updated u1 12@2 relist", 0),
				markerOf(c.teller, "gap", 3, 8, 31, Restored), entryOf("updated u1 12@3 relist", 0),
			}
			for i := range log {
				if e := &log[i]; !e.mark() {
					e.Namespace, e.Subject, e.PartitionKey = "a", "a/x", keyOf(plain, "a", "x")
					e.Data = dataOf(plain, "a", "x", "u1", must.Get(strconv.ParseUint(e.ResourceVersion, 10, 64))(t))
				}
				log[i].Place = uint64(i + 1)
			}
			var broken []Promise
			for _, v := range Check(truth, log, Options{Gaps: AnyGap}) {
				broken = append(broken, v.Promise)
				if c.want == nil {
					t.Error(v)
				}
			}
			for _, p := range c.want {
				assert.Contains(t, broken, p)
			}
		})
	}
}
