// SPDX-License-Identifier: Apache-2.0

package refused

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
)

var errRefused = errors.New("no")

// pipeline has what the streams of a pipeline have in common, and what the checkpoint has of one.
type pipeline struct {
	all   atomic.Int64
	saved []checkpoint.Refused
}

func (p *pipeline) open() *Objects { return New(&p.all, &p.saved) }

func TestObjects_are_what_the_checkpoint_has(t *testing.T) {
	var p pipeline
	r := p.open()
	require.True(t, r.Add("b", "7", 1, errRefused))
	require.True(t, r.Add("a", "5", 2, errRefused))
	require.True(t, r.Add("b", "9", 1, errRefused))
	want := []checkpoint.Refused{{Key: "a", Changes: 2, Version: "5"}, {Key: "b", Changes: 2, Version: "9"}}
	assert.Equal(t, want, p.saved)
	committed := p.saved
	r.Uncount("b", 1)
	r.Remove("a")
	assert.Equal(t, want, committed, "a commit has what it had")
	assert.Equal(t, []checkpoint.Refused{{Key: "b", Changes: 1, Version: "9"}}, p.saved)
	next := p.open()
	assert.True(t, next.Has("b") && !next.Has("a") && next.Len() == 1)
	key, _ := next.First()
	assert.Empty(t, key, "another process does not know why")
	key, err := r.First()
	assert.Equal(t, "b", key)
	assert.Equal(t, errRefused, err)
	r.RemoveIf(func(key string) bool { return key == "b" })
	assert.Nil(t, p.saved)
}

func TestObjects_of_a_pipeline_are_limited_together(t *testing.T) {
	var p pipeline
	a, other := p.open(), New(&p.all, &[]checkpoint.Refused{})
	for n := range Most - 1 {
		require.True(t, a.Add(fmt.Sprint(n), "1", 1, errRefused))
	}
	require.True(t, other.Add("x", "1", 1, errRefused))
	assert.False(t, other.Add("y", "1", 1, errRefused))
	assert.False(t, a.Add("y", "1", 1, errRefused))
	assert.True(t, other.Add("x", "2", 1, errRefused), "it is recorded already")
	a.Remove("0")
	assert.True(t, other.Add("y", "1", 1, errRefused))
	other.Close()
	assert.EqualValues(t, Most-2, p.all.Load())
}

func TestObjects_carry_the_changes_that_were_refused(t *testing.T) {
	const key = "a"
	for name, c := range map[string]struct {
		change Carried
		want   int
		ok     bool
	}{
		"a change of its own is one more":          {Carried{Key: key, Version: "9", Changes: 1}, 3, true},
		"a listed one is their outcome":            {Carried{Key: key, Version: "9", Changes: 1, Outcome: true}, 2, true},
		"an earlier one that is counted is itself": {Carried{Key: key, Version: "6", Counted: true}, 0, false},
		"the last one that is counted is for both": {Carried{Key: key, Version: "7", Counted: true}, 2, true},
		"another object is itself":                 {Carried{Key: "b", Version: "9", Changes: 1}, 0, false},
	} {
		var p pipeline
		r := p.open()
		require.True(t, r.Add(key, "7", 2, errRefused))
		got, ok := r.Carry(c.change)
		assert.Equal(t, c.want, got, name)
		assert.Equal(t, c.ok, ok, name)
		if ok {
			got, _ = r.Carry(Carried{Key: key, Version: "10", Changes: 1, Outcome: true})
			assert.Equal(t, 1, got, "%s: the changes are under way", name)
		}
	}
}

func TestObjects_of_the_process_before_are_counted_once(t *testing.T) {
	var p pipeline
	r := p.open()
	require.True(t, r.Add("a", "7", 2, errRefused))
	for version, want := range map[string]bool{"6": true, "7": true, "8": false, "": false, "v": false} {
		assert.Equal(t, want, r.Counted("a", version), version)
	}
	assert.False(t, r.Counted("b", "6"))
	r.ForgetVersions()
	assert.False(t, r.Counted("a", "6"), "versions do not compare")
}

func TestObjects_are_ready_at_the_position_of_their_last_change(t *testing.T) {
	var p pipeline
	r := p.open()
	require.True(t, r.Add("a", "7", 1, errRefused))
	assert.True(t, r.Ready("a", "7") && r.Ready("a", "8"))
	assert.False(t, r.Ready("a", "6") || r.Ready("a", "") || r.Ready("b", "8"))
	r.Shown("a", "9")
	assert.False(t, r.Ready("a", "8"))
	r.ForgetVersions()
	assert.True(t, r.Ready("a", "1"))
}

func TestObjects_are_tried_less_and_less_often(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p pipeline
		r := p.open()
		key, _ := r.Next()
		require.Empty(t, key)
		require.True(t, r.Add("a", "7", 1, errRefused))
		<-r.Added()
		var waits []time.Duration
		for range 8 {
			_, at := r.Next()
			waits = append(waits, time.Until(at))
			r.Wait("a")
			_, at = r.Next()
			require.Equal(t, unreadyDelay, time.Until(at), "it cannot be tried now")
			r.Try("a")
		}
		assert.True(t, slices.IsSorted(waits), waits)
		assert.Equal(t, FirstDelay, waits[0])
		assert.Equal(t, 2*FirstDelay, waits[1])
		assert.Equal(t, LastDelay, waits[7])
		key, _ = p.open().Next()
		require.Equal(t, "a", key)
		_, at := p.open().Next()
		assert.LessOrEqual(t, time.Until(at), time.Duration(0), "another process tries it at once")
	})
}
