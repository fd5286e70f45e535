// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// restored begins another history, as the source does when it finds that etcd was restored.
func restored(t *testing.T, s *stream.Stream) {
	t.Helper()
	ctx := must.Within(t, time.Minute)
	rewound := &source.RewoundError{Stream: s.Name, Position: s.Tracker.Position(), Server: "7"}
	require.NoError(t, s.Epochs.Renew(ctx, rewound))
}

func TestHistory_everything_is_published_again_behind_a_gap(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5", "b u2 6", "c u3 7")
	send(t, s, source.Updated, "a", "u1", "20", source.ReasonWatch)
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "30"})
	r.settle()
	restored(t, s)
	if version, _, ok := s.Resume(); ok || version != "" {
		t.Fatalf("the new history resumes at %q, %v; want a list, of a server that is not older than 5", version, ok)
	}
	// b was deleted and c updated between the backup and the restore; neither is known to the restored etcd but as
	// before.
	snapshot(t, s, "12", "a u1 5", "c u3 7")
	send(t, s, source.Updated, "c", "u3", "13", source.ReasonWatch)
	r.settle()
	lines := log.lines()[6:]
	slices.Sort(lines[1:4])
	expect(t, lines, "gap 12",
		"deleted default/b u2 6 relist", "updated default/a u1 5 relist", "updated default/c u3 7 relist",
		"updated default/c u3 13 watch")
	if data := string(log.log[6].Data); !strings.Contains(data, `"from":"30"`) || !strings.Contains(data, "restored") {
		t.Errorf("the gap says %s", data)
	}
	for _, m := range log.log[7:] {
		assert.Equal(t, s.Epoch, must.Get(encode.StateOf(&m))(t).Sequence.Epoch, "the epoch of %s", m.ID)
	}
}

// The crash is in the first list of the new history.
func TestHistory_is_begun_once_whatever_crashes(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5", "b u2 6")
	restored(t, s)
	epoch := s.Epoch
	note(t, s, source.Progress{Kind: source.SnapshotStarted, Version: "8"})
	send(t, s, source.Added, "a", "u1", "5", source.ReasonSnapshot)
	r.settleAndStop()
	log.forgetIDs()

	r, s = startStream(t, log, store)
	if version, _, ok := s.Resume(); ok || version != "5" {
		t.Fatalf("the new history resumes at %q, %v; want a list, of a server that is not older than 5", version, ok)
	}
	snapshot(t, s, "9", "a u1 5")
	r.settle()
	expect(t, log.lines()[4:], "gap 8", "updated default/a u1 5 relist", "gap 9", "deleted default/b u2 6 relist")
	assert.Equal(t, epoch, s.Saved.Epoch, "it is another epoch")
}

// What was read before belongs to the old history, and before the gap.
func TestHistory_begins_behind_what_was_read_before(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, r, s := listed(t, "10", "a u1 5")
		before, gate := s.Epoch, log.hold()
		send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
		renewed := make(chan error, 1)
		go func() { renewed <- s.Epochs.Renew(t.Context(), &source.RewoundError{Stream: s.Name}) }()
		synctest.Wait()
		assert.Equal(t, before, s.Epoch, "while the event is under way")
		close(gate)
		require.NoError(t, <-renewed)
		snapshot(t, s, "9", "a u1 5")
		r.settle()
		expect(t, log.lines()[3:], "updated default/a u1 11 watch", "gap 9", "updated default/a u1 5 relist")
		_ = r.stop()
	})
}

// Restored with a version bump: versions never run backwards, and yet an object does.
func TestHistory_is_doubted_where_a_list_shows_less_than_the_log_has(t *testing.T) {
	for name, c := range map[string]struct {
		op     source.Op
		exists string
		again  string
	}{
		"an older state":      {source.Updated, "a u1 5", "updated default/a u1 5 relist"},
		"a deletion undone":   {source.Deleted, "a u1 5", "added default/a u1 5 relist"},
		"another of its name": {source.Updated, "a u0 3", "added default/a u0 3 relist"},
	} {
		t.Run(name, func(t *testing.T) {
			log, _, r, s := listed(t, "10", "a u1 5")
			send(t, s, c.op, "a", "u1", "20", source.ReasonWatch)
			r.settle()
			note(t, s, source.Progress{Kind: source.Gap, Version: "1000", Why: source.Why{Message: "compacted"}})
			f := strings.Fields(c.exists)
			send(t, s, source.Added, f[0], f[1], f[2], source.ReasonRelist)
			beginHistory(t, s, source.Listed, "1000")
			log.forgetIDs()
			snapshot(t, s, "1000", c.exists)
			r.settle()
			lines := log.lines()
			assert.Equal(t, c.again, lines[len(lines)-1], "the last event")
			assert.Equal(t, 0, s.Tracker.Pending(), "tickets are open")
		})
	}
}

