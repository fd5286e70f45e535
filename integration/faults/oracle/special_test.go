// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// script is a truth and a log, one thing at a time. A log's line is "added u1 5 watch". Behind the version stand, in
// this order, the version of the list that found an end, the epoch if it is not 1, and suffixes of the id: "5>8@2.r1".
// At the end of a line, "=a" is what was written. A marker is "gap 5 9@2 restored", "snapshot-started 5" or
// "resync-started 7".
type script struct {
	// truth is what the object "x" went through: "added u1 5", with "h1" in front in a later history, of which bounds
	// has the versions.
	truth   []string
	bounds  []History
	holes   []Hole
	log     []string
	options Options
	want    []Promise
}

func (s script) build(t *testing.T) (*Truth, []Entry) {
	t.Helper()
	var states []State
	for _, line := range s.truth {
		st := State{}
		if strings.HasPrefix(line, "h") {
			st.History, _ = strconv.Atoi(line[1:2])
			line = line[3:]
		}
		require.NoError(t, must.Err(fmt.Sscan(line, &st.Op, &st.UID, &st.Version)), line)
		if _, change, there := strings.Cut(line, "="); there {
			st.Body = change
		}
		states = append(states, st)
	}
	if s.bounds == nil {
		s.bounds = []History{{First: 1, Last: 1000}}
	}
	truth := &Truth{Histories: s.bounds, Holes: s.holes, Streams: map[Stream]map[string][]State{plain: {"x": states}}}
	var lines []string
	for i, line := range s.log {
		lines = append(lines, line)
		version, started := strings.CutPrefix(line, "snapshot-started ")
		if started && i+1 < len(s.log) && !strings.Contains(s.log[i+1], "snapshot") {
			lines = append(lines, "snapshot-completed "+version) // most have an empty one
		}
	}
	var log []Entry
	for i, line := range lines {
		log = append(log, entryOf(line, uint64(i+1)))
	}
	return truth, log
}

func entryOf(line string, place uint64) Entry {
	line, change, _ := strings.Cut(line, "=")
	f := strings.Fields(line)
	last := 2
	if strings.Contains(f[0], "-") {
		last = 1
	}
	version, suffix, _ := strings.Cut(f[last], ".")
	if suffix != "" {
		suffix = "." + suffix
	}
	version, in, _ := strings.Cut(version, "@")
	n := numbers{epoch: 1}
	if in != "" {
		n.epoch, _ = strconv.ParseUint(in, 10, 64)
	}
	version, list, missing := strings.Cut(version, ">")
	n.version, _ = strconv.ParseUint(version, 10, 64)
	if f[0] == "gap" || last == 1 {
		from, _ := strconv.ParseUint(f[1], 10, 64)
		cause := Expired
		if len(f) > 3 {
			cause = Cause(f[3])
		}
		e := markerOf(plain, f[0], n.epoch, from, n.version, cause)
		e.Place = place
		return e
	}
	e := Entry{
		Place: place, Source: plain.Source(), ResourceVersion: version, SampledRate: 1, Body: change, Subject: "x",
		PartitionKey: keyOf(plain, "", "x"), Name: "x", UID: f[1], Reason: f[3], Type: typeResource + f[0] + typeVersion,
		Data: dataOf(plain, "", "x", f[1], n.version), Recorded: now,
	}
	if f[0] == "deleted" {
		n.step = stepEnd
	}
	if missing {
		n.version, _ = strconv.ParseUint(list, 10, 64)
	}
	e.number(n, suffix)
	e.MsgID = ""
	if len(f) > 4 {
		e.SampledRate, _ = strconv.Atoi(f[4])
	}
	if strings.HasSuffix(suffix, ".rejected") {
		e.Data = []byte(`{"type":"` + e.Type + `","error":"too large","size":9}`)
		e.Type = typeRejected
	}
	return e
}

func always(Stream, string) bool { return true }
func never(Stream, string) bool  { return false }

// now is when everything was recorded.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// refuses is for [Options.Refused].
func refuses(may bool) func(*Entry) bool { return func(*Entry) bool { return may } }

// refusesUntil is for [Options.RefusedState].
func refusesUntil(version uint64) func(State) bool {
	return func(st State) bool { return st.Version <= version }
}

var restored = []History{{First: 1, Last: 20}, {First: 5, Last: 1000}}

