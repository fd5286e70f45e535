// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// beginHistory notes the begin or the end of a list, which must show that etcd was restored, and begins another
// history, as the source does.
func beginHistory(t *testing.T, s *stream.Stream, kind source.ProgressKind, version string) {
	t.Helper()
	ctx := must.Within(t, time.Minute)
	err := s.Note(ctx, source.Progress{Kind: kind, Version: version, Seen: time.Now()})
	var rewound *source.RewoundError
	require.True(t, errors.As(err, &rewound), "noting %v: %v, want a history that was rewound", kind, err)
	require.NoError(t, s.Epochs.Renew(ctx, rewound))
}

// gapData is what the last gap says.
func gapData(log readableLog) (data string) {
	for i := range log.log {
		if strings.Contains(attribute(&log.log[i], "type"), "stream.gap") {
			data = string(log.log[i].Data)
		}
	}
	return data
}

func checkOnce(t *testing.T, log readableLog) {
	t.Helper()
	ids := map[string]bool{}
	for _, m := range log.log {
		assert.False(t, ids[m.ID], "id %s is in the log twice", m.ID)
		ids[m.ID] = true
	}
}

// What is read back shows another history, while the broker has not acknowledged what the watch had shown before.
func TestHistory_begins_behind_what_a_watch_has_shown_although_it_waits(t *testing.T) {
	for _, latest := range []bool{false, true} {
		log := newReadableLog()
		r := start(t, log, &memoryStore{})
		s := r.stream(&StreamSpec{Latest: latest})
		snapshot(t, s, "10", "a u1 5", "b u2 6", "c u3 7")
		send(t, s, source.Deleted, "b", "u2", "20", source.ReasonWatch)
		r.settle()
		// The place turns out to be another one.
		s.Ledger.Put("default/c", checkpoint.Row{UID: "u3", ResourceVersion: "7", Epoch: s.Epoch, Version: 7, Sequence: 1})
		gate := log.hold()
		send(t, s, source.Updated, "a", "u1", "30", source.ReasonWatch)
		must.Happen(t, "the first event to be under way", func() bool { return underWay(s) })
		send(t, s, source.Updated, "a", "u1", "31", source.ReasonWatch)
		send(t, s, source.Updated, "c", "u4", "32", source.ReasonWatch) // another object took the name
		note(t, s, source.Progress{Kind: source.Bookmark, Version: "40"})
		suppressed := value(t, r.registry, "duplicates_suppressed_total")
		send(t, s, source.Updated, "a", "u1", "35", source.ReasonRecovered)
		send(t, s, source.Updated, "b", "u2", "900", source.ReasonRecovered)
		close(gate)
		beginHistory(t, s, source.Gap, "1000")
		if n := value(t, r.registry, "duplicates_suppressed_total"); n != suppressed {
			t.Errorf("%v changes of another history are counted as ones that the log had", n-suppressed)
		}
		snapshot(t, s, "1000", "a u1 35", "b u2 900", "c u4 32")
		r.settle()
		lines := log.lines()[6:]
		slices.SortStableFunc(lines[:4], byObject)
		slices.SortStableFunc(lines[5:], byObject)
		expect(t, lines, "updated default/a u1 30 watch", "updated default/a u1 31 watch", "deleted default/c u3 7 watch",
			"added default/c u4 32 watch",
			"gap 1000", "updated default/a u1 35 relist", "added default/b u2 900 relist", "updated default/c u4 32 relist")
		assert.Contains(t, gapData(log), `"from":"40"`, "the gap")
	}
}

// The list shows another object under the name, and it is the worker's turn when something else has shown that the
// history is over.
func TestHistory_leaves_a_list_of_another_one_alone(t *testing.T) {
	to := &swiftLog{}
	p := newSession(New(Config{Name: "test", Buffer: 1 << 20, Metrics: health.NewMetrics(prometheus.NewRegistry())}),
		to)
	defer p.delivery.ShutDown()
	p.delivery.Publisher = to
	s, err := p.open(&StreamSpec{Encoding: encode.Config{Cluster: "test", Pipeline: "test"}},
		source.Stream{Resource: configMaps})
	require.NoError(t, err)
	s.Ledger.Put("default/a", checkpoint.Row{UID: "u1", ResourceVersion: "5"})
	send(t, s, source.Added, "a", "u2", "20", source.ReasonRelist)
	s.Epochs.Mismatch = &source.RewoundError{}
	p.delivery.Next(t.Context())
	assert.Equal(t, 0, p.delivery.Len(), "objects are in the queue")
	assert.Equal(t, 0, s.Tracker.Pending(), "tickets are open")
}

// Etcd was restored under an open watch. The log has the object as deleted; whether the ledger has, is a matter of
// time.
func TestHistory_is_doubted_where_the_dead_come_back_by_a_watch(t *testing.T) {
	for _, known := range []bool{true, false} {
		for _, crash := range []bool{false, true} {
			log, store, r, s := listed(t, "10", "a u1 5", "b u2 6")
			send(t, s, source.Deleted, "a", "u1", "20", source.ReasonWatch)
			note(t, s, source.Progress{Kind: source.Bookmark, Version: "25"})
			r.settle()
			if !known {
				require.NoError(t, r.journal.Save(t.Context()))
			}
			log.forgetIDs()
			after := func(s *stream.Stream) {
				send(t, s, source.Updated, "a", "u1", "30", source.ReasonWatch)
				send(t, s, source.Updated, "b", "u2", "31", source.ReasonWatch)
				send(t, s, source.Deleted, "a", "u1", "40", source.ReasonWatch)
				note(t, s, source.Progress{Kind: source.Bookmark, Version: "50"})
			}
			after(s)
			r.settle()
			require.NoError(t, r.journal.Save(t.Context()))
			if row, _ := s.Ledger.Get("default/a"); !row.Deleted {
				t.Errorf("known %v: the ledger does not know any more what is left to the next history", known)
			}
			assert.Equal(t, 1, len(s.Epochs.Again), "no list is asked for")
			if crash {
				_ = r.stop()
				r, s = startStream(t, log, store)
				if version, _, ok := s.Resume(); !ok || version != "25" {
					t.Fatalf("known %v: the stream resumes at %q, and what came at 30 is not in the log", known, version)
				}
				after(s)
				r.settle()
			}
			beginHistory(t, s, source.Gap, "60")
			assert.Equal(t, 0, len(s.Epochs.Again), "a list is asked for that is made")
			snapshot(t, s, "60", "b u2 31")
			r.settle()
			checkOnce(t, log)
			if data := gapData(log); !strings.Contains(data, `"from":"25"`) ||
				!strings.Contains(data, "default/a was at resourceVersion 20") {
				t.Errorf("known %v: the gap says %s", known, data)
			}
			assert.Equal(t, "updated default/b u2 31 watch", log.lines()[5],
				"known %v: what the watch has shown besides is in the log as", known)
		}
	}
}

// The log has the deletion, and neither the ledger nor the broker knows that any more.
func TestStream_a_uid_dies_once_also_where_only_the_log_knows(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	send(t, s, source.Deleted, "a", "u1", "20", source.ReasonWatch)
	r.settle()
	s.Ledger.Prune("30")
	log.forgetIDs()
	send(t, s, source.Deleted, "a", "u1", "40", source.ReasonWatch)
	r.settle()
	checkOnce(t, log)
}
