// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// saved is a bridge that has published a@5 and saved that.
func saved(t *testing.T, log sink.Sink, store checkpoint.Store) (*rig, *stream.Stream) {
	t.Helper()
	r, s := startStream(t, log, store)
	snapshot(t, s, "10", "a u1 5")
	require.NoError(t, r.journal.Save(t.Context()))
	return r, s
}

// resumesAt checks where a bridge that starts now goes on.
func resumesAt(t *testing.T, log sink.Sink, store checkpoint.Store, spec *StreamSpec, want string) {
	t.Helper()
	version, _, ok := start(t, log, store).stream(spec).Resume()
	if !ok {
		version = ""
	}
	assert.Equal(t, want, version, "the stream resumes")
}

// An object that is refused where no more may be recorded holds the mark back, not what is known to be acknowledged.
func TestRepair_notices_a_loss_behind_what_is_refused(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	r.refusals.Store(refused.Most)
	log.set(func() { log.refuse = func(m *sink.Message) bool { return strings.HasSuffix(m.Subject, ".stuck") } })
	send(t, s, source.Added, "stuck", "u9", "11", source.ReasonWatch)
	must.Happen(t, "the refusal", func() bool { return r.delivery.Broker.Problem(nil) != nil })
	for v := 20; v < 30; v++ {
		send(t, s, source.Updated, "a", "u1", fmt.Sprint(v), source.ReasonWatch)
		must.Happen(t, "the event",
			func() bool { row, _ := s.Ledger.Get("default/a"); return row.ResourceVersion == fmt.Sprint(v) })
	}
	r.stopSaved()
	log.lose(8)
	_, s = startStream(t, log, store)
	assert.Equal(t, sequence.Repair, s.Saved.Owes.List, "the loss is not noticed")
}

// Another log under the same name, that happens to be as long.
func TestRepair_of_another_log_nothing_is_known(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	log.id = "first"
	r, _ := saved(t, log, store)
	_ = r.stop()
	log.id = "second"
	resumesAt(t, log, store, nil, "")
	assert.Equal(t, "second", store.state.Log.ID, "the checkpoint says %+v", store.state.Log)
}

// The end of a snapshot was announced and not committed, and another stream has announced itself at the same subject
// since.
func TestReadBack_a_snapshot_is_called_complete_once(t *testing.T) {
	log, store := newReadableLog(), &crashingStore{}
	store.left.Store(2)
	r, s := startStream(t, log, store)
	snapshot(t, s, "10", "a u1 5")
	_ = r.stop()
	require.NotEqual(t, (checkpoint.Snapshot{}), store.state.Streams[s.Name].Unannounced,
		"the commit that says that the end is announced is saved")
	must.Get(log.append(&sink.Message{Subject: "k8s.test.core.configmaps._._snapshot", ID: "another"}))(t)
	log.forgetIDs()
	r, s = startStream(t, log, &store.memoryStore)
	r.settle()
	checkOnce(t, log)
	assert.Equal(t, "10", s.Safe(), "the stream is safe")
}

// The object was there when etcd was backed up no more: its deletion has a version of the history before.
func TestHistory_a_name_that_was_used_before_the_restore_is_used_again(t *testing.T) {
	for _, crash := range []bool{false, true} {
		log, store, r, s := listed(t, "100", "a u1 90")
		restored(t, s)
		snapshot(t, s, "12")
		if crash {
			_ = r.stop()
			r, s = startStream(t, log, store)
		} else if err := r.journal.Save(t.Context()); err != nil {
			t.Fatal(err)
		}
		send(t, s, source.Added, "a", "u2", "14", source.ReasonWatch)
		r.settle()
		lines := log.lines()
		assert.Equal(t, "added default/a u2 14 watch", lines[len(lines)-1], "crash %v: the log ends", crash)
	}
}

// The broker has the marker, its answer was lost, and it knows ids no more. Meanwhile another stream may have announced
// itself at the same subject.
func TestMarkers_are_in_the_log_once_although_an_answer_is_lost(t *testing.T) {
	for _, other := range []bool{false, true} {
		log, store := newReadableLog(), &memoryStore{}
		r, s := startStream(t, log, store)
		answers := 0
		log.set(func() {
			log.faults = func() fault {
				if answers++; answers > 1 {
					return noFault
				}
				if other {
					_, _ = log.append(&sink.Message{Subject: "k8s.test.core.configmaps._._snapshot", ID: "another"})
				}
				log.byID = map[string]int{}
				return lostAnswer
			}
			log.stored = func() { log.byID = map[string]int{} }
		})
		note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "10"})
		r.settle()
		n := 0
		for _, line := range log.lines() {
			if strings.HasPrefix(line, "snapshot-started") {
				n++
			}
		}
		assert.Equal(t, 1, n,
			"other %v: the marker is there %d times:\n%s", other, n, strings.Join(log.lines(), "\n"))
	}
}

// A list is cut short before the broker has acknowledged its gap, and comes again at the same version. The broker does
// not know ids.
func TestMarkers_are_in_the_log_once_although_a_list_begins_again(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	log.set(func() { log.stored = func() { log.byID = map[string]int{} } })
	gate := log.hold()
	ctx, cut := context.WithCancel(t.Context())
	cut()
	gap := source.Marker{Kind: source.MarkerGap, Epoch: s.Epoch, From: "10", To: "20"}
	require.ErrorIs(t, s.Lists.AnnounceList(ctx, gap), context.Canceled)
	announced := make(chan error)
	go func() { announced <- s.Lists.AnnounceList(t.Context(), gap) }()
	must.Happen(t, "the gap at the broker", func() bool { return r.delivery.InFlight.Count() > 0 })
	log.set(func() { log.gate = nil })
	close(gate)
	require.NoError(t, <-announced)
	require.NoError(t, s.Lists.AnnounceList(t.Context(), gap))
	r.settle()
	expect(t, log.lines()[3:], "gap 20")
}

// The list was complete, and its end not announced, when the log lost it.
func TestRepair_a_snapshot_that_was_lost_is_not_called_complete(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, _ := saved(t, log, store)
	_ = r.stop()
	at := store.state.Streams["configmaps.v1"]
	at.Unannounced = checkpoint.Snapshot{ResourceVersion: "10", Objects: 1}
	store.state.Streams["configmaps.v1"] = at
	log.lose(1)
	r = start(t, log, store)
	r.stream(nil)
	r.settle()
	expect(t, log.lines(), "snapshot-started 10")
}

// A new history had begun, and its list was not complete, when the log lost also what came before it.
func TestRepair_a_gap_reaches_back_to_what_the_log_has(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	restored(t, s)
	note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "8"})
	r.stopSaved()
	log.lose(0)
	r = start(t, log, store)
	snapshot(t, r.stream(nil), "9", "a u1 5")
	r.settle()
	expect(t, log.lines(), "gap 9", "resync-started 9", "added default/a u1 5 repair", "resync-completed 9")
	assert.Contains(t, string(log.log[0].Data), `"from":"0"`, "the gap")
}
