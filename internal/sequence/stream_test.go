// SPDX-License-Identifier: Apache-2.0

package sequence_test

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// state and end are rows of the object u.
func state(epoch, version uint64) *sequence.Row {
	return &sequence.Row{UID: "u", Sequence: sequence.Sequence{Epoch: epoch, Version: version}}
}

func end(epoch, version uint64) *sequence.Row {
	r := state(epoch, version)
	r.Step = sequence.End
	return r
}

func behind(r *sequence.Row) *sequence.Row {
	r.Behind = true
	return r
}

// In the first case no row compares from then on, in the second all do that did before.
func TestStream_takes_a_new_number(t *testing.T) {
	was := sequence.Stream{
		Epoch: 5, Since: 3, Position: 40, Owes: sequence.Relist, Floors: []sequence.Floor{{Position: 50}}, Rewound: 60,
	}
	republishing, repairing := was, was
	republishing.Owes, repairing.Owes = sequence.Republish, sequence.Repair
	reselected, stillRepublishing := was, republishing
	reselected.Epoch, reselected.Owes, stillRepublishing.Epoch = 7, sequence.Reselect, 7
	first := func(s *sequence.Stream) { s.Incomparable(7, 30, sequence.Republish) }
	second := func(s *sequence.Stream) { s.Reselected(7, sequence.Reselect) }
	for name, test := range map[string]struct {
		was  sequence.Stream
		take func(*sequence.Stream)
		want sequence.Stream
	}{
		"first case": {was, first, sequence.Stream{Epoch: 7, Since: 7, Position: 30, Owes: sequence.Republish}},
		"first case in a repair": {
			repairing, first, sequence.Stream{Epoch: 7, Since: 7, Position: 30, Owes: sequence.Repair},
		},
		"second case":                {was, second, reselected},
		"second case in a first one": {republishing, second, stillRepublishing},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.was
			test.take(&got)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestTakeOver_carries_all_over(t *testing.T) {
	got := sequence.TakeOver([]sequence.Stream{
		{Epoch: 7, Since: 7, Position: 50, Owes: sequence.Reselect},
		{Epoch: 5, Since: 3, Position: 40, Floors: []sequence.Floor{{Namespace: "c", Position: 45}}},
	}, []string{"a", "b"})
	want := sequence.Stream{
		Epoch: 7, Since: 7, Position: 40, Owes: sequence.Republish, // of the second stream's rows none compares
		Floors: []sequence.Floor{{Namespace: "a", Position: 50}, {Namespace: "c", Position: 45}},
	}
	assert.True(t, reflect.DeepEqual(got, want), "got %+v, want %+v", got, want)
	repairing := sequence.Stream{Epoch: 5, Since: 3, Position: 4, Owes: sequence.Repair}
	got = sequence.TakeOver([]sequence.Stream{repairing, {Epoch: 6}}, []string{"a", "b"})
	assert.True(t, got.Owes == sequence.Repair && got.Epoch == 6 && got.Since == 3 && got.Position == 0,
		"got %+v", got)
	got.Resume(9)
	if got.Epoch != 9 {
		t.Errorf("epoch %d, want that of the newest row", got.Epoch)
	}
}

func TestBelow_is_what_the_former_stream_has_published(t *testing.T) {
	s := sequence.Stream{Floors: []sequence.Floor{{Namespace: "a", Position: 50}, {Position: 40}}}
	for _, test := range []struct {
		namespace string
		version   uint64
		want      bool
	}{{"a", 50, true}, {"a", 51, false}, {"b", 40, true}, {"b", 41, false}} {
		got := s.Below(test.namespace, test.version)
		assert.Equal(t, test.want, got, "%s at %d", test.namespace, test.version)
	}
}

func TestServer_finds_versions_that_do_not_compare(t *testing.T) {
	s := sequence.Stream{Position: 40, Floors: []sequence.Floor{{Namespace: "a", Position: 50}}}
	owing := s
	owing.Owes = sequence.Republish
	for _, test := range []struct {
		stream          *sequence.Stream
		version, newest uint64
		want            sequence.Mismatch
	}{
		{&s, 50, 50, ""},
		{&s, 49, 0, sequence.ServerOlder},
		{&s, 50, 51, sequence.RowNewer},
		{&owing, 10, 10, ""},
		{&owing, 10, 11, sequence.RowNewer},
	} {
		got := test.stream.Server(test.version, test.newest)
		assert.Equal(t, test.want, got, "%d, newest %d", test.version, test.newest)
	}
}

func TestListed_finds_versions_that_do_not_compare(t *testing.T) {
	s := sequence.Stream{Epoch: 7, Since: 5, Position: 40}
	rewound, reselecting := s, s
	rewound.Rewound, reselecting.Owes = 60, sequence.Reselect
	hashed := state(6, 30)
	hashed.Hash = 1
	for name, test := range map[string]struct {
		stream *sequence.Stream
		object sequence.Object
		last   *sequence.Row
		want   sequence.Mismatch
	}{
		"new":                        {&s, sequence.Object{UID: "u", Version: 41}, nil, ""},
		"unknown":                    {&s, sequence.Object{UID: "u", Version: 40}, nil, sequence.UnknownObject},
		"pending":                    {&s, sequence.Object{UID: "u", Version: 40, Pending: true}, nil, ""},
		"rewound":                    {&rewound, sequence.Object{UID: "u", Version: 40}, nil, ""},
		"another selection":          {&reselecting, sequence.Object{UID: "u", Version: 40}, nil, ""},
		"the same":                   {&s, sequence.Object{UID: "u", Version: 30, Hash: 1}, hashed, ""},
		"older":                      {&s, sequence.Object{UID: "u", Version: 29}, state(6, 30), sequence.ObjectOlder},
		"older than a row of before": {&s, sequence.Object{UID: "u", Version: 29}, state(4, 30), ""},
		"older, in a first case":     {&s, sequence.Object{UID: "u", Version: 29}, state(5, 30), sequence.ObjectOlder},
		"another uid":                {&s, sequence.Object{UID: "v", Version: 30}, state(6, 30), sequence.OtherObject},
		"a newer uid":                {&s, sequence.Object{UID: "v", Version: 31}, state(6, 30), ""},
		"other content":              {&s, sequence.Object{UID: "u", Version: 30, Hash: 2}, hashed, sequence.OtherContent},
		"unknown content":            {&s, sequence.Object{UID: "u", Version: 30, Hash: 2}, state(6, 30), ""},
		"back after its end":         {&s, sequence.Object{UID: "u", Version: 30}, end(7, 30), sequence.EndNotOlder},
		"back in a new epoch":        {&s, sequence.Object{UID: "u", Version: 30}, end(6, 50), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.stream.Listed(test.object, test.last)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestWatch_decides_the_events(t *testing.T) {
	s := sequence.Stream{Epoch: 7, Since: 5}
	rewound := s
	rewound.Rewound = 60
	put := func(version uint64) sequence.Seen { return sequence.Seen{UID: "u", Version: version} }
	del := func(version uint64) sequence.Seen { return sequence.Seen{UID: "u", Version: version, Deleted: true} }
	other := sequence.Seen{UID: "v", Version: 31}
	created := sequence.Event{UID: "v", Sequence: sequence.Sequence{Epoch: 7, Version: 31}}
	repeated := []sequence.Event{{UID: "u", Sequence: state(6, 30).Sequence, Again: true}}
	event := func(r *sequence.Row, again bool) sequence.Event {
		return sequence.Event{UID: r.UID, Sequence: r.Sequence, Again: again}
	}
	for name, test := range map[string]struct {
		stream *sequence.Stream
		seen   sequence.Seen
		last   *sequence.Row
		want   []sequence.Event
	}{
		"new":                              {&s, put(30), nil, []sequence.Event{event(state(7, 30), false)}},
		"newer":                            {&s, put(31), state(6, 30), []sequence.Event{event(state(7, 31), false)}},
		"known":                            {&s, put(30), state(6, 30), nil},
		"known, of a row of before":        {&s, put(29), state(4, 30), []sequence.Event{event(state(7, 29), false)}},
		"ended":                            {&s, del(31), state(6, 30), []sequence.Event{event(end(7, 31), false)}},
		"ended twice":                      {&s, del(31), end(6, 30), nil},
		"another uid":                      {&s, other, state(6, 30), []sequence.Event{event(end(6, 30), false), created}},
		"rewound":                          {&rewound, put(30), state(6, 40), []sequence.Event{event(state(6, 30), true)}},
		"rewound, without a row":           {&rewound, put(30), nil, []sequence.Event{event(state(7, 30), true)}},
		"rewound end":                      {&rewound, del(30), state(6, 40), []sequence.Event{event(end(6, 30), true)}},
		"rewound end of the row":           {&rewound, del(30), end(6, 40), []sequence.Event{event(end(6, 40), true)}},
		"behind":                           {&s, put(30), behind(state(6, 30)), repeated},
		"another uid at the row's version": {&s, sequence.Seen{UID: "v", Version: 30}, behind(state(6, 30)), nil},
		"ended behind, and newer":          {&s, del(41), behind(end(6, 40)), []sequence.Event{event(end(7, 41), false)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := test.stream.Watch(test.seen, test.last)
			assert.Equal(t, test.want, got)
		})
	}
}

func TestFromPatch_only_where_all_have_the_base(t *testing.T) {
	s := sequence.Stream{Epoch: 7, Since: 5}
	next := sequence.Event{UID: "u", Sequence: sequence.Sequence{Epoch: 7, Version: 31}}
	again, other, rejected := next, next, state(6, 30)
	again.Again, other.UID, rejected.Rejected = true, "v", true
	for name, test := range map[string]struct {
		event sequence.Event
		last  *sequence.Row
		want  bool
	}{
		"next": {next, state(6, 30), true}, "first": {next, nil, false}, "another time": {next, state(4, 30), false},
		"again": {again, state(6, 30), false}, "another uid": {other, state(6, 30), false},
		"ended":  {next, end(6, 30), false},
		"behind": {next, behind(state(6, 30)), false}, "rejected": {next, rejected, false},
	} {
		got := s.FromPatch(test.event, test.last)
		assert.Equal(t, test.want, got, name)
	}
}

func TestApply_keeps_what_follows(t *testing.T) {
	if got := sequence.Apply(state(6, 30), *state(6, 20)); got.Version != 30 || !got.Behind {
		t.Errorf("an older state leaves %+v", got)
	}
	rejected := state(6, 30)
	rejected.Rejected = true
	if got := sequence.Apply(rejected, *state(6, 30)); !got.Rejected || got.Behind {
		t.Errorf("the whole object behind a rejected event leaves %+v", got)
	}
	hashed, other := state(6, 30), state(6, 30)
	hashed.Hash, other.Hash = 1, 2
	if got := sequence.Apply(hashed, *other); got.Hash != 1 {
		t.Errorf("other content at the same sequence leaves %+v", got)
	}
	if got := sequence.Apply(rejected, *state(6, 31)); got.Rejected {
		t.Errorf("the next state leaves %+v", got)
	}
}

func TestLate_is_what_the_position_should_know(t *testing.T) {
	s := sequence.Stream{Epoch: 7, Position: 40}
	for _, test := range []struct {
		epoch, version uint64
		want           bool
	}{{7, 41, false}, {7, 40, true}, {6, 41, true}} {
		got := s.Late(state(test.epoch, test.version).Sequence)
		assert.Equal(t, test.want, got, "%d.%d", test.epoch, test.version)
	}
}

func TestList_and_its_absentees(t *testing.T) {
	s := sequence.Stream{Epoch: 7, Since: 5}
	object := sequence.Object{UID: "u", Version: 30}
	if got := s.List(object, state(6, 30)); got != nil {
		t.Errorf("a known state has %+v", got)
	}
	want := []sequence.Event{{UID: "u", Sequence: state(6, 30).Sequence, Again: true}}
	if got := s.List(object, behind(state(6, 30))); !reflect.DeepEqual(got, want) {
		t.Errorf("a state that the log has an older one behind has %+v, want %+v", got, want)
	}
	repairing := s
	repairing.Owes = sequence.Repair
	if got := repairing.List(object, state(6, 30)); !reflect.DeepEqual(got, want) {
		t.Errorf("a known state in a repair has %+v, want %+v", got, want)
	}
	untold := []sequence.Event{{UID: "u", Sequence: state(7, 30).Sequence}}
	if got := repairing.List(object, state(4, 30)); !reflect.DeepEqual(got, untold) {
		t.Errorf("a state of before in a repair has %+v, want %+v", got, untold)
	}
	if got, gone := s.Missing(state(6, 30), 50); !gone || got.Sequence != end(7, 50).Sequence {
		t.Errorf("an absent object has %+v", got)
	}
	if got, gone := s.Missing(end(6, 30), 50); gone {
		t.Errorf("an ended object has %+v", got)
	}
	if got, gone := s.Missing(behind(end(6, 30)), 50); !gone || !got.Again || got.Sequence != end(6, 30).Sequence {
		t.Errorf("an ended object that the log has a state behind has %+v", got)
	}
	if got, gone := sequence.Deselected(state(6, 30), 9, 20); !gone || got.Sequence != end(9, 30).Sequence {
		t.Errorf("a deselected object has %+v", got)
	}
	if got, gone := sequence.Deselected(state(6, 30), 9, 40); !gone || got.Sequence != end(9, 40).Sequence {
		t.Errorf("a deselected object has %+v", got)
	}
	if got, gone := sequence.Deselected(end(6, 30), 9, 40); gone {
		t.Errorf("an ended object that is deselected has %+v", got)
	}
	if got, gone := sequence.Deselected(behind(end(6, 30)), 9, 40); !gone || !got.Again ||
		got.Sequence != end(6, 30).Sequence {
		t.Errorf("an ended object that the log has a state behind has %+v", got)
	}
}

func TestPublish_tells_nothing_twice(t *testing.T) {
	s := sequence.Stream{Epoch: 7, Since: 5}
	event := sequence.Event{UID: "u", Sequence: state(7, 30).Sequence}
	for name, test := range map[string]struct {
		last *sequence.Row
		want int
	}{
		"new": {nil, 1}, "newer": {state(6, 29), 1}, "the same": {state(6, 30), 0}, "the same, of before": {state(4, 30), 1},
		"older": {state(7, 31), 0},
	} {
		got := s.Publish(event, test.last)
		assert.Len(t, got, test.want, name)
	}
}

// The end of the other object is behind the older state, so that a compacted log keeps it.
func TestPublish_repeats_an_older_state_without_an_end_before_it(t *testing.T) {
	s := sequence.Stream{Epoch: 7, Since: 5}
	older := sequence.Event{UID: "former", Sequence: state(7, 20).Sequence, Again: true}
	assert.Equal(t, []sequence.Event{older}, s.Publish(older, state(7, 30)))
	newer := sequence.Event{UID: "next", Sequence: state(7, 40).Sequence, Again: true}
	assert.Equal(t, []sequence.Event{{UID: "u", Sequence: end(7, 30).Sequence}, newer}, s.Publish(newer, state(7, 30)))
}
