// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// indexedLog is a readableLog that finds the last message of each key without reading the others.
type indexedLog struct{ readableLog }

func newIndexedLog() indexedLog { return indexedLog{newReadableLog()} }

func (l indexedLog) Bounds(ctx context.Context, marks map[int32]uint64) (sink.LogBounds, error) {
	b, err := l.readableLog.Bounds(ctx, marks)
	b.Indexed = true
	return b, err
}

var named = StreamSpec{Resource: "configmaps"}

// beforeLoss has a pipeline publish what f says, and stops it.
func beforeLoss(t *testing.T, log sink.Sink, f func(s *stream.Stream)) {
	t.Helper()
	r := startOf(t, log, &memoryStore{}, named)
	f(r.stream(nil))
	r.settleAndStop()
}

func TestRemember_goes_on_from_what_the_log_has(t *testing.T) {
	log := newIndexedLog()
	beforeLoss(t, log, func(s *stream.Stream) { snapshot(t, s, "10", "a u1 5", "b u2 6") })
	n := len(log.lines())
	r := startOf(t, log, &memoryStore{}, named)
	snapshot(t, r.stream(nil), "20", "b u2 6", "c u3 15")
	r.settle()
	lines := log.lines()[n:]
	slices.SortStableFunc(lines[1:], byObject)
	expect(t, lines, "gap 20", "deleted default/a u1 5 relist", "added default/c u3 15 relist")
}

// Markers of all namespaces of a resource have one subject, so the last one is of another stream. Nothing else tells
// that a stream without objects was listed, and under which number.
func TestRemember_begins_the_gap_at_the_streams_own_snapshot(t *testing.T) {
	log := newIndexedLog()
	specs := []StreamSpec{{Resource: "configmaps", Namespace: "default"}, {Resource: "configmaps", Namespace: "other"}}
	r := startOf(t, log, &memoryStore{}, specs...)
	r.epochs.Observe(uint64(time.Now().Unix()) + 1000)
	for i, objects := range [][]string{{"a u1 5"}, {}} {
		s := must.Get(r.open(&r.cfg.Streams[i], source.Stream{Resource: configMaps, Namespace: specs[i].Namespace}))(t)
		snapshot(t, s, strconv.Itoa(10+i), objects...)
		r.settle()
	}
	given := r.epochs.Last()
	_ = r.stop()

	r = startOf(t, log, &memoryStore{}, specs...)
	for i, spec := range specs {
		saved := r.journal.State().Streams["configmaps.v1/"+spec.Namespace]
		assert.Equal(t, strconv.Itoa(10+i), saved.Owes.From, spec.Namespace)
		assert.Equal(t, "checkpoint-lost", saved.Owes.Cause, spec.Namespace)
		assert.Greater(t, saved.Epoch, given, spec.Namespace)
	}
}

// What the log has says in which history it is: another checkpoint goes on in that, and takes nothing of an older one
// for newer.
func TestRemember_goes_on_in_the_history_of_the_log(t *testing.T) {
	for name, c := range map[string]struct {
		objects []string
		more    func(s *stream.Stream)
		want    []string
	}{
		"alive": {
			[]string{"a u1 7", "b u2 6"},
			nil,
			[]string{"gap 40", "updated default/a u1 35 relist", "deleted default/b u2 6 relist"},
		},
		"of the old one": {[]string{"a u1 7"}, nil, []string{"gap 40", "updated default/a u1 35 relist"}},
		"deleted": {[]string{"a u1 7"}, func(s *stream.Stream) {
			send(t, s, source.Deleted, "a", "u1", "22", source.ReasonWatch)
		}, []string{"gap 40", "added default/c u3 35 relist"}},
	} {
		t.Run(name, func(t *testing.T) {
			log := newIndexedLog()
			beforeLoss(t, log, func(s *stream.Stream) {
				snapshot(t, s, "1000", "a u1 500", "b u2 600")
				restored(t, s)
				snapshot(t, s, "20", c.objects...)
				if c.more != nil {
					c.more(s)
				}
			})
			n := len(log.lines())
			r := startOf(t, log, &memoryStore{}, named)
			s := r.stream(nil)
			object := "a u1 35"
			if c.more != nil {
				object = "c u3 35"
			}
			snapshot(t, s, "40", object)
			r.settle()
			lines := log.lines()[n:]
			slices.Sort(lines)
			slices.Sort(c.want)
			expect(t, lines, c.want...)
		})
	}
}

// The checkpoint went with a cluster that is built anew under its name: the API server is seen to be older than what
// the log has.
func TestRemember_of_a_cluster_built_anew_another_history_begins(t *testing.T) {
	log := newIndexedLog()
	beforeLoss(t, log, func(s *stream.Stream) { snapshot(t, s, "1000", "a u1 500", "b u2 600") })
	n := len(log.lines())
	r := startOf(t, log, &memoryStore{}, named)
	s := r.stream(nil)
	version, _, ok := s.Resume()
	require.Equal(t, "600", version, "the version that the server is compared with")
	require.False(t, ok, "the version that the server is compared with")
	require.NoError(t, s.Epochs.Renew(t.Context(), &source.RewoundError{Stream: s.Name, Position: version, Server: "20"}))
	if version, _, _ := s.Resume(); version != "" {
		t.Errorf("in the new history the server is compared with version %q of the old one", version)
	}
	snapshot(t, s, "20", "a u9 7")
	r.settle()
	lines := log.lines()[n:]
	slices.SortStableFunc(lines[1:], byObject)
	expect(t, lines, "gap 20", "deleted default/a u1 500 relist", "added default/a u9 7 relist",
		"deleted default/b u2 600 relist")
}