var scripts = map[string]script{
	"folding is allowed in latest mode": {
		truth: []string{
			"added u1 5", "updated u1 6", "updated u1 7", "deleted u1 9",
		}, options: Options{Latest: map[Stream]bool{plain: true}},
		log: []string{"snapshot-started 1", "added u1 7 watch 3", "deleted u1 9 watch"},
	},
	"in latest mode an event says how many changes it stands for": {
		truth: []string{
			"added u1 5", "updated u1 6", "updated u1 7", "deleted u1 9",
		}, options: Options{Latest: map[Stream]bool{plain: true}},
		log: []string{"snapshot-started 1", "added u1 7 watch 2", "deleted u1 9 watch"}, want: []Promise{P3},
	},
	"in latest mode what a gap hides may be counted or not": {
		truth: []string{
			"added u1 5", "updated u1 6", "updated u1 7", "updated u1 9",
		}, options: Options{Latest: map[Stream]bool{plain: true}},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 5 7", "updated u1 9 watch 2"},
	},
	"in latest mode what was read back may stand for several where the log was cut off before its gap": {
		truth: []string{
			"added u1 5", "updated u1 6", "updated u1 7",
		}, options: Options{Latest: map[Stream]bool{plain: true}, Prefix: true},
		log: []string{"snapshot-started 1", "added u1 7 recovered 3"},
	},
	"in latest mode the last state is not folded away": {
		truth: []string{
			"added u1 5", "updated u1 6", "updated u1 7",
		}, options: Options{Latest: map[Stream]bool{plain: true}},
		log: []string{"snapshot-started 1", "added u1 6 watch 2"}, want: []Promise{P1},
	},
	"in latest mode a deletion is not folded away": {
		truth: []string{"added u1 5", "deleted u1 6", "added u2 7"}, options: Options{Latest: map[Stream]bool{plain: true}},
		log: []string{"snapshot-started 1", "added u1 5 watch", "added u2 7 watch"}, want: []Promise{P2},
	},
	"an object that existed is published where a snapshot is": {
		truth: []string{"added u1 1"}, log: nil, want: []Promise{P1},
	},
	"a snapshot that was cut short begins again": {
		truth: []string{"added u1 5", "updated u1 6", "deleted u1 7", "added u2 9"},
		log: []string{
			"snapshot-started 5", "added u1 5 snapshot", "snapshot-started 9", "deleted u1 5 snapshot",
			"added u2 9 snapshot", "snapshot-completed 9",
		},
	},
	"a snapshot has everything that exists": {
		truth: []string{"added u1 5", "updated u1 9"},
		log:   []string{"snapshot-started 6", "snapshot-completed 6", "added u1 9 watch"}, want: []Promise{P3},
	},
	"a deletion that a return hides is missed": {
		truth: []string{"added u1 5", "deleted u1 6", "added u1 7"},
		log:   []string{"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch"}, want: []Promise{P2},
	},
	"a gap is justified": {
		truth: []string{"added u1 5", "updated u1 7"}, options: Options{Gaps: noGaps}, want: []Promise{P6},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 5 7", "updated u1 7 relist"},
	},
	"a gap does not end before it begins": {
		truth: []string{
			"added u1 5",
		}, log: []string{"snapshot-started 1", "added u1 5 watch", "gap 9 7"}, want: []Promise{P6},
	},
	"a second snapshot does not excuse what is missing": {
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7"},
		log: []string{
			"snapshot-started 5", "added u1 5 snapshot", "snapshot-completed 5", "snapshot-started 7",
			"updated u1 7 snapshot", "snapshot-completed 7",
		},
		want: []Promise{P3},
	},
	"a log that lost its end is repaired": {
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7", "updated u1 8"}, options: Options{LogLost: now},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 5 7@2 log-lost", "resync-started 9@2", "updated u1 7@2 repair",
			"resync-completed 9@2", "updated u1 8@2 watch",
		},
	},
	"a gap may begin below what a log had that was lost before": {
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7"}, options: Options{LogLost: now},
		log: []string{
			"snapshot-started 5", "snapshot-completed 5", "added u1 5 watch", "updated u1 6 watch", "gap 2 7",
			"updated u1 7 relist",
		},
	},
	"a gap does not begin below what a log had that was lost later": {
		truth:   []string{"added u1 5", "updated u1 6", "updated u1 7"},
		options: Options{LogLost: now.Add(time.Minute)}, want: []Promise{P6},
		log: []string{
			"snapshot-started 5", "snapshot-completed 5", "added u1 5 watch", "updated u1 6 watch", "gap 2 7",
			"updated u1 7 relist",
		},
	},
	"a log that was deleted is repaired, and an end as well": {
		truth: []string{"added u1 5", "updated u1 6", "deleted u1 7"}, options: Options{LogLost: now},
		log: []string{"gap 0 7@2 log-lost", "resync-started 9@2", "deleted u1 6>8@2 repair", "resync-completed 9@2"},
	},
	"a repair that begins again publishes again": {
		truth: []string{"added u1 5"}, options: Options{LogLost: now},
		log: []string{
			"gap 5 7@2 log-lost", "resync-started 8@2", "added u1 5@2 repair", "resync-started 9@2",
			"added u1 5@2.r9 repair", "resync-completed 9@2",
		},
	},
	"a lost log does not show that etcd was restored": {
		truth: []string{"added u1 4", "updated u1 7", "h1 updated u1 4", "h1 updated u1 8"}, bounds: restored,
		options: Options{LogLost: now}, log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 7 watch", "gap 7 9@2 log-lost", "resync-started 9@2",
			"updated u1 8@2 repair", "resync-completed 9@2",
		},
	},
	"a restoration takes over a repair that is not complete": {
		truth: []string{"added u1 4", "updated u1 7", "h1 updated u1 8"}, bounds: restored,
		options: Options{LogLost: now}, log: []string{
			"gap 0 7@2 log-lost", "resync-started 8@2", "added u1 7@2 repair", "gap 0 8@3 restored", "resync-started 9@3",
			"updated u1 8@3 repair", "resync-completed 9@3",
		},
	},
	"a restoration repairs nothing that is repaired already": {
		truth: []string{"added u1 4", "updated u1 7", "h1 updated u1 8"}, bounds: restored, want: []Promise{P6},
		options: Options{LogLost: now}, log: []string{
			"gap 0 7@2 log-lost", "resync-started 8@2", "added u1 7@2 repair", "resync-completed 8@2", "gap 7 8@3 restored",
			"resync-started 9@3", "updated u1 8@3 repair", "resync-completed 9@3",
		},
	},
	"a repair ends what the lost log had of a restoration that it did not show": {
		truth: []string{"added u1 4", "h1 updated u1 6", "h1 deleted u1 7", "h1 added u2 8"}, bounds: restored,
		options: Options{LogLost: now}, log: []string{
			"gap 0 8@2 log-lost", "resync-started 9@2", "deleted u1 7.r9 repair", "added u2 8@2 repair", "resync-completed 9@2",
		},
	},
	"a stream that retires ends again what the log has lost the end of": {
		truth: []string{"added u1 5", "deleted u1 7"}, options: Options{LogLost: now},
		log: []string{
			"snapshot-started 5", "added u1 5 snapshot", "snapshot-completed 5", "deleted u1 7 watch", "deleted u1 7.r9 relist",
		},
	},
	"a stream that retires ends nothing again that the log has not lost": {
		truth: []string{"added u1 5", "deleted u1 7"}, options: Options{LogLost: now.Add(time.Minute)},
		log: []string{
			"snapshot-started 5", "added u1 5 snapshot", "snapshot-completed 5", "deleted u1 7 watch", "deleted u1 7.r9 relist",
		},
		want: []Promise{P5},
	},
	"a repair's list may be newer than its gap says": {
		truth: []string{"added u1 5", "updated u1 7", "updated u1 8"}, options: Options{LogLost: now}, log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 5 6@2 log-lost", "resync-started 9@2", "updated u1 8@2 repair",
			"resync-completed 9@2",
		},
	},
	"a repair ends with its old number what another object has followed": {
		truth: []string{"added u1 5", "deleted u1 6", "added u2 7"}, options: Options{LogLost: now}, log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 5 8@2 log-lost", "resync-started 9@2", "deleted u1 5>5 repair",
			"added u2 7@2 repair", "resync-completed 9@2",
		},
	},
	"a second repair does not count what it ends by the number of the first one": {
		truth:   []string{"added u1 5", "updated u1 6", "updated u1 7", "updated u1 8", "deleted u1 9", "added u2 10"},
		options: Options{LogLost: now}, log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 5 6@2 log-lost", "resync-started 8@2", "updated u1 6@2 repair",
			"resync-completed 8@2", "updated u1 7@2 watch", "updated u1 8@2 watch", "gap 8 10@3 log-lost", "resync-started 9@3",
			"deleted u1 8>8@2 repair", "added u2 10@3 repair", "resync-completed 9@3",
		},
	},
	"a repair ends with its own number what nothing has followed": {
		truth: []string{"added u1 5", "deleted u1 6"}, options: Options{LogLost: now}, want: []Promise{P4}, log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 5 8@2 log-lost", "resync-started 9@2", "deleted u1 5>6 repair",
			"resync-completed 9@2",
		},
	},
	"a repair that begins again has ended objects by the list before": {
		truth:   []string{"added u1 5", "deleted u1 6", "added u2 8", "updated u2 9"},
		options: Options{LogLost: now}, log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 5 7@2 log-lost", "resync-started 8@2", "deleted u1 5>7@2 repair",
			"gap 5 9@2 log-lost", "resync-started 9@2", "added u2 9@2 repair", "resync-completed 9@2",
		},
	},
	"a first list that was cut short tells nothing of a restoration behind the log": {
		truth: []string{"added u1 5", "updated u1 7", "h1 updated u1 5", "h1 updated u1 8"}, bounds: restored,
		options: Options{Prefix: true}, log: []string{
			"snapshot-started 1", "added u1 5 watch", "snapshot-started 6@2", "snapshot-started 6@3", "updated u1 7@3 watch",
		},
	},
	"what is read back ends an object that a restoration has undone": {
		truth:  []string{"added u1 4", "deleted u1 5", "added u2 7", "h1 deleted u2 4", "h1 added u1 4", "h1 updated u1 8"},
		bounds: restored, log: []string{
			"snapshot-started 1", "added u1 4 watch", "deleted u1 5 watch", "added u2 7 watch", "deleted u2 7>7 recovered",
			"gap 7 8@2 restored", "added u1 8@2 relist",
		},
	},
	"behind a restoration nothing of the old history is told": {
		truth: []string{"added u1 4", "updated u1 7", "h1 updated u1 4", "h1 updated u1 8"}, bounds: restored,
		want: []Promise{P4}, log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 7 watch", "gap 7 7@2 restored", "updated u1 7@2 relist",
			"updated u1 8@2 watch",
		},
	},
	"an end is found when it has happened": {
		truth: []string{"added u1 5", "deleted u1 9"}, want: []Promise{P4},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 5 7", "deleted u1 5>7 relist"},
	},
	"what is published again was": {
		truth: []string{"added u1 5"}, options: Options{Resync: true}, want: []Promise{P4},
		log: []string{"snapshot-started 1", "added u1 5 watch", "updated u1 4.r9 resync"},
	},
	"a repair is announced": {
		truth: []string{"added u1 5", "updated u1 6"}, options: Options{LogLost: now}, want: []Promise{P6},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 5 6@2 log-lost", "updated u1 6@2 repair"},
	},
	"a repair publishes everything that exists": {
		truth: []string{"added u1 5"}, options: Options{LogLost: now}, want: []Promise{P1},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 5 6@2 log-lost", "resync-started 9@2", "resync-completed 9@2",
		},
	},
	"a repair has a reason": {
		truth: []string{"added u1 5", "updated u1 6"}, want: []Promise{P3},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 5 6@2 log-lost", "resync-started 9@2", "updated u1 6@2 repair",
			"resync-completed 9@2",
		},
	},
	"what is repaired has its epoch": {
		truth: []string{"added u1 5", "updated u1 6"}, options: Options{LogLost: now}, want: []Promise{P6},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 5 6@2 log-lost", "resync-started 9@2", "updated u1 6 repair",
			"resync-completed 9@2",
		},
	},
	"a lost checkpoint repeats nothing": {
		truth: []string{"added u1 5"}, want: []Promise{P5},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 0 6@2 checkpoint-lost", "updated u1 5@2 relist"},
	},
	"a lost checkpoint loses no end": {
		truth: []string{"added u1 5", "deleted u1 6"},
		log:   []string{"snapshot-started 1", "added u1 5 watch", "gap 0 7@2 checkpoint-lost", "deleted u1 5>7@2 relist"},
	},
	"a new epoch has a cause": {
		truth: []string{"added u1 5", "updated u1 6"}, want: []Promise{P6},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 5 5@2 expired", "updated u1 6@2 watch"},
	},
	"a new epoch has a marker": {
		truth: []string{"added u1 5", "updated u1 6"}, want: []Promise{P6},
		log: []string{"snapshot-started 1", "added u1 5 watch", "updated u1 6@2 watch"},
	},
	"an end comes before another object that a list shows": {
		truth: []string{"added u1 5", "deleted u1 6", "added u2 7"},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 5 9@2 selection", "deleted u1 5 relist",
			"added u2 7@2 relist",
		},
	},
	"an end that a list found has the list's version": {
		truth: []string{"added u1 5", "deleted u1 6"}, want: []Promise{P4},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 5 9", "deleted u1 5>7 relist"},
	},
	"a requested resync repeats everything": {
		truth: []string{"added u1 5", "updated u1 6"}, options: Options{Resync: true}, log: []string{
			"snapshot-started 1", "added u1 5 watch", "updated u1 6 watch", "resync-started 9", "updated u1 6.r9 resync",
			"resync-completed 9",
		},
	},
	"a complete resync has told everything": {
		truth: []string{"added u1 5", "updated u1 6"}, options: Options{Resync: true}, want: []Promise{P6},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "resync-started 9", "resync-completed 9", "updated u1 6 watch",
		},
	},
	"a resync ends once": {
		truth: []string{"added u1 5"}, options: Options{Resync: true}, want: []Promise{P6},
		log: []string{"snapshot-started 1", "added u1 5 watch", "resync-completed 9"},
	},
	"what the truth could not see is not judged": {
		truth: []string{"added u1 5", "updated u1 9"}, holes: []Hole{{0, 5, 9}},
		log: []string{"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch", "updated u1 9 watch"},
	},
	"when something was deleted that the truth could not see is not judged": {
		truth: []string{"added u1 5", "deleted u1 9"}, holes: []Hole{{0, 5, 9}},
		log: []string{"snapshot-started 1", "added u1 5 watch", "deleted u1 7 watch"},
	},
	"two restorations that bring the same may look like one": {
		truth:  []string{"added u1 4", "h1 updated u1 4", "h1 updated u1 8", "h2 updated u1 4"},
		bounds: []History{{First: 1, Last: 20}, {First: 5, Last: 10}, {First: 5, Last: 1000}},
		log:    []string{"snapshot-started 1", "added u1 4 watch", "gap 8 6@2 restored", "updated u1 4@2 relist"},
	},
	"a deletion before a restoration is found after it": {
		truth: []string{"added u1 7", "deleted u1 9"}, bounds: restored,
		log: []string{"snapshot-started 1", "added u1 7 watch", "gap 8 6@2 restored", "deleted u1 7>6@2 relist"},
	},
	"what only the old history had is deleted in the new one": {
		truth: []string{"added u1 7", "h1 deleted u1 5"}, bounds: restored,
		log: []string{"snapshot-started 1", "added u1 7 watch", "gap 8 6@2 restored"}, want: []Promise{P1},
	},
	"what a restoration left as it was is published again": {
		truth: []string{"added u1 4", "h1 updated u1 4"}, bounds: restored,
		log: []string{"snapshot-started 1", "added u1 4 watch", "gap 8 6@2 restored"}, want: []Promise{P1},
	},
	"two restorations may look like one": {
		truth: []string{
			"added u1 4", "updated u1 7", "h1 updated u1 4", "h1 updated u1 8", "h2 updated u1 4", "h2 updated u1 12",
		},
		bounds: []History{{First: 1, Last: 20}, {First: 5, Last: 10}, {First: 5, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 7 watch", "gap 8 6@2 restored",
			"updated u1 4@2 relist", "updated u1 12@2 watch",
		},
	},
	"a restoration may go unnoticed after one that was noticed": {
		truth: []string{
			"added u1 4", "updated u1 7", "h1 updated u1 4", "h1 updated u1 8", "h1 updated u1 9", "h2 updated u1 9",
			"h2 updated u1 12", "h2 updated u1 13",
			"h2 updated u1 14", "h2 updated u1 15",
		},
		bounds: []History{{First: 1, Last: 20}, {First: 5, Last: 10}, {First: 9, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 7 watch", "gap 8 6@2 restored",
			"updated u1 4@2 relist", "updated u1 8@2 watch", "updated u1 9@2 watch",
			"updated u1 12@2 watch", "updated u1 13@2 watch", "updated u1 14@2 watch", "updated u1 15@2 watch",
		},
	},
	"a restoration that bumps the versions and changes nothing may look like a gap": {
		truth:  []string{"added u1 4", "h1 updated u1 4", "h1 updated u1 107"},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}},
		log:    []string{"snapshot-started 1", "added u1 4 watch", "gap 8 105", "updated u1 107 watch"},
	},
	"a restoration that takes a state back does not": {
		truth:  []string{"added u1 4", "updated u1 7", "h1 updated u1 4"},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}},
		log:    []string{"snapshot-started 1", "added u1 4 watch", "updated u1 7 watch", "gap 8 105"}, want: []Promise{P1},
	},
	"a bump may be noticed when something behind it was published": {
		truth: []string{
			"added u1 4", "h1 updated u1 4", "h1 updated u1 107", "h1 updated u1 109",
		}, bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "gap 8 107", "updated u1 107 relist", "gap 8 108@2 restored",
			"updated u1 107@2 relist", "updated u1 109@2 watch",
		},
	},
	"a stream may begin behind a bump that another stream shows later": {
		truth:  []string{"added u1 4", "h1 added u1 4", "h1 updated u1 109"},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}},
		log: []string{
			"snapshot-started 103", "added u1 4 snapshot", "snapshot-completed 103", "gap 103 108@2 restored",
			"updated u1 4@2 relist", "updated u1 109@2 watch",
		},
	},
	"the first list of a stream may end behind a bump that another stream shows later": {
		truth:  []string{"added u1 4", "updated u1 7", "h1 updated u1 4", "h1 updated u1 109"},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}},
		log: []string{
			"snapshot-started 5", "added u1 4 snapshot", "snapshot-started 103", "snapshot-completed 103",
			"gap 103 108@2 restored", "updated u1 4@2 relist", "updated u1 109@2 watch",
		},
	},
	"what a restoration took away unnoticed may be found missing before the next is noticed": {
		truth:  []string{"added u1 7", "h1 deleted u1 5", "h2 added u2 107"},
		bounds: []History{{First: 1, Last: 20}, {First: 5, Last: 10}, {First: 100, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u1 7 watch", "gap 8 105", "deleted u1 7>105 relist", "gap 8 108@2 restored",
			"added u2 107@2 relist",
		},
	},
	"what is read back belongs to the gap behind it": {
		truth: []string{
			"added u1 4", "updated u1 7", "updated u1 9", "h1 updated u1 9", "h1 updated u1 106", "h1 updated u1 107",
			"h1 updated u1 108",
			"h1 updated u1 109",
		},
		bounds: []History{{First: 1, Last: 20}, {First: 9, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "gap 5 8", "updated u1 7 relist", "updated u1 9 watch",
			"updated u1 106 recovered",
			"updated u1 107 recovered", "gap 10 107",
			"updated u1 108 watch", "updated u1 109 watch",
		},
	},
	"what a bump undid may be deleted before it is noticed": {
		truth: []string{
			"added u1 8", "h1 deleted u1 5", "h1 added u2 107",
		}, bounds: []History{{First: 1, Last: 20}, {First: 5, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u1 8 watch", "gap 8 107", "deleted u1 8 relist", "added u2 107 relist",
			"gap 8 108@2 restored", "updated u2 107@2 relist",
		},
	},
	"what a bump undid may be deleted before it is noticed, and another object have had its name": {
		truth:  []string{"added u1 44", "updated u1 56", "h1 deleted u1 30", "h1 added u2 178", "h1 updated u2 214"},
		bounds: []History{{First: 1, Last: 60}, {First: 100, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u1 44 watch", "updated u1 56 watch", "gap 44 101", "deleted u1 56>101 relist",
			"gap 101 217@2 restored", "added u2 214@2 relist",
		},
	},
	"what another selection lists may be of a history that nothing has shown yet": {
		truth:  []string{"added u1 5", "updated u1 7", "deleted u1 9", "h1 added u1 7", "h1 updated u1 107"},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch", "deleted u1 9 watch", "gap 9 105@2 selection",
			"added u1 7@2 relist", "gap 105 108@3 restored", "updated u1 107@3 relist",
		},
	},
	"what another selection lists may end an object that the history behind it has not": {
		truth: []string{
			"added u0 3", "deleted u0 4", "added u1 5", "h1 deleted u1 3", "h1 added u0 3", "h1 updated u0 107",
			"h1 updated u0 109",
		},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u0 3 watch", "deleted u0 4 watch", "added u1 5 watch", "gap 9 108@2 selection",
			"deleted u1 5 relist", "added u0 107@2 relist", "gap 108 110@3 restored", "updated u0 109@3 relist",
		},
	},
	"what is listed behind a lost checkpoint may end an object that the history behind it has not": {
		truth: []string{
			"added u0 3", "deleted u0 4", "added u1 5", "h1 deleted u1 3", "h1 added u0 3", "h1 updated u0 107",
			"h1 updated u0 109",
		},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u0 3 watch", "deleted u0 4 watch", "added u1 5 watch",
			"gap 0 108@2 checkpoint-lost", "deleted u1 5 relist", "added u0 107@2 relist", "gap 0 110@3 restored",
			"updated u0 109@3 relist",
		},
	},
	"a restoration is told again behind a lost checkpoint": {
		truth:  []string{"added u1 5", "updated u1 7", "h1 updated u1 5", "h1 updated u1 107"},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch", "gap 8 105@2 rebuilt", "updated u1 5@2 relist",
			"gap 0 106@3 checkpoint-lost", "gap 0 106@4 restored", "updated u1 5@4 relist", "updated u1 107@4 watch",
		},
	},
	"a restoration is told once": {
		truth:  []string{"added u1 5", "updated u1 7", "h1 updated u1 5", "h1 updated u1 107"},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}}, want: []Promise{P6},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch", "gap 8 105@2 rebuilt", "updated u1 5@2 relist",
			"gap 105 106@4 restored", "updated u1 5@4 relist", "updated u1 107@4 watch",
		},
	},
	"what another selection lists is not told again": {
		truth:  []string{"added u1 5", "updated u1 7", "h1 updated u1 7", "h1 updated u1 107"},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}}, want: []Promise{P5},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch", "gap 9 105@2 selection",
			"updated u1 7@2 relist", "gap 105 108@3 restored", "updated u1 107@3 relist",
		},
	},
	"a list of the same selection does not bring back what was deleted": {
		truth:  []string{"added u1 5", "updated u1 7", "deleted u1 9", "h1 added u1 7", "h1 updated u1 107"},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}}, want: []Promise{P5},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch", "deleted u1 9 watch", "gap 9 105",
			"added u1 7 relist", "gap 105 108@3 restored", "updated u1 107@3 relist",
		},
	},
	"another stream notices a restoration when this one has published something behind it": {
		truth: []string{
			"added u1 4", "updated u1 7", "updated u1 9", "h1 updated u1 4", "h1 updated u1 6", "h1 updated u1 8",
			"h1 updated u1 12",
		}, bounds: restored,
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 6 watch", "updated u1 8 watch", "gap 8 13@2 restored",
			"updated u1 12@2 relist",
		},
	},
	"a restoration is noticed when a bookmark has moved the position behind it": {
		truth: []string{
			"added u1 4", "updated u1 7", "updated u1 9", "h1 updated u1 4", "h1 updated u1 12",
		}, bounds: restored,
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "gap 10 11", "gap 11 13@2 restored", "updated u1 12@2 relist",
		},
	},
	"a position that a restored etcd has not reached yet is of what it undid": {
		truth: []string{
			"added u1 4", "updated u1 7", "updated u1 9", "h1 updated u1 4", "h1 updated u1 12",
		}, bounds: restored,
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "gap 11 8@2 restored", "updated u1 4@2 relist", "updated u1 12@2 watch",
		},
		want: []Promise{P3},
	},
	"who has published what a restoration undid notices it": {
		truth: []string{
			"added u1 4", "updated u1 7", "h1 updated u1 4", "h1 updated u1 22", "h1 updated u1 24",
		}, bounds: restored,
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 7 watch", "updated u1 22 watch", "gap 22 25@2 restored",
			"updated u1 24@2 relist",
		},
		want: []Promise{P3},
	},
	"a gap ends in the history that its list was of": {
		truth: []string{"added u1 4", "h1 updated u1 4", "h1 updated u1 6", "h1 updated u1 7"}, bounds: restored,
		log: []string{"snapshot-started 1", "added u1 4 watch", "gap 4 8", "updated u1 7 relist"},
	},
	"a history that never began is not counted": {
		truth: []string{"added u1 4"},
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "gap 8 9@2 restored", "updated u1 4@2 relist",
		}, want: []Promise{P6},
	},
	"a repetition is asked for": {
		truth: []string{"added u1 5", "updated u1 6"}, want: []Promise{P5},
		log: []string{"snapshot-started 1", "added u1 5 watch", "updated u1 5.r1 resync", "updated u1 6 watch"},
	},
	"a selection does not change by itself": {
		truth: []string{"added u1 5"}, want: []Promise{P5},
		log: []string{"snapshot-started 1", "added u1 5 watch", "deleted u1 5>8@2 deselected"},
	},
	"what is not selected any more is deleted": {
		truth: []string{"added u1 5", "updated u1 9"}, options: Options{Selected: never},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 8 8@2 selection", "deleted u1 5>8@2 deselected"},
	},
	"what is not selected any more is not in the log": {
		truth: []string{"added u1 5"}, options: Options{Selected: never}, want: []Promise{P1, P9},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 8 8@2 selection"},
	},
	"what is selected again is added again": {
		truth: []string{"added u1 5"}, options: Options{Selected: always},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "gap 8 8@2 selection", "deleted u1 5>8@2 deselected",
			"gap 8 9@3 selection", "added u1 5@3 relist",
		},
	},
	"what happens while nothing is selected is not in the log": {
		truth: []string{"added u1 5", "deleted u1 9"}, options: Options{Selected: always},
		log: []string{"snapshot-started 1", "added u1 5 watch", "deleted u1 5>8@2 deselected", "snapshot-started 10@3"},
	},
	"a stream that has ended without an object lists again": {
		truth: []string{"added u1 5", "updated u1 9"}, options: Options{Selected: always},
		log: []string{
			"snapshot-started 1", "snapshot-completed 1", "snapshot-started 10@3", "added u1 9@3 snapshot",
			"snapshot-completed 10@3",
		},
	},
	"a stream with an object lists again": {
		truth: []string{"added u2 1 b", "added u1 5", "updated u1 9"}, options: Options{Selected: always},
		want: []Promise{P3, P6},
		log: []string{
			"snapshot-started 1", "added u2 1 b snapshot", "snapshot-completed 1", "snapshot-started 10@3",
			"added u1 9@3 snapshot",
			"snapshot-completed 10@3",
		},
	},
	"a stream without an object lists again and its selection is the same": {
		truth: []string{"added u1 5", "updated u1 9"}, want: []Promise{P3, P6},
		log: []string{
			"snapshot-started 1", "snapshot-completed 1", "snapshot-started 10@3", "added u1 9@3 snapshot",
			"snapshot-completed 10@3",
		},
	},
	"what happens behind the list of what is selected again is in the log": {
		truth: []string{"added u1 5", "added u2 12 b", "deleted u2 13 b"}, options: Options{Selected: always},
		want: []Promise{P3, P6},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "deleted u1 5>8@2 deselected", "snapshot-started 10@3",
			"added u1 5@3 snapshot",
		},
	},
	"what is selected again shows no restoration that nothing had shown": {
		truth:   []string{"added u1 4", "h1 updated u1 4", "h1 updated u1 6"},
		bounds:  []History{{First: 1, Last: 5}, {First: 5, Last: 1000}},
		options: Options{Selected: always},
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 6 watch", "deleted u1 6>8@2 deselected",
			"snapshot-started 10@3", "added u1 6@3 snapshot", "snapshot-completed 10@3",
		},
	},
	"what is selected again shows no more than a restoration that was to be noticed": {
		truth:   []string{"added u1 4", "updated u1 7", "h1 updated u1 4", "h1 updated u1 8"},
		bounds:  restored,
		options: Options{Selected: always}, want: []Promise{P6},
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 7 watch", "updated u1 8 watch", "deleted u1 8>9@2 deselected",
			"snapshot-started 10@3", "added u1 8@3 snapshot", "snapshot-completed 10@3",
		},
	},
	"a broker refuses nothing without a reason": {
		truth: []string{
			"added u1 5", "updated u1 6",
		}, log: []string{"snapshot-started 1", "added u1 5 watch", "updated u1 6.rejected watch"}, want: []Promise{P1},
	},
	"a broker that refuses has rejections, and one event for what it has refused": {
		truth:   []string{"added u1 5", "updated u1 6", "updated u1 7", "updated u1 8"},
		options: Options{Refused: refuses(true)},
		log:     []string{"snapshot-started 1", "added u1 5 watch", "updated u1 6.rejected watch", "updated u1 8 relist"},
	},
	"a broker that refuses loses no change that nothing stands for": {
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7"}, options: Options{Refused: refuses(true)},
		log: []string{"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch"}, want: []Promise{P6},
	},
	"an end that a broker has refused is published at a version behind it": {
		truth: []string{"added u1 5", "deleted u1 6", "added u2 9"}, options: Options{Refused: refuses(true)},
		log: []string{"snapshot-started 1", "added u1 5 watch", "deleted u1 5>8 relist", "added u2 9 watch"},
	},
	"an end that a broker has refused is published at the end of the next object, of which the log has nothing": {
		truth:   []string{"added u1 5", "deleted u1 6", "added u2 7", "deleted u2 9"},
		options: Options{Refused: refuses(true), RefusedState: refusesUntil(9)},
		log:     []string{"snapshot-started 1", "added u1 5 watch", "deleted u1 5>9 relist"},
	},
	"an end that a broker has refused is published at no version of the next object": {
		truth: []string{"added u1 5", "deleted u1 6", "added u2 9"}, options: Options{Refused: refuses(true)},
		log:  []string{"snapshot-started 1", "added u1 5 watch", "deleted u1 5>9 relist", "added u2 9 watch"},
		want: []Promise{P4},
	},
	"an end that no broker has refused has a list's version": {
		truth: []string{"added u1 5", "deleted u1 6", "added u2 9"}, want: []Promise{P4},
		log: []string{"snapshot-started 1", "added u1 5 watch", "deleted u1 5>8 relist", "added u2 9 watch"},
	},
	"an object comes and goes while the broker refuses": {
		truth:   []string{"added u1 5", "deleted u1 6", "added u2 7", "updated u2 8"},
		options: Options{Refused: refuses(true), RefusedState: refusesUntil(5)},
		log:     []string{"snapshot-started 1", "added u2 7 watch", "updated u2 8 watch"},
	},
	"an object comes and goes when the broker refuses nothing": {
		truth:   []string{"added u1 5", "deleted u1 6", "added u2 7", "updated u2 8"},
		options: Options{Refused: refuses(true), RefusedState: refusesUntil(4)},
		log:     []string{"snapshot-started 1", "added u2 7 watch", "updated u2 8 watch"}, want: []Promise{P6},
	},
	"an object that comes while the broker refuses, and stays": {
		truth:   []string{"added u1 5", "updated u1 6", "updated u1 7"},
		options: Options{Refused: refuses(true), RefusedState: refusesUntil(5)},
		log:     []string{"snapshot-started 1", "added u1 7 watch"}, want: []Promise{P6},
	},
	"the end of an object that the log has, while the broker refuses": {
		truth:   []string{"added u1 5", "updated u1 6", "deleted u1 7", "added u2 8"},
		options: Options{Refused: refuses(true), RefusedState: refusesUntil(9)},
		log:     []string{"snapshot-started 1", "added u1 5 watch", "updated u1 6 watch", "added u2 8 watch"},
		want:    []Promise{P2, P6},
	},
	"a broker that takes everything again has no rejections": {
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7"}, options: Options{Refused: refuses(false)},
		log:  []string{"snapshot-started 1", "added u1 5 watch", "updated u1 6.rejected watch", "updated u1 7 watch"},
		want: []Promise{P1},
	},
	"a broker that refuses has what an object is in the end": {
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7"}, options: Options{Refused: refuses(true)},
		log: []string{"snapshot-started 1", "added u1 5 watch", "updated u1 6.rejected watch"}, want: []Promise{P1},
	},
	"a gap does not excuse what was missing before it": {
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7", "updated u1 8"}, want: []Promise{P3},
		log: []string{"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch", "gap 5 8", "updated u1 8 relist"},
	},
	"a gap that is announced again begins where it began": {
		truth:  []string{"added u1 4", "updated u1 17", "h1 updated u1 4", "h1 updated u1 6"},
		bounds: []History{{First: 1, Last: 20}, {First: 5, Last: 8}},
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 17 watch", "gap 17 5@2 rebuilt", "updated u1 4@2 relist",
			"gap 17 6@2 rebuilt", "updated u1 6@2 relist",
		},
	},
	"a gap that is announced again begins nowhere else": {
		truth:  []string{"added u1 4", "updated u1 17", "h1 updated u1 4", "h1 updated u1 6"},
		bounds: []History{{First: 1, Last: 20}, {First: 5, Last: 8}}, want: []Promise{P6},
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 17 watch", "gap 17 5@2 rebuilt", "updated u1 4@2 relist",
			"gap 16 6@2 rebuilt", "updated u1 6@2 relist",
		},
	},
	"a gap does not hide what is to come": {
		truth: []string{"added u1 5", "updated u1 6", "updated u1 10", "updated u1 11"}, want: []Promise{P6},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 5 10", "updated u1 10 watch", "updated u1 11 watch"},
	},
	"a gap does not excuse that the owner of a name was not deleted": {
		truth: []string{"added u1 5", "deleted u1 6", "added u2 7", "deleted u2 9"}, want: []Promise{P2},
		log: []string{"snapshot-started 1", "added u1 5 watch", "gap 5 8", "deleted u2 9 watch"},
	},
	"nothing is watched before the first list is complete": {
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7", "updated u1 9"}, want: []Promise{P6},
		log: []string{
			"snapshot-started 5", "added u1 5 snapshot", "updated u1 7 watch", "snapshot-started 9",
			"updated u1 9 snapshot", "snapshot-completed 9",
		},
	},
	"what a first list shows precedes its end": {
		truth: []string{
			"added u1 5",
		}, log: []string{"snapshot-started 5", "snapshot-completed 5", "added u1 5 snapshot"}, want: []Promise{P6},
	},
	"a first list is announced": {
		truth: []string{"added u1 5"}, log: []string{"added u1 5 watch"}, want: []Promise{P6},
	},
	"a state that a restoration undid and the log has does not go unnoticed": {
		truth: []string{
			"added u1 4", "updated u1 7", "updated u1 8", "h1 updated u1 4", "h1 updated u1 107",
		}, want: []Promise{P3},
		bounds: []History{{First: 1, Last: 20}, {First: 100, Last: 1000}},
		log: []string{
			"snapshot-started 1", "added u1 4 watch", "updated u1 8 watch", "gap 8 105", "updated u1 107 watch",
		},
	},
	"a live deletion has a version of its own": {
		truth: []string{
			"added u1 5", "deleted u1 6",
		}, log: []string{"snapshot-started 1", "added u1 5 watch", "deleted u1 5 watch"}, want: []Promise{P4},
	},
	"of a log that was cut off nothing is demanded behind its end": {
		truth: []string{
			"added u1 5", "updated u1 6", "deleted u1 7",
		}, options: Options{Prefix: true}, log: []string{"snapshot-started 1", "added u1 5 watch"},
	},
	"a log may be cut off before the gap behind what was read back": {
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7", "updated u1 8"}, options: Options{Prefix: true},
		log: []string{"snapshot-started 1", "added u1 5 watch", "updated u1 7 recovered"},
	},
	"of a log that was cut off everything before its end is demanded": {
		truth: []string{
			"added u1 5", "updated u1 6", "updated u1 7", "updated u1 8",
		}, options: Options{Prefix: true}, want: []Promise{P3},
		log: []string{"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch"},
	},
	"what was written tells two histories with the same version apart": {
		truth: []string{"added u1 4", "updated u1 7 =a", "h1 updated u1 4", "h1 updated u1 7 =b"}, bounds: restored,
		log: []string{"snapshot-started 1", "added u1 4 watch", "updated u1 7 watch =b"},
	},
	"what is in the log is what was written": {
		truth: []string{
			"added u1 4", "updated u1 7 =a",
		}, log: []string{"snapshot-started 1", "added u1 4 watch", "updated u1 7 watch =b"}, want: []Promise{P3, P4},
	},
}

