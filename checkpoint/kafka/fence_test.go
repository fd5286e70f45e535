// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/internal/session"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// position returns a batch that says where a stream is.
func position(n int) *checkpoint.Batch {
	return &checkpoint.Batch{Identity: audit, Streams: map[string]checkpoint.Stream{"pods.v1": {Position: fmt.Sprint(n)}}}
}

func at(n int) *checkpoint.State { return storetest.After(storetest.Empty(), position(n)) }

// commits has a store commit a position, and read it back.
func commits(t *testing.T, s *Store, n int) {
	t.Helper()
	require.NoError(t, s.Commit(t.Context(), position(n)))
	storetest.MustHold(t.Context(), t, s, at(n))
}

// manyRows returns a batch of n rows of a stream.
func manyRows(n, version int) *checkpoint.Batch {
	rows := map[string]checkpoint.Row{}
	for i := range n {
		rows[fmt.Sprintf("default/object-%d", i)] = checkpoint.Row{UID: "u", ResourceVersion: fmt.Sprint(version)}
	}
	return &checkpoint.Batch{Identity: audit, Put: map[string]map[string]checkpoint.Row{"pods.v1": rows}}
}

func TestStore_that_another_process_has_opened_cannot_commit(t *testing.T) {
	f := newFake(3)
	old := mustOpen(t.Context(), t, f)
	require.NoError(t, old.Commit(t.Context(), position(1)))
	young := mustOpen(t.Context(), t, f)
	var taken *checkpoint.TakenError
	for range 2 {
		err := old.Commit(t.Context(), position(2))
		if !errors.As(err, &taken) || !checkpoint.IsPermanent(err) ||
			strings.Count(err.Error(), `"prod-eu-1/audit" in topic checkpoints`) != 1 {
			t.Errorf("commit: error %v, want one that says once whose it is", err)
		}
	}
	assert.ErrorAs(t, must.Err(old.Load(t.Context())), &taken, "load: want that another process uses it")
	storetest.MustHold(t.Context(), t, young, at(1))
	commits(t, young, 3)
}

// A request of a dead process can wait somewhere until after its successor has read everything.
func TestStore_is_safe_from_what_an_older_process_has_under_way(t *testing.T) {
	f := newFake(3)
	old := mustOpen(t.Context(), t, f)
	require.NoError(t, old.Commit(t.Context(), position(1)))
	var late *fakeBatch
	stop, cancel := context.WithCancel(t.Context())
	f.fault = func(_ int, b *fakeBatch) fault {
		late = b
		cancel()
		return fault{lose: true, err: errAway}
	}
	require.ErrorIs(t, old.Commit(stop, position(2)), context.Canceled, "commit")
	f.fault = nil
	young := mustOpen(t.Context(), t, f)
	storetest.MustHold(t.Context(), t, young, at(1))
	_, err := f.add(home(f), late)
	assert.True(t, kafka.Fenced(err), "the late request was answered with %v", err)
	storetest.MustHold(t.Context(), t, young, at(1))
}

// Without a fence, a newer process is noticed when the topic is read.
func TestStore_reads_nothing_that_a_newer_process_has_begun_to_change(t *testing.T) {
	f := newFake(3)
	old := mustOpen(t.Context(), t, f)
	require.NoError(t, old.Commit(t.Context(), position(1)))
	mustOpen(t.Context(), t, f)
	var taken *checkpoint.TakenError
	assert.ErrorAs(t, must.Err(old.Load(t.Context())), &taken, "load: want that another process uses it")
	assert.ErrorAs(t, old.Commit(t.Context(), position(2)), &taken, "commit: want that another process uses it")
}

func TestStore_without_the_permission_for_its_id_warns_and_works(t *testing.T) {
	f := newFake(3)
	f.forbidden = map[string]bool{"InitProducerId kube-eventbridge.prod-eu-1.audit.checkpoint.checkpoints": true}
	var log bytes.Buffer
	cfg := Config{Log: slog.New(slog.NewTextHandler(&log, nil))}
	s := must.Get(openFake(t.Context(), f, cfg, audit))(t)
	if n := strings.Count(log.String(), "level=WARN"); n != 1 ||
		!strings.Contains(log.String(), "transactionalId=kube-eventbridge.prod-eu-1.audit.checkpoint.checkpoints") {
		t.Errorf("warnings: %s", &log)
	}
	require.NoError(t, s.Commit(t.Context(), position(1)))
	f.fault = once(fault{err: kafkago.OutOfOrderSequenceNumber})
	commits(t, s, 2)
	assert.Empty(t, f.epochs, "ids were taken")
	assert.Equal(t, 1, strings.Count(log.String(), "level=WARN"), "it warns again: %s", &log)
}