// lastEpoch returns the greatest epoch of the log's events.
func (l *fakeLog) lastEpoch() (epoch uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.log {
		if st, err := encode.StateOf(&l.log[i]); err == nil {
			epoch = max(epoch, st.Sequence.Epoch)
		}
	}
	return epoch
}

// What came and went while nobody knew is in a gap, also where the log has nothing alive.
func TestRemember_knows_streams_without_objects_by_their_markers(t *testing.T) {
	for name, f := range map[string]func(s *stream.Stream){
		"empty": func(s *stream.Stream) { snapshot(t, s, "10") },
		"deleted": func(s *stream.Stream) {
			snapshot(t, s, "10", "a u1 5")
			send(t, s, source.Deleted, "a", "u1", "12", source.ReasonWatch)
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := newIndexedLog()
			beforeLoss(t, log, f)
			n := len(log.lines())
			before := log.lastEpoch()
			r := startOf(t, log, &memoryStore{}, named)
			s := r.stream(nil)
			assert.Equal(t, sequence.Reselect, s.Saved.Owes.List)
			snapshot(t, s, "20", "c u3 15")
			r.settle()
			assert.Contains(t, log.lines()[n:], "gap 20", "no gap")
			assert.Greater(t, log.lastEpoch(), before, "the epoch")
		})
	}
}

// What exists at the start is known and not published, and so is what the log never had where the checkpoint is lost.
func TestRemember_publishes_no_snapshot_where_none_is_wanted(t *testing.T) {
	log := newIndexedLog()
	never := StreamSpec{Resource: "configmaps", SkipSnapshot: true}
	spec := func() *StreamSpec { s := never; return &s }
	r := startOf(t, log, &memoryStore{}, never)
	s := r.stream(spec())
	snapshot(t, s, "10", "a u1 5", "b u2 6", "c u3 7")
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	r.settleAndStop()
	n := len(log.lines())
	r = startOf(t, log, &memoryStore{}, never)
	s = r.stream(spec())
	snapshot(t, s, "20", "a u1 15", "b u2 6", "c u3 7")
	r.settle()
	expect(t, log.lines()[n:], "gap 20", "updated default/a u1 15 relist")
	n += 2
	relist(t, s, "40", "a u1 15", "b u2 6", "c u3 7", "d u4 30") // a gap like any other
	r.settle()
	expect(t, log.lines()[n:], "gap 40", "added default/d u4 30 relist")
}

// A checkpoint that was reset is no lost one: everything is published again, as was asked for.
func TestRemember_is_for_a_store_that_was_never_written(t *testing.T) {
	log := newIndexedLog()
	beforeLoss(t, log, func(s *stream.Stream) { snapshot(t, s, "10", "a u1 5") })
	r := startOf(t, log, &memoryStore{state: checkpoint.State{
		Identity: checkpoint.Identity{Cluster: "test", Pipeline: "test"},
		Log:      checkpoint.Log{Marks: map[int32]uint64{0: uint64(len(log.log))}, Given: uint64(time.Now().Unix()) + 9},
	}}, named)
	assert.Empty(t, r.journal.State().Streams, "known")
}

func TestRemember_takes_no_marker_of_another_pipeline(t *testing.T) {
	log := newIndexedLog()
	beforeLoss(t, log, func(s *stream.Stream) { snapshot(t, s, "10", "a u1 5") })
	marker := log.log[len(log.log)-1].Attributes
	i := slices.IndexFunc(marker, func(a sink.Attribute) bool { return a.Name == "pipeline" })
	marker[i].Value = "other"
	r := startOf(t, log, &memoryStore{}, named)
	assert.Equal(t, "0", r.journal.State().Streams["configmaps.v1"].Owes.From, "the gap begins, want 0")
}

// What is read back of a gap follows what was read, and not only what the broker has acknowledged by then.
func TestResume_knows_what_is_on_its_way(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5", "b u2 6", "c u3 7")
	gate := log.hold()
	send(t, s, source.Deleted, "a", "u1", "11", source.ReasonWatch)
	send(t, s, source.Added, "a", "u4", "12", source.ReasonWatch)
	send(t, s, source.Deleted, "b", "u2", "13", source.ReasonWatch)
	send(t, s, source.Added, "d", "u5", "14", source.ReasonWatch)
	_, known, ok := s.Resume()
	require.True(t, ok)
	var got []string
	for id, current := range known {
		got = append(got, fmt.Sprint(id.Name, " ", id.UID, " ", id.ResourceVersion, " ", current))
	}
	slices.Sort(got)
	assert.Equal(t, []string{"a u4 12 true", "c u3 7 true", "d u5 14 true"}, got)
	close(gate)
	r.settle()
}