func TestCheck_knows_what_is_special(t *testing.T) {
	for name, s := range scripts {
		t.Run(name, func(t *testing.T) {
			truth, log := s.build(t)
			if s.options.Gaps == nil {
				s.options.Gaps = AnyGap
			}
			found := Check(truth, log, s.options)
			for _, p := range s.want {
				assert.True(t, slices.ContainsFunc(found, func(v Violation) bool { return v.Promise == p }),
					"want a violation of %s, got %v", p, found)
			}
			assert.True(t, len(s.want) != 0 || len(found) <= 0, "want no violation, got %v", found)
		})
	}
}

func TestViolation_prints_the_history_beside_the_log(t *testing.T) {
	truth, log := script{
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7"},
		log:   []string{"snapshot-started 1", "added u1 5 watch", "updated u1 7 watch"},
	}.build(t)
	got := Check(truth, log, Options{Seed: 42})[0].String()
	want := `P3 broken: configmaps x: updated 6 is not in the log, and no gap covers it (seed 42)
  true history       | log
  h0 5 added u1      | #3 resource.added.v1 u1.1.5.0 version=5 sequence=0000000001.00000000000000000005.0 reason=watch
  h0 6 updated u1  < | #4 resource.updated.v1 u1.1.7.0 version=7 sequence=0000000001.00000000000000000007.0 reason=watch  <
  h0 7 updated u1    | `
	assert.Equal(t, want, got)
}