func TestStore_without_the_permission_for_its_id_is_refused_where_a_fence_is_asked_for(t *testing.T) {
	f := newFake(3)
	f.forbidden = map[string]bool{"InitProducerId kube-eventbridge.prod-eu-1.audit.checkpoint.checkpoints": true}
	_, err := openFake(t.Context(), f, Config{Elected: true}, audit)
	var unfenced *UnfencedError
	assert.True(t, errors.As(err, &unfenced) && checkpoint.IsPermanent(err) &&
		unfenced.TransactionalID == "kube-eventbridge.prod-eu-1.audit.checkpoint.checkpoints", "open: %v", err)
}

// once makes one thing go wrong, with the next request.
func once(f fault) func(int, *fakeBatch) fault {
	done := false
	return func(int, *fakeBatch) fault {
		if done {
			return fault{}
		}
		done = true
		return f
	}
}

// When the broker says that it has lost track, the batch may be there or not.
func TestStore_finds_out_what_became_of_a_commit_that_confused_the_broker(t *testing.T) {
	for _, c := range []struct {
		rows, requests int
	}{{1, 2}, {100, 26}} {
		for at := 1; at <= c.requests; at++ {
			for name, goesWrong := range map[string]fault{
				"it is there":     {err: kafkago.OutOfOrderSequenceNumber},
				"it is not there": {err: kafkago.OutOfOrderSequenceNumber, lose: true},
				"unknown":         {err: kafkago.UnknownProducerId},
			} {
				t.Run(fmt.Sprintf("%d rows, request %d, %s", c.rows, at, name), func(t *testing.T) {
					confuse(t, manyRows(c.rows, 2), at, goesWrong)
				})
			}
		}
	}
}

// confuse has something go wrong with one of a commit's requests.
func confuse(t *testing.T, b *checkpoint.Batch, at int, goesWrong fault) {
	f := newFake(3)
	f.settings[settingSize] = "1000"
	s := mustOpen(t.Context(), t, f)
	require.NoError(t, s.Commit(t.Context(), manyRows(100, 1)))
	from := f.requests
	f.fault = func(n int, _ *fakeBatch) (out fault) {
		if n == from+at {
			out = goesWrong
		}
		return out
	}
	require.NoError(t, s.Commit(t.Context(), b))
	want := storetest.After(storetest.After(storetest.Empty(), manyRows(100, 1)), b)
	storetest.MustHold(t.Context(), t, s, want)
	require.NoError(t, s.Commit(t.Context(), position(3)))
	want = storetest.After(want, position(3))
	storetest.MustHold(t.Context(), t, s, want)
	assert.Empty(t, rubbishIn(f, want))
}

// A commit that is there is not made again.
func TestStore_does_not_repeat_a_commit_that_is_there(t *testing.T) {
	f, s := openNew(t, 3)
	require.NoError(t, s.Commit(t.Context(), position(1)))
	before := s.head.number
	f.fault = once(fault{err: kafkago.OutOfOrderSequenceNumber})
	require.NoError(t, s.Commit(t.Context(), position(2)))
	assert.Equal(t, before+1, s.head.number, "commit %d", before)
}

func TestStore_that_lost_commits_says_so_and_a_new_one_goes_on(t *testing.T) {
	f, s := openNew(t, 3)
	require.NoError(t, s.Commit(t.Context(), position(1)))
	require.NoError(t, s.Commit(t.Context(), position(2)))
	p := home(f)
	f.logs[p] = f.logs[p][:len(f.logs[p])-1]
	f.fault = once(fault{lose: true, err: kafkago.OutOfOrderSequenceNumber})
	var lost *LostError
	for range 2 {
		if err := s.Commit(t.Context(), position(3)); !errors.As(err, &lost) || lost.Has != 1 || lost.Want != 2 ||
			!checkpoint.IsPermanent(err) {
			t.Errorf("commit: error %v, want what was lost", err)
		}
	}
	storetest.MustHold(t.Context(), t, mustOpen(t.Context(), t, f), at(1))
}

// Its epoch is what keeps others away. A coordinator that has not heard of it for a week forgets it.
func TestStore_takes_a_new_epoch_every_day(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, s := openNew(t, 3)
		epochs := 0
		for day := range 3 {
			for range 3 {
				require.NoError(t, s.Commit(t.Context(), position(day)))
			}
			assert.Equal(t, epochs, int(f.epochs[s.cfg.transactionalID(audit)].Epoch), "day %d: epoch", day)
			<-time.After(renewEvery)
			epochs++
		}
		storetest.MustHold(t.Context(), t, s, at(2))
	})
}

func TestStore_whose_id_was_forgotten_goes_on_unless_another_process_came(t *testing.T) {
	f, s := openNew(t, 3)
	require.NoError(t, s.Commit(t.Context(), position(1)))
	f.forgets = true
	f.fault = once(fault{lose: true, err: kafkago.UnknownProducerId})
	commits(t, s, 2)

	f.forgets = true
	young := mustOpen(t.Context(), t, f)
	require.NoError(t, young.Commit(t.Context(), position(3)))
	f.forgets = true
	f.fault = once(fault{lose: true, err: kafkago.UnknownProducerId})
	var taken *checkpoint.TakenError
	assert.ErrorAs(t, s.Commit(t.Context(), position(4)), &taken, "commit: want that another process uses it")
	commits(t, young, 5)
}

