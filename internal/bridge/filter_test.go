// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"crypto/sha256"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/delivery"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// testFilter lets out neither operations of one kind, nor updates to a version that has the content of the state
// before.
type testFilter struct {
	without source.Op
	content func(version string) string
}

func (f testFilter) Filter(
	c *source.Change, before [16]byte, _ func() []byte,
) (reason string, now [16]byte, err error) {
	if f.content != nil && c.Op != source.Deleted {
		sum := sha256.Sum256([]byte(f.content(c.ResourceVersion)))
		now = [16]byte(sum[:])
	}
	switch {
	case c.Op == f.without:
		return "operation", now, nil
	case c.Op == source.Updated && now != [16]byte{} && now == before:
		return "unchanged", now, nil
	default:
		return "", now, nil
	}
}

// tens says that versions of the same ten have the same content.
func tens() *StreamSpec { return &StreamSpec{Filter: testFilter{content: modelContent}} }

func without(op source.Op) *StreamSpec { return &StreamSpec{Filter: testFilter{without: op}} }

func TestFilter_what_is_not_published_moves_the_position_and_is_known(t *testing.T) {
	log, r, s := startNew(t, without(source.Added))
	snapshot(t, s, "10", "a u1 5")
	send(t, s, source.Added, "b", "u2", "11", source.ReasonWatch)
	r.settle()
	if got := s.Tracker.Position(); got != "10" { // the version before the last: another change may share that
		t.Errorf("the position is %s", got)
	}
	row, _ := s.Ledger.Get("default/b")
	assert.True(t, row.ResourceVersion == "11" && s.Ledger.Len() == 2, "known is %+v of %d", row, s.Ledger.Len())
	send(t, s, source.Updated, "b", "u2", "12", source.ReasonWatch)
	send(t, s, source.Deleted, "b", "u2", "13", source.ReasonWatch)
	r.settle()
	expect(t, log.lines(), "snapshot-started 10", "snapshot-completed 10", "updated default/b u2 12 watch",
		"deleted default/b u2 13 watch")
	assert.EqualValues(t, 2, value(t, r.registry, "events_filtered_total"), "events are counted")
}

func TestFilter_an_update_is_compared_with_the_state_before_published_or_not(t *testing.T) {
	log, r, s := startNew(t, tens())
	for _, version := range []string{"10", "11", "12", "20", "21", "30"} {
		send(t, s, source.Updated, "a", "u1", version, source.ReasonWatch)
	}
	send(t, s, source.Deleted, "a", "u1", "31", source.ReasonWatch)
	send(t, s, source.Added, "a", "u2", "32", source.ReasonWatch)
	send(t, s, source.Added, "a", "u3", "33", source.ReasonWatch) // its end is not known
	r.settle()
	expect(t, log.lines(), "added default/a u1 10 watch", "updated default/a u1 20 watch", "updated default/a u1 30 watch",
		"deleted default/a u1 31 watch",
		"added default/a u2 32 watch", "deleted default/a u2 32 watch", "added default/a u3 33 watch")
}

func TestFilter_a_restart_and_a_list_publish_nothing_that_did_not_change(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	s := r.stream(tens())
	snapshot(t, s, "20", "a u1 10", "b u2 11")
	send(t, s, source.Updated, "a", "u1", "21", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "22", source.ReasonWatch)
	r.settle()
	require.NoError(t, r.journal.Commit(t.Context()))
	_ = r.stop()
	had := len(log.lines())

	r = start(t, log, store)
	s = r.stream(tens())
	relist(t, s, "40", "a u1 29", "b u2 30")
	r.settle()
	expect(t, log.lines()[had:], "gap 40", "updated default/b u2 30 relist")
}

// What a process published and did not commit is known from the log, which does not tell the content.
func TestFilter_publishes_in_doubt(t *testing.T) {
	log, store := newReadableLog(), &crashingStore{}
	store.left.Store(1 << 30)
	r := start(t, log, store)
	s := r.stream(tens())
	snapshot(t, s, "20", "a u1 10")
	store.left.Store(0)
	send(t, s, source.Updated, "a", "u1", "21", source.ReasonWatch)
	r.settleAndStop()
	had := len(log.lines())

	r = start(t, log, &store.memoryStore)
	s = r.stream(tens())
	send(t, s, source.Updated, "a", "u1", "21", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "22", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "23", source.ReasonWatch)
	r.settle()
	expect(t, log.lines()[had:], "updated default/a u1 22 watch")
}

func TestFilter_a_folded_change_is_judged_as_one(t *testing.T) {
	log := newFakeLog()
	r := start(t, log, &memoryStore{})
	spec := tens()
	spec.Latest = true
	s := r.stream(spec)
	send(t, s, source.Added, "a", "u1", "10", source.ReasonWatch)
	r.settle()
	log.set(func() { log.gate = make(chan struct{}) })
	send(t, s, source.Updated, "a", "u1", "20", source.ReasonWatch)
	must.Happen(t, "the update to be under way", func() bool { return underWay(s) })
	send(t, s, source.Updated, "a", "u1", "30", source.ReasonWatch) // it changes something, and
	send(t, s, source.Updated, "a", "u1", "31", source.ReasonWatch) // this one alone would not
	close(log.gate)
	r.settle()
	send(t, s, source.Updated, "a", "u1", "32", source.ReasonWatch)
	r.settle()
	expect(t, log.lines(), "added default/a u1 10 watch", "updated default/a u1 20 watch",
		"updated default/a u1 31 watch 2")
}

