// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestAudit_finds_what_the_log_has_and_does_not_exist(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
	api.add(3)
	b := runBridge(t, api, log, store, func(c *Config) { c.Audit = 20 * time.Millisecond })
	s := b.only(t)
	must.Happen(t, "the watch", func() bool { return s.Status.Watching() && s.Safe() == "4" })
	must.Happen(t, "an audit", func() bool { return value(t, b.registry, "audits_total") > 0 })
	require.EqualValues(t, 0, value(t, b.registry, "audit_differences_total"), "objects differ where all is well")
	s.Mu.Lock()
	s.Ledger.Put("default/ghost", checkpoint.Row{UID: "u", ResourceVersion: "2"})
	s.Mu.Unlock()
	must.Happen(t, "the ghost's end", func() bool {
		return slices.Contains(log.lines(),
			"deleted default/ghost u 2 relist")
	})
	n := value(t, b.registry, "audit_differences_total")
	assert.True(t, n >= 1, "%v objects differ", n)
	require.NoError(t, b.stop())
}

func TestAudit_finds_a_state_of_another_history(t *testing.T) {
	_, _, s := startNew(t, nil)
	snapshot(t, s, "10", "a u1 5")
	row, _ := s.Ledger.Get("default/a")
	row.Written = 1000
	s.Ledger.Put("default/a", row)
	for written, agrees := range map[int64]bool{1000: true, 0: true, 1001: false} {
		id := ledger.Ident("default/a", &row)
		assert.Equal(t, agrees, s.Auditor.Agrees("default/a", &id, written, "10"), "written at %d", written)
	}
}

func TestAudit_that_finds_something_distrusts_the_position(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
	api.add(3)
	b := runBridge(t, api, log, store, func(c *Config) { c.Audit = 20 * time.Millisecond })
	s := b.only(t)
	must.Happen(t, "the watch", func() bool { return s.Status.Watching() && s.Safe() == "4" })
	gate := log.hold()
	s.Mu.Lock()
	s.Ledger.Put("default/ghost", checkpoint.Row{UID: "u", ResourceVersion: "2"})
	s.Mu.Unlock()
	must.Happen(t, "the list", func() bool { return value(t, b.registry, "relists_total") == 1 })
	assert.Empty(t, s.Safe(), "the stream is safe, and the log has what does not exist")
	assert.Equal(t, "4", s.Tracker.Position(), "the stream is safe, and the log has what does not exist")
	close(gate)
	must.Happen(t, "the end of the list", func() bool { return s.Safe() == "4" })
	require.NoError(t, b.stop())
}

// A watch expires while an audit asks for a list: there is one list.
func TestAudit_asks_for_no_second_list(t *testing.T) {
	_, _, s := startNew(t, nil)
	snapshot(t, s, "10", "a u1 5")
	why := source.Why{Cause: source.CauseAudit, Message: "objects differ"}
	s.Epochs.AskForList(why)
	s.Epochs.AskForList(why)
	require.Len(t, s.Epochs.Again, 1)
	note(t, s, source.Progress{Kind: source.Gap, Version: "20", Why: source.Why{Cause: source.CauseExpired}})
	require.Empty(t, s.Epochs.Again, "the list that has begun is asked for")
	s.Epochs.AskForList(why)
	require.Empty(t, s.Epochs.Again, "another list is asked for")
}

func TestAudit_is_not_confused_by_what_is_under_way(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
	b := runBridge(t, api, log, store, func(c *Config) { c.Audit = time.Millisecond })
	s := b.only(t)
	must.Happen(t, "the watch", func() bool { return s.Status.Watching() })
	for n := range 200 {
		api.add(1)
		must.Happen(t, "an audit", func() bool { return value(t, b.registry, "audits_total") >= float64(n)/20 })
	}
	must.Happen(t, "all events", func() bool { return len(log.lines()) == 202 })
	assert.EqualValues(t, 0, value(t, b.registry, "audit_differences_total"), "objects differ")
	require.NoError(t, b.stop())
}

// A session ends while a stream of it cannot be read. In the next one it can.
func TestState_a_failure_is_over_whatever_session_it_began_in(t *testing.T) {
	r := start(t, newFakeLog(), &memoryStore{})
	spec := &StreamSpec{}
	s := r.stream(spec)
	s.Status.State(source.Waiting, errors.New("away"))
	next := newSession(r.pipeline, newFakeLog())
	defer next.delivery.ShutDown()
	s = must.Get(next.open(spec, source.Stream{Resource: configMaps}))(t)
	s.Status.State(source.Listing, nil)
	assert.True(t, s.Figures.Incidents.Past().Cleared.IsZero(), "the failure is over before the stream watches")
	s.Status.State(source.Watching, nil)
	past := s.Figures.Incidents.Past()
	require.Error(t, past.Failure.Err, "the stream watches, and its past is %+v", past)
	require.False(t, past.Cleared.IsZero(), "the stream watches, and its past is %+v", past)
	s.Status.State(source.Watching, nil)
	assert.Equal(t, past.Cleared, s.Figures.Incidents.Past().Cleared, "the failure is over twice")
}