func TestJudge_counts_what_gaps_hide_and_what_was_recovered(t *testing.T) {
	truth, log := script{
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7", "updated u1 8", "updated u1 9"},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "updated u1 7 recovered", "gap 5 9", "updated u1 9 relist",
		},
	}.build(t)
	r := Judge(truth, log, Options{Gaps: AnyGap})
	require.True(t, len(r.Violations) == 0 && r.States == 5 && r.Published == 3 && r.Hidden == 2 && r.Recovered == 1 &&
		len(r.Gaps) == 1, "got %+v", r)
	want := GapFigure{
		Stream: plain, Place: 5, Epoch: 1, From: 5, To: 9, Cause: Expired, Message: "a text", At: now, Hidden: 2,
		Recovered: 1, Avoidable: 2,
	}
	assert.Equal(t, want, r.Gaps[0])
}

func TestJudge_says_what_a_gap_hides_that_etcd_had(t *testing.T) {
	truth, log := script{
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7", "updated u1 8", "updated u1 9"},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "updated u1 7 recovered", "gap 5 9", "updated u1 9 relist",
		},
	}.build(t)
	if r := Judge(truth, log, Options{Gaps: AnyGap}); len(r.Violations) != 0 || r.Avoidable != 2 ||
		r.Gaps[0].Avoidable != 2 {
		t.Errorf("want two that were never forgotten, got %+v", r)
	}
	truth.Compactions = []Compaction{{At: now.Add(-time.Second), Revision: 7}, {At: now.Add(time.Hour), Revision: 1000}}
	r := Judge(truth, log, Options{Gaps: AnyGap})
	assert.Equal(t, 1, r.Avoidable, "want one that was not forgotten, got %+v", r)
	log[4].Data = bytes.Replace(log[4].Data, []byte("a text"), []byte("1 change was read back"), 1)
	found := Check(truth, log, Options{Gaps: AnyGap})
	assert.True(t, len(found) == 1 && found[0].Promise == P6, "a reason that says more than was done: %v", found)
}

