// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
)

func marker(op event.Op, lane uint16) replicatest.Event {
	return replicatest.Event{Op: op, Lane: lane, Data: `{"n":1,"complete":true}`, At: noon}
}

func TestPrune_waits_until_the_target_is_listed(t *testing.T) {
	g := newRig(t, nil)
	g.tell(marker(event.ResyncStarted, 0), is("told", at(1, 10)), marker(event.ResyncCompleted, 0))
	g.catchUp(t.Context())
	g.has("told", at(1, 10))
	g.has("left", at(1, 9)) // the list has it later than the log was read
	g.synced()
	g.pruning.Wait()
	assert.Equal(t, keys.Gone, g.row("left").Desired.Claim)
	assert.Equal(t, keys.Whole, g.row("told").Desired.Claim)
}

// Some objects of the scope may not have been told.
func TestPrune_needs_a_resync_that_is_complete(t *testing.T) {
	g := newRig(t, nil)
	cutShort := marker(event.ResyncCompleted, 0)
	cutShort.Data = `{"n":1,"complete":false}`
	g.tell(marker(event.ResyncStarted, 0), cutShort)
	g.has("left", at(1, 9))
	g.synced()
	g.catchUp(t.Context())
	g.pruning.Wait()
	assert.Equal(t, keys.Unknown, g.row("left").Desired.Claim)
}

func TestPrune_ends_also_what_is_not_written_yet(t *testing.T) {
	g := newRig(t, nil)
	g.tell(is("left", at(1, 10)), marker(event.ResyncStarted, 0), marker(event.ResyncCompleted, 0))
	g.synced()
	g.catchUp(t.Context())
	g.pruning.Wait()
	assert.Equal(t, keys.Gone, g.row("left").Desired.Claim)
}

func TestPrune_counts_all_before_the_first_delete(t *testing.T) {
	g := newRig(t, nil)
	g.tell(marker(event.ResyncStarted, 0), marker(event.ResyncCompleted, 0))
	for _, name := range names(7) {
		g.has(name, at(1, 9))
	}
	g.synced()
	g.catchUp(t.Context())
	id, _ := g.queue.Get()
	row := g.table.Get(id)
	assert.False(t, g.allowed(&row))
	g.pruning.Wait()
}

func TestPrune_waits_for_all_lanes(t *testing.T) {
	g := newRig(t, nil)
	g.log.Lanes = 2
	g.tell(marker(event.ResyncStarted, 0), marker(event.ResyncStarted, 1), is("told", at(1, 10)),
		marker(event.ResyncCompleted, 0))
	g.has("left", at(1, 9))
	g.synced()
	g.catchUp(t.Context())
	g.pruning.Wait()
	assert.Equal(t, keys.Unknown, g.row("left").Desired.Claim)
	g.tell(marker(event.ResyncCompleted, 1))
	g.pruning.Wait()
	assert.Equal(t, keys.Gone, g.row("left").Desired.Claim)
	g.tell(is("left", at(1, 9)))
	assert.Equal(t, keys.Whole, g.row("left").Desired.Claim, "told again behind it")
	assert.True(t, g.deletes.Allows(noon, 0))
}

// A resource may not be listed, and deletes of others are resumed meanwhile.
func TestPrune_is_not_released_before_the_target_is_listed(t *testing.T) {
	g := newRig(t, nil)
	p := New(*g.cfg)
	p.set(g.run)
	g.tell(marker(event.ResyncStarted, 0), marker(event.ResyncCompleted, 0))
	g.catchUp(t.Context())
	for i, name := range names(7) {
		e := ended(name, at(1, uint64(20+i)))
		e.At = noon.Add(time.Minute)
		g.tell(e)
		g.has(name, at(1, 10))
	}
	row := g.row("c00")
	require.False(t, g.allowed(&row))
	require.NoError(t, p.Resume(t.Context()))
	assert.True(t, g.allowed(&row))
	for i := range 7 {
		g.has(fmt.Sprint("left", i), at(1, 9))
	}
	g.synced()
	g.pruning.Wait()
	row = g.row("left0")
	require.Equal(t, keys.Gone, row.Desired.Claim)
	assert.False(t, g.allowed(&row), "no person was told of them")
	require.NoError(t, p.Resume(t.Context()))
	assert.True(t, g.allowed(&row))
}

// A replica that was resumed, has deleted and was started again prunes nothing more.
func TestPrune_does_not_count_what_the_target_does_not_have(t *testing.T) {
	g := newRig(t, func(c *Config) { c.State = &memory{guard.Stops{Deletes: noon}} })
	for _, name := range names(50) {
		g.tell(is(name, at(1, 10)))
	}
	g.tell(marker(event.ResyncStarted, 0), is("told", at(1, 10)), marker(event.ResyncCompleted, 0))
	g.synced()
	g.has("told", at(1, 10))
	g.catchUp(t.Context())
	g.pruning.Wait()
	e := ended("told", at(1, 20))
	e.At = noon.Add(30 * time.Minute)
	g.tell(e)
	row := g.row("told")
	assert.True(t, g.allowed(&row), "one object goes")
	for _, name := range names(6) {
		e := ended("other"+name, at(1, 20))
		e.At = noon
		g.tell(is(name, at(1, 30)), e) // what was not counted comes back
	}
	assert.False(t, g.allowed(&row), "seven go")
}

// A definition is deleted and made again with another scope while a prune waits.
func TestPrune_does_not_wait_for_a_stream_that_is_not_read_any_more(t *testing.T) {
	g := newRig(t, nil)
	g.targets.listing.Begin(0, "v1", []string{""})
	waited := make(chan bool, 1)
	go func() { waited <- g.targets.listing.WaitListed(t.Context(), 0, "", true) }()
	g.targets.listing.Begin(0, "v1", []string{"other"})
	assert.False(t, <-waited)
}