// What the log has lost is published again, although nothing has changed.
func TestFilter_publishes_what_is_repaired(t *testing.T) {
	r := start(t, newFakeLog(), &memoryStore{})
	s := r.stream(tens())
	row := checkpoint.Row{UID: "u1", ResourceVersion: "10", Epoch: 1, Version: 10}
	_, row.Digest, _ = s.Spec.Filter.Filter(&source.Change{
		Op:    source.Added,
		Ident: source.Ident{UID: "u1", ResourceVersion: "10"},
	}, [16]byte{}, nil)
	for _, c := range []struct {
		again int64
		since uint64
		want  bool
	}{{0, 0, true}, {1, 0, false}, {0, 2, false}} {
		s.Since.Store(c.since)
		a := &delivery.Attempt{Delta: delivery.Delta{Change: source.Change{
			Op: source.Updated, Ident: source.Ident{UID: "u1", ResourceVersion: "11"}, Again: c.again,
		}}}
		assert.Equal(t, c.want, s.Publication.Filtered(a, row), "%+v: whether it is left out", c)
	}
}

// Versions of an earlier epoch do not compare, so the first state of each object is published.
func TestFilter_publishes_what_a_new_epoch_shows_first(t *testing.T) {
	log, r, s := startNew(t, tens())
	send(t, s, source.Added, "a", "u1", "10", source.ReasonWatch)
	r.settle()
	s.Epoch++
	s.Since.Store(s.Epoch)
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	r.settle()
	expect(t, log.lines(), "added default/a u1 10 watch", "updated default/a u1 11 watch")
}

// Of what was rejected the log has not the state, so that nothing can be the same.
func TestFilter_publishes_what_follows_a_rejection(t *testing.T) {
	log, r, s := startNew(t, tens())
	log.set(func() {
		log.refuse = func(m *sink.Message) bool { return strings.HasSuffix(m.ID, ".10.0") }
	})
	send(t, s, source.Added, "a", "u1", "10", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	r.settle()
	expect(t, log.lines(), "rejected default/a u1 10 watch", "updated default/a u1 11 watch")
}

// An object leaves a selection unpublished, its row is dropped, and it enters again: what the log has last says that it
// never left.
func TestFilter_what_it_let_through_stays_so_whatever_the_log_has(t *testing.T) {
	log, r, s := startNew(t, &StreamSpec{LabelSelector: "a=b", Filter: onlyAdded{}})
	send(t, s, source.Added, "a", "u1", "10", source.ReasonWatch)
	send(t, s, source.Deleted, "a", "u1", "11", source.ReasonWatch)
	r.settle()
	s.Ledger.Prune("12")
	send(t, s, source.Added, "a", "u1", "13", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "14", source.ReasonWatch)
	r.settle()
	expect(t, log.lines(), "added default/a u1 10 watch", "updated default/a u1 13 watch")
}

type onlyAdded struct{}

func (onlyAdded) Filter(c *source.Change, _ [16]byte, _ func() []byte) (reason string, now [16]byte, err error) {
	if c.Op == source.Added {
		return "", now, nil
	}
	return "operation", now, nil
}

func TestFilter_does_not_spoil_what_is_known_of_a_snapshot_that_is_not_published(t *testing.T) {
	log := newFakeLog()
	r := start(t, log, &memoryStore{})
	spec := tens()
	spec.SkipSnapshot = true
	s := r.stream(spec)
	snapshot(t, s, "20", "a u1 10")
	send(t, s, source.Updated, "a", "u1", "21", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "22", source.ReasonWatch)
	r.settle()
	expect(t, log.lines(), "updated default/a u1 21 watch")
	assert.EqualValues(t, 1, value(t, r.registry, "events_filtered_total"), "events are counted")
}

// undecided is the reason for which a filter that fails drops a change, or nothing.
type undecided string

func (u undecided) Filter(*source.Change, [16]byte, func() []byte) (reason string, now [16]byte, err error) {
	return string(u), now, errors.New("no such key")
}

func TestFilter_that_fails_publishes_or_drops(t *testing.T) {
	for reason, want := range map[undecided][]string{"": {"added default/a u1 10 watch"}, "error": nil} {
		log := newFakeLog()
		r := start(t, log, &memoryStore{})
		s, said := r.stream(&StreamSpec{Filter: reason}), &testlog.Text{}
		s.Env.Log = said.Logger()
		send(t, s, source.Added, "a", "u1", "10", source.ReasonWatch)
		r.settle()
		expect(t, log.lines(), want...)
		becomes := map[undecided]string{"": "published", "error": "dropped"}[reason]
		n := said.Count(`err="no such key" changeIs=` + becomes)
		assert.Equal(t, 1, n, "it says %d times what helps, want once", n)
		assert.EqualValues(t, 1, value(t, r.registry, "filter_errors_total"), "failures are counted, want 1")
	}
}