func TestJudge_blames_a_later_gap_for_a_list_that_died_with_its_process(t *testing.T) {
	truth, log := script{
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7", "updated u1 9"},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "updated u1 6 recovered", "gap 5 7", "gap 5 9",
			"updated u1 9 relist",
		},
	}.build(t)
	log[5].Recorded = now.Add(time.Minute)
	for _, i := range []int{4, 5} {
		log[i].Data = bytes.Replace(log[i].Data, []byte("a text"), fmt.Appendf(nil, "%d changes were read back", 5-i), 1)
	}
	truth.Compactions = []Compaction{{At: now.Add(30 * time.Second), Revision: 9}}
	r := Judge(truth, log, Options{Gaps: AnyGap})
	assert.Empty(t, r.Violations, "etcd has forgotten it before the second list")
	assert.Equal(t, []int{0, 1}, []int{r.Gaps[0].Hidden, r.Gaps[1].Hidden}, "hidden")
	truth.Compactions = nil
	found := Check(truth, log, Options{Gaps: AnyGap})
	assert.True(t, len(found) == 1 && strings.Contains(found[0].What, "1 states more"),
		"the second gap could have had it: %v", found)
}

func TestJudge_measures_how_far_a_gap_reaches_below_the_log(t *testing.T) {
	truth, log := script{
		truth: []string{"added u1 5", "updated u1 6", "updated u1 7", "updated u1 8", "updated u1 9"},
		log: []string{
			"snapshot-started 1", "added u1 5 watch", "updated u1 6 watch", "updated u1 7 watch", "updated u1 8 watch",
			"gap 5 9", "updated u1 9 relist",
		},
	}.build(t)
	for i, seconds := range []int{0, 0, 1, 30, 32, 34} { // 6 can be passed when 7 is there
		log[i].Stored = time.Unix(int64(seconds), 0)
	}
	r := Judge(truth, log, Options{Gaps: AnyGap})
	assert.True(t, len(r.Violations) == 0 && r.Gaps[0].Behind == 2*time.Second, "want two seconds, got %+v", r)
	log[5].Stored = time.Unix(38, 0)
	found := Check(truth, log, Options{Gaps: AnyGap})
	assert.True(t, len(found) == 1 && found[0].Promise == P6, "six seconds: %v", found)
	behind := func(GapFigure) time.Duration { return 30 * time.Second }
	assert.Empty(t, Check(truth, log, Options{Behind: behind, Gaps: AnyGap}), "where positions could not be stored")
}