// Who must not have the checkpoint does not stop who has it.
func TestOpen_for_another_cluster_leaves_the_owner_alone(t *testing.T) {
	f, s := openNew(t, 3)
	require.NoError(t, s.Commit(t.Context(), position(1)))
	requests := f.requests
	rebuilt := audit
	rebuilt.ClusterUID = "another"
	var foreign *checkpoint.ForeignError
	_, err := openFake(t.Context(), f, Config{}, rebuilt)
	assert.True(t, errors.As(err, &foreign) && foreign.Has == audit && foreign.Want == rebuilt &&
		checkpoint.IsPermanent(err), "open: error %v, want a ForeignError that names both", err)
	assert.Equal(t, requests, f.requests, "something was written")
	commits(t, s, 2)
}

func TestStore_shares_its_topic_with_others(t *testing.T) {
	f := newFake(1)
	f.put(0, "", []byte("x"))
	f.put(0, "somebody's", []byte("x"))
	f.put(0, "somebody's", nil)
	f.put(0, newKeys("prod-eu-1/audi").plain(kindHead), []byte{99})
	ids := []checkpoint.Identity{audit, audit, audit}
	ids[1].Pipeline, ids[2].Cluster = "audit2", "prod-eu-2"
	stores := make([]*Store, len(ids))
	for i, id := range ids {
		stores[i] = must.Get(openFake(t.Context(), f, Config{}, id))(t)
	}
	for i, id := range ids {
		b := position(i)
		b.Identity = id
		require.NoError(t, stores[i].Commit(t.Context(), b))
	}
	for i, id := range ids {
		want := at(i)
		want.Identity = id
		storetest.MustHold(t.Context(), t, stores[i], want)
	}
}

// A topic with more partitions has another one for each name.
func TestOpen_finds_the_checkpoint_after_partitions_were_added(t *testing.T) {
	f, s := openNew(t, 1)
	require.NoError(t, s.Commit(t.Context(), position(1)))
	for n := 2; n < 9; n++ {
		f.partitions = n
		s = mustOpen(t.Context(), t, f)
		storetest.MustHold(t.Context(), t, s, at(n-1))
		require.NoError(t, s.Commit(t.Context(), position(n)))
	}
	assert.Len(t, f.logs, 1, "it is in %d partitions", len(f.logs))
}

func TestStore_in_a_partition_of_its_name(t *testing.T) {
	f := newFake(50)
	used := map[int32]bool{}
	for i := range 40 {
		id := audit
		id.Pipeline = fmt.Sprint("pipeline-", i)
		must.Get(openFake(t.Context(), f, Config{}, id))(t)
	}
	for p := range f.logs {
		used[p] = true
	}
	assert.GreaterOrEqual(t, len(used), 15, "40 checkpoints are in %d of 50 partitions", len(used))
}

func TestStore_that_is_closed_does_nothing(t *testing.T) {
	s := mustOpen(t.Context(), t, newFake(3))
	for range 2 {
		require.NoError(t, s.Close())
	}
	assert.ErrorIs(t, s.Commit(t.Context(), position(1)), session.ErrClosed, "commit")
	assert.ErrorIs(t, must.Err(s.Load(t.Context())), session.ErrClosed, "load")
}

func TestStore_forgets_a_stream_and_its_rows(t *testing.T) {
	f, s := openNew(t, 3)
	b := manyRows(100, 1)
	require.NoError(t, s.Commit(t.Context(), b))
	require.GreaterOrEqual(t, len(f.live()), 100, "records hold")
	again := manyRows(3, 2)
	again.Forget = []string{"pods.v1"}
	f.fetches = 0
	require.NoError(t, s.Commit(t.Context(), again))
	assert.Zero(t, f.fetches, "a commit reads nothing")
	want := storetest.After(storetest.Empty(), again)
	storetest.MustHold(t.Context(), t, s, want)
	s = mustOpen(t.Context(), t, f)
	storetest.MustHold(t.Context(), t, s, want)
	require.NoError(t, s.Commit(t.Context(), &checkpoint.Batch{Identity: audit}))
	if got := len(f.live()); got != 3+4 { // origin, barrier, head, stream
		t.Errorf("%d records hold, want 7", got)
	}
	storetest.MustHold(t.Context(), t, mustOpen(t.Context(), t, f), want)
}

// Two clusters that have one name, on one Kafka, do not throw each other out where their topics are different.
func TestConfig_has_an_id_for_each_topic(t *testing.T) {
	a, b := Config{Topic: "a"}, Config{Topic: "b"}
	assert.NotEqual(t, a.transactionalID(audit), b.transactionalID(audit))
}