// A list behind a gap can be older than what had been published ahead of the position.
func TestHistory_is_not_doubted_where_the_log_was_ahead_of_the_list(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	send(t, s, source.Updated, "a", "u1", "20", source.ReasonWatch)
	r.settle()
	relist(t, s, "15", "a u1 12")
	r.settle()
	expect(t, log.lines()[4:], "gap 15")
}

// The checkpoint was moved away because the cluster is another one of its name; the log was not.
func TestHistory_begins_where_the_log_is_ahead_of_a_first_list(t *testing.T) {
	log := newReadableLog()
	r := startOf(t, log, &memoryStore{}, named)
	snapshot(t, r.stream(nil), "900", "a u1 800", "b u2 801", "c u3 100")
	_ = r.stop()
	r = startOf(t, log, &memoryStore{}, named)
	s := r.stream(nil)
	version, _, ok := s.Resume()
	require.True(t, version == "801" && !ok, "a server is compared with %q", version)
	require.NoError(t, s.Epochs.Renew(t.Context(), &source.RewoundError{Stream: s.Name, Position: version, Server: "300"}))
	snapshot(t, s, "300", "a u1 200", "b u9 250")
	send(t, s, source.Updated, "b", "u9", "301", source.ReasonWatch)
	r.settle()
	got := slices.DeleteFunc(log.lines()[5:], func(line string) bool { return strings.HasPrefix(line, "gap") })
	slices.SortStableFunc(got, byObject)
	expect(t, got, "updated default/a u1 200 relist", "deleted default/b u2 801 relist", "added default/b u9 250 relist",
		"updated default/b u9 301 watch", "deleted default/c u3 100 relist")
}

func TestPipeline_stops_at_what_the_broker_refuses_if_asked_to(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
	log.refuse = func(m *sink.Message) bool {
		return attribute(&sink.Stored{Attributes: m.Attributes}, "resourceversion") == "3"
	}
	b := runBridge(t, api, log, store, func(c *Config) { c.StopOnReject = true })
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	api.add(3)
	select {
	case err := <-b.ended:
		var rejected *RejectedError
		if !errors.As(err, &rejected) || rejected.ResourceVersion != "3" || !strings.Contains(err.Error(), "too large") {
			t.Errorf("it ended with %v", err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it goes on")
	}
	got := store.state.Streams["configmaps.v1"].Position
	assert.True(t, got == "1" || got == "2", "the position is %s, and version 3 is not in the log", got)
	for _, line := range log.lines() {
		assert.False(t, strings.HasPrefix(line, "rejected"), "the log has %q", line)
	}
}

// Restored with a bump, the object was changed since: its version is greater than that of its deletion.
func TestHistory_is_doubted_where_the_dead_come_back(t *testing.T) {
	for _, reason := range []source.Reason{source.ReasonRelist, source.ReasonRecovered} {
		for _, known := range []bool{true, false} {
			log, _, r, s := listed(t, "10", "a u1 5")
			send(t, s, source.Deleted, "a", "u1", "20", source.ReasonWatch)
			r.settle()
			if !known {
				s.Ledger.Prune("1000")
			}
			ctx := must.Within(t, time.Minute)
			if reason == source.ReasonRelist {
				note(t, s, source.Progress{Kind: source.Gap, Version: "1000", Why: source.Why{Message: "compacted"}})
			}
			send(t, s, source.Added, "a", "u1", "900", reason)
			err := s.Note(ctx, source.Progress{Kind: map[source.Reason]source.ProgressKind{
				source.ReasonRelist: source.Listed, source.ReasonRecovered: source.Gap,
			}[reason], Version: "1000", Seen: time.Now()})
			var rewound *source.RewoundError
			require.True(t, errors.As(err, &rewound), "%s, known %v: the note ended with %v", reason, known, err)
			require.NoError(t, s.Epochs.Renew(ctx, rewound))
			snapshot(t, s, "1000", "a u1 900")
			send(t, s, source.Deleted, "a", "u1", "1001", source.ReasonWatch)
			r.settle()
			lines := log.lines()
			expect(t, lines[len(lines)-2:], "added default/a u1 900 relist", "deleted default/a u1 1001 watch")
		}
	}
}

func TestStream_a_uid_dies_once(t *testing.T) {
	log, r, s := startNew(t, nil)
	send(t, s, source.Added, "a", "u1", "5", source.ReasonWatch)
	send(t, s, source.Deleted, "a", "u1", "6", source.ReasonWatch)
	send(t, s, source.Deleted, "a", "u1", "9", source.ReasonWatch)
	r.settle()
	expect(t, log.lines(), "added default/a u1 5 watch", "deleted default/a u1 6 watch")
}