func TestNewEntry_reads_a_message(t *testing.T) {
	e := must.Get(NewEntry(map[string][]string{
		"Nats-Msg-Id": {"a.u1.5"}, "ce-specversion": {"1.0"}, "ce-type": {typeResource + "added.v1"}, "ce-id": {"u1.5"},
		"ce-source":  {plain.Source()},
		"ce-subject": {"a/system:x%20y%25"}, "ce-name": {"system:x%20y%25"}, "ce-namespace": {"a"}, "ce-objectuid": {"u1"},
		"ce-resourceversion": {"5"},
		"ce-reason":          {"watch"}, "ce-sequence": {"0000000007.00000000000000000005.0"}, "ce-pipeline": {"p"},
	}, []byte(`{"metadata":{"annotations":{"faults.example.com/change":"1.2"}}}`), 7))(t)
	if e.key() != "a/system:x y%" || e.MsgID != "a.u1.5" || e.Sequence == "" || e.SampledRate != 1 || e.Place != 7 ||
		e.UID != "u1" || e.Pipeline != "p" ||
		e.Body == "" {
		t.Errorf("got %+v", e)
	}
	for name, h := range map[string]map[string][]string{
		"no CloudEvent": {"x": {"y"}},
		"no integer": {
			"ce-specversion": {"1.0"}, "ce-type": {"t"}, "ce-id": {"i"}, "ce-source": {"s"},
			"ce-writerterm": {"x"},
		},
		"broken encoding": {"ce-specversion": {"1.0"}, "ce-type": {"t"}, "ce-id": {"%x"}, "ce-source": {"s"}},
	} {
		assert.Error(t, must.Err(NewEntry(h, nil, 1)), "%s: no error", name)
	}
}

