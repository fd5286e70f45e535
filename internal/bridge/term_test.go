// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// under gives a pipeline a term, and returns how to end it.
func under(t *testing.T, c *Config, number int64) (lose context.CancelFunc) {
	held, lose := context.WithCancel(context.WithoutCancel(t.Context()))
	t.Cleanup(lose)
	c.Term = &Term{Number: number, Held: held}
	return lose
}

func TestTerm_nothing_is_published_or_committed_after_it(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &closableStore{}
	var lose context.CancelFunc
	b := runBridge(t, api, log, store, func(c *Config) { c.Drain, lose = 2*time.Minute, under(t, c, 1) })
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	api.add(1)
	must.Happen(t, "an event that a commit is to follow", func() bool { return len(log.lines()) == 3 })
	gate := log.hold()
	api.add(20)
	s := b.only(t)
	must.Happen(t, "the events", func() bool { return s.Tracker.Pending() >= 20 })
	lose()
	store.closed.Store(true)
	began := time.Now()
	assert.NoError(t, <-b.ended)
	assert.LessOrEqual(t, time.Since(began), time.Minute, "it went on")
	close(gate)
	log.wg.Wait()
	assert.Equal(t, 3, len(log.lines()), "messages are in the log, want the 3 from before")
	assert.EqualValues(t, 0, store.late.Load(), "commits after the term, want none")
}

// closableStore counts the commits that come when it is closed.
type closableStore struct {
	memoryStore
	closed atomic.Bool
	late   atomic.Int64
}

func (s *closableStore) Commit(ctx context.Context, b *checkpoint.Batch) error {
	if s.closed.Load() {
		s.late.Add(1)
	}
	return s.memoryStore.Commit(ctx, b)
}

// A lease that was deleted counts from 1 again.
func TestTerm_events_carry_a_number_that_rises_whatever_the_lease_says(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
	want := []string{}
	for _, c := range []struct {
		lease int64
		want  string
	}{{3, "3"}, {4, "4"}, {1, "5"}, {2, "6"}, {20, "20"}} {
		b := runBridge(t, api, log, store, func(of *Config) { under(t, of, c.lease) })
		s := b.only(t)
		must.Happen(t, "the first list", func() bool { return len(log.lines()) >= 2 })
		had := len(log.lines())
		api.add(1)
		must.Happen(t, "the event", func() bool { return len(log.lines()) == had+1 && s.Tracker.Pending() == 0 })
		require.NoError(t, b.stop())
		want = append(want, c.want)
		log.set(func() {
			assert.Equal(t, c.want, attribute(&log.log[had], "writerterm"),
				"in term %d of the lease, after %v, events carry", c.lease, want)
		})
	}
}

// What is known of the log is written again where it is read back, and where it has lost something.
func TestTerm_number_stays_known_whatever_becomes_of_the_log(t *testing.T) {
	for name, disturb := range map[string]func(*readableLog, *memoryStore, checkpoint.Log){
		"the checkpoint is lost": func(_ *readableLog, s *memoryStore, _ checkpoint.Log) {
			s.state = checkpoint.State{}
		},
		"its end is read back": func(_ *readableLog, s *memoryStore, before checkpoint.Log) { s.state.Log = before },
		"it has lost its end":  func(l *readableLog, _ *memoryStore, _ checkpoint.Log) { l.lose(1) },
	} {
		api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
		identity := checkpoint.Identity{Cluster: "test", Pipeline: "test"}
		b := runBridge(t, api, log, store, func(c *Config) { c.Identity = identity; under(t, c, 7) })
		s := b.only(t)
		must.Happen(t, "the first list", func() bool { return len(log.lines()) >= 2 && s.Tracker.Pending() == 0 })
		require.NoError(t, b.session(t).journal.Commit(t.Context()))
		store.mu.Lock()
		before := store.state.Log
		store.mu.Unlock()
		api.add(3)
		must.Happen(t, "events", func() bool { return len(log.lines()) >= 5 && s.Tracker.Pending() == 0 })
		require.NoError(t, b.stop())
		disturb(&log, store, before)
		b = runBridge(t, api, log, store, func(c *Config) { c.Identity = identity; under(t, c, 1) })
		s = b.only(t)
		api.add(1)
		must.Happen(t, "an event of the next term", func() bool {
			any := false
			log.set(func() {
				any = slices.ContainsFunc(log.log, func(m sink.Stored) bool { return attribute(&m, "writerterm") == "8" })
			})
			return any
		})
		require.NoError(t, b.stop())
		assert.EqualValues(t, 8, store.state.Log.Term, "%s: the store has term, want 8", name)
	}
}

// Two processes publish the same, each sure that it leads, and the broker has forgotten ids: what the log says last of
// an object decides.
func TestTerm_a_writer_that_does_not_know_of_the_next_one_changes_nothing(t *testing.T) {
	for seed := range uint64(20) {
		log := newFakeLog()
		random := rand.New(rand.NewPCG(seed, 5))
		writers, streams := make([]*rig, 2), make([]*stream.Stream, 2)
		store := &memoryStore{}
		for i := range writers {
			w := start(t, log, store)
			under(t, w.cfg, int64(i+1))
			writers[i], streams[i] = w, w.stream(nil)
			store = store.copied(t)
		}
		did := history{}
		at := make([]int, len(writers))
		var frames []source.Ident
		for v := 1; v <= 200; v++ {
			name := "o" + strconv.Itoa(random.IntN(4))
			did[name] = append(did[name], strconv.Itoa(v))
			frames = append(frames, source.Ident{Name: name, ResourceVersion: strconv.Itoa(v)})
		}
		for at[0] < len(frames) || at[1] < len(frames) {
			i := random.IntN(2)
			for range random.IntN(30) {
				if at[i] < len(frames) {
					f := frames[at[i]]
					send(t, streams[i], source.Updated, f.Name, "u-"+f.Name, f.ResourceVersion, source.ReasonWatch)
					at[i]++
				}
			}
			if random.IntN(3) == 0 {
				writers[i].settle()
			}
			log.forgetIDs()
		}
		for _, w := range writers {
			w.settle()
		}
		for _, w := range writers {
			_ = w.stop()
		}
		did.check(t, log)
	}
}

func TestTerm_a_former_leader_ends_where_the_next_one_has_published(t *testing.T) {
	log := newFakeLog()
	writers, streams := make([]*rig, 2), make([]*stream.Stream, 2)
	store := &memoryStore{}
	for i := range writers {
		epoch := int64(i + 1)
		w := start(t, log, store)
		under(t, w.cfg, epoch)
		w.term, w.delivery.Leased = epoch, true
		writers[i], streams[i] = w, w.stream(&StreamSpec{Encoding: encode.Config{WriterTerm: i + 1}})
		store = store.copied(t)
	}
	send(t, streams[0], source.Added, "o", "u", "1", source.ReasonWatch)
	writers[0].settle()
	send(t, streams[1], source.Added, "o", "u", "1", source.ReasonWatch)
	send(t, streams[1], source.Updated, "o", "u", "2", source.ReasonWatch)
	writers[1].settle()
	send(t, streams[0], source.Updated, "o", "u", "3", source.ReasonWatch)
	select {
	case err := <-writers[0].failure:
		assert.True(t, checkpoint.IsTaken(err), "it ends with %v", err)
	case <-time.After(time.Minute):
		t.Error("the former leader goes on")
	}
	assert.Equal(t, 2, len(log.lines()), "events are in the log, want 2")
}
