// SPDX-License-Identifier: Apache-2.0

package delivery

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// What may take long is worked on aside: an upload, a read of the log, and a commit of another number.
func TestWaits_what_may_take_long_is_worked_on_aside(t *testing.T) {
	large, first, again := errors.New("too large"), &Whole{}, source.Change{Again: Unnumbered}
	for name, c := range map[string]struct {
		attempt Attempt
		waits   bool
	}{
		"a change":                   {Attempt{}, false},
		"an upload":                  {Attempt{tooLarge: large}, true},
		"what is uploaded":           {Attempt{tooLarge: large, Whole: first}, false},
		"a rejection":                {Attempt{tooLarge: large, Rejected: large}, false},
		"a search in the log":        {Attempt{check: check{sought: true}}, true},
		"another number":             {Attempt{check: check{renumbered: true}}, true},
		"the number of a repetition": {Attempt{Delta: Delta{Change: again}}, true},
	} {
		assert.Equal(t, c.waits, c.attempt.waits(StoreOversize), name)
	}
	reduced := Attempt{tooLarge: large}
	assert.False(t, reduced.waits(ReduceOversize), "what is too large is published without its object at once")
}

func TestOversize_only_events_are_reduced_and_only_once(t *testing.T) {
	large := sink.TooLarge(errors.New("2 MiB"))
	for name, c := range map[string]struct {
		mode Oversize
		a    Attempt
		err  error
		want bool
	}{
		"an event":                      {ReduceOversize, Attempt{}, large, true},
		"an event, to be kept":          {StoreOversize, Attempt{}, large, true},
		"not asked for":                 {RejectOversize, Attempt{}, large, false},
		"refused for another reason":    {ReduceOversize, Attempt{}, errors.New("no"), false},
		"reduced already":               {ReduceOversize, Attempt{tooLarge: large}, large, false},
		"what says that it is rejected": {ReduceOversize, Attempt{Rejected: large}, large, false},
		"a marker":                      {ReduceOversize, Attempt{Marker: &Marker{}}, large, false},
	} {
		assert.Equal(t, c.want, c.a.reducible(c.mode, c.err), name)
	}
}

// Only where it is known when the object became what the event says can be told how long its delivery took.
func TestWrittenAt_is_of_watched_writes_that_tell(t *testing.T) {
	const at = 1772359200
	for _, c := range []struct {
		name string
		a    Attempt
		told bool
	}{
		{"an update", Attempt{Delta: Delta{Change: source.Change{
			Op: source.Updated, Reason: source.ReasonWatch,
			Written: at,
		}}}, true},
		{"a newer one", Attempt{Delta: Delta{Change: source.Change{
			Op: source.Updated, Reason: source.ReasonWatch, Written: at, Follows: true, Before: at - 1,
		}}}, true},
		{"one that leaves no time", Attempt{Delta: Delta{Change: source.Change{
			Op: source.Updated, Reason: source.ReasonWatch, Written: at, Follows: true, Before: at,
		}}}, false},
		{"a deletion", Attempt{Delta: Delta{Change: source.Change{
			Op: source.Deleted, Reason: source.ReasonWatch,
			Written: at,
		}}}, false},
		{"of a first list", Attempt{Delta: Delta{Change: source.Change{
			Op: source.Added, Reason: source.ReasonSnapshot,
			Written: at,
		}}}, false},
		{"a marker", Attempt{Marker: &Marker{}, Delta: Delta{Change: source.Change{
			Op:     source.Updated,
			Reason: source.ReasonWatch, Written: at,
		}}}, false},
	} {
		got := writtenAt(&c.a)
		assert.True(t, c.told == (got.Unix() == at) && c.told != got.IsZero(), "%s: %v", c.name, got)
	}
}

// What may be true of every event is said now and then, and not only once.
func TestOften_has_an_interval_for_all(t *testing.T) {
	var a Account
	a.SayEvery(time.Minute)
	all := reflect.ValueOf(&a.often).Elem()
	for i := range all.NumField() {
		assert.Equal(t, int64(time.Minute), all.Field(i).FieldByName("Interval").Int(),
			"%s has the interval", all.Type().Field(i).Name)
	}
}