func BenchmarkJudge(b *testing.B) {
	const objects, changes = 500, 200
	truth := &Truth{Histories: []History{{First: 1, Last: 1 << 40}}, Streams: map[Stream]map[string][]State{plain: {}}}
	var log []Entry
	for v := range objects * changes {
		key, op := fmt.Sprintf("x%d", v%objects), Updated
		if v < objects {
			op = Added
		}
		truth.Streams[plain][key] = append(truth.Streams[plain][key],
			State{UID: "uid-" + key, Version: uint64(v + 2), Op: op})
		e := entryOf(fmt.Sprintf("%s uid-%s %d watch", op, key, v+2), uint64(v+1))
		e.Name, e.Subject, e.PartitionKey, e.Data = key, key, keyOf(plain, "", key), make([]byte, 1000)
		log = append(log, e)
	}
	options := Options{Canaries: NewCanaries(secret)}
	for b.Loop() {
		if found := Check(truth, log, options); found != nil {
			b.Fatal(found[0])
		}
	}
}

// A state that was hidden by a gap, was published behind a restoration, and is still there behind the next one, need
// not be published again.
func TestExcuse_finds_what_is_repeated_in_any_history_before(t *testing.T) {
	o := &object{truth: []State{
		{UID: "u1", Version: 7, Op: Updated},
		{UID: "u1", Version: 7, Op: Updated, History: 1},
		{UID: "u1", Version: 7, Op: Updated, History: 2},
	}, published: []bool{false, true, false}, excused: make([]bool, 3)}
	o.excuse(2, 10, 0, false)
	assert.True(t, o.excused[2], "it has to be published again")
	o.published[1], o.excused[2] = false, false
	o.excuse(2, 10, 0, false)
	assert.False(t, o.excused[2], "it need not be published at all")
}
