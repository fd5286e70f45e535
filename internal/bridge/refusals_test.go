// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// refuse has a log take nothing of objects, not even a rejection.
func refuse(log readableLog, names ...string) {
	log.set(func() {
		log.refuse = func(m *sink.Message) bool {
			return slices.ContainsFunc(names, func(name string) bool { return strings.HasSuffix(m.Subject, "."+name) })
		}
	})
}

func TestRefused_object_holds_up_neither_list_nor_watch_nor_position(t *testing.T) {
	w, log, store := newWorld(t, "configmaps.v1"), newReadableLog(), &memoryStore{}
	for _, name := range []string{"one", "stuck", "two"} {
		w.put("configmaps", "shop/"+name, "")
	}
	refuse(log, "stuck")
	entry := StreamSpec{Resource: "configmaps"}
	b := runIn(t, w, log, store, entry)
	must.Happen(t, "the snapshot", func() bool {
		return slices.Contains(log.lines(),
			fmt.Sprint("snapshot-completed ", w.version))
	})
	w.put("configmaps", "shop/one", "a=b")
	w.put("configmaps", "shop/stuck", "a=b")
	w.put("configmaps", "shop/two", "a=b")
	must.Happen(t, "what comes after", func() bool {
		return slices.ContainsFunc(log.lines(), func(line string) bool {
			return strings.HasPrefix(line,
				"updated shop/two ")
		})
	})
	require.NoError(t, b.stop())
	saved := store.state.Streams["configmaps.v1"]
	want := checkpoint.Refused{Key: "shop/stuck", Changes: 2, Version: fmt.Sprint(w.version - 1)}
	assert.Equal(t, []checkpoint.Refused{want}, saved.Refused)
	assert.Equal(t, fmt.Sprint(w.version-1), saved.Position, "the watch has not shown that its last version is complete")

	refuse(log)
	b = runIn(t, w, log, store, entry)
	must.Happen(t, "the object", func() bool {
		return slices.ContainsFunc(log.lines(), func(line string) bool {
			return strings.HasPrefix(line,
				"added shop/stuck ")
		})
	})
	require.NoError(t, b.stop())
	assert.Empty(t, store.state.Streams["configmaps.v1"].Refused)
	assert.Equal(t, "2", attribute(&log.log[len(log.log)-1], "sampledrate"), "the event stands for both changes")
}

// A broker that takes nothing of what changes is not ready, and is when it accepts something.
func TestRefused_changes_of_several_objects_make_the_pipeline_unready(t *testing.T) {
	w, log, store := newWorld(t, "configmaps.v1"), newReadableLog(), &memoryStore{}
	for _, name := range []string{"one", "two", "three"} {
		w.put("configmaps", "shop/"+name, "")
	}
	entry := StreamSpec{Resource: "configmaps"}
	b := runIn(t, w, log, store, entry)
	begun(t, b, log.fakeLog, []StreamSpec{entry})
	broker := &b.session(t).delivery.Broker
	refuse(log, "one", "two")
	w.put("configmaps", "shop/one", "a=b")
	w.put("configmaps", "shop/two", "a=b")
	must.Happen(t, "the refusal of both", func() bool { _, err := broker.Failing(); return err != nil })
	w.put("configmaps", "shop/three", "a=b")
	must.Happen(t, "what is accepted", func() bool { _, err := broker.Failing(); return err == nil })
	require.NoError(t, b.stop())
}

// A pipeline in which nothing else happens begins with objects that are refused still.
func TestRefused_objects_that_are_tried_again_leave_the_pipeline_ready(t *testing.T) {
	w, log, store := newWorld(t, "configmaps.v1"), newReadableLog(), &memoryStore{}
	w.put("configmaps", "shop/one", "")
	w.put("configmaps", "shop/two", "")
	entry := StreamSpec{Resource: "configmaps"}
	b := runIn(t, w, log, store, entry)
	begun(t, b, log.fakeLog, []StreamSpec{entry})
	refuse(log, "one", "two")
	w.put("configmaps", "shop/one", "a=b")
	w.put("configmaps", "shop/two", "a=b")
	must.Happen(t, "the refusal of both", func() bool { return b.session(t).refusals.Load() == 2 })
	w.put("configmaps", "shop/three", "") // the position passes both
	must.Happen(t, "what comes after", func() bool { return len(alive(log.fakeLog)) == 3 })
	require.NoError(t, b.stop())

	var tried sync.Map
	log.set(func() {
		log.refuse = func(m *sink.Message) bool { tried.Store(m.Subject, true); return true }
	})
	b = runIn(t, w, log, store, entry)
	must.Happen(t, "another try of both", func() bool {
		n := 0
		tried.Range(func(any, any) bool { n++; return true })
		return n == 2
	})
	broker := &b.session(t).delivery.Broker
	must.Happen(t, "the end of both tries", func() bool { return b.session(t).delivery.InFlight.Count() == 0 })
	_, err := broker.Failing()
	assert.NoError(t, err)
	require.NoError(t, b.stop())
}

// The end of an object that is not selected any more is refused. Its stream stays until the log has it.
func TestRefused_end_is_told_by_a_stream_that_retires(t *testing.T) {
	w, log, store := newWorld(t, "configmaps.v1"), newReadableLog(), &memoryStore{}
	w.put("configmaps", "shop/one", "")
	w.put("configmaps", "bank/stuck", "")
	all, shop := StreamSpec{Resource: "configmaps"}, StreamSpec{Resource: "configmaps", Namespace: "shop"}
	b := runIn(t, w, log, store, all)
	begun(t, b, log.fakeLog, []StreamSpec{all})
	require.NoError(t, b.stop())
	refuse(log, "stuck")
	b = runIn(t, w, log, store, shop)
	must.Happen(t, "the refusal", func() bool {
		return slices.ContainsFunc(b.session(t).journal.Opened(), func(s *stream.Stream) bool { return s.Refusals.Lacks() })
	})
	require.NoError(t, b.stop())
	refuse(log)
	b = runIn(t, w, log, store, shop)
	must.Happen(t, "the end", func() bool { return slices.Equal(alive(log.fakeLog), []string{"shop/one 2"}) })
	require.NoError(t, b.stop())
}

func TestRefused_end_is_told_once_the_broker_takes_it(t *testing.T) {
	w, log, store := newWorld(t, "configmaps.v1"), newReadableLog(), &memoryStore{}
	w.put("configmaps", "shop/one", "")
	w.put("configmaps", "shop/stuck", "")
	entry := StreamSpec{Resource: "configmaps"}
	b := runIn(t, w, log, store, entry)
	begun(t, b, log.fakeLog, []StreamSpec{entry})
	refuse(log, "stuck")
	w.remove("configmaps", "shop/stuck")
	must.Happen(t, "the refusal", b.only(t).Refusals.Lacks)
	w.put("configmaps", "shop/one", "a=b") // the position passes the end
	must.Happen(t, "what comes after", func() bool { return slices.Contains(alive(log.fakeLog), "shop/one 5") })
	require.NoError(t, b.stop())
	refuse(log)
	b = runIn(t, w, log, store, entry)
	must.Happen(t, "the end", func() bool { return slices.Equal(alive(log.fakeLog), []string{"shop/one 5"}) })
	assert.Zero(t, strings.Count(strings.Join(log.lines(), "\n"), "gap"), "an audit has found it")
	must.Happen(t, "nothing to be buffered", func() bool { return b.only(t).Env.Budget.Count() == 0 })
	require.NoError(t, b.stop())
}

// The object ends, which nobody is told of who never had it. The position has not got there when it is tried again.
func TestRefused_object_is_not_read_from_before_what_a_watch_has_shown(t *testing.T) {
	w, log := newWorld(t, "configmaps.v1"), newReadableLog()
	w.put("configmaps", "shop/one", "")
	w.put("configmaps", "shop/stuck", "")
	refuse(log, "stuck")
	entry := StreamSpec{Resource: "configmaps"}
	b := runIn(t, w, log, &memoryStore{}, entry)
	b.watches(t, b.only(t).Name)
	s := b.only(t)
	must.Happen(t, "the refusal", s.Refusals.Lacks)
	ticket := must.Get(s.Admit(t.Context(), fmt.Sprint(w.version+1), 1))(t)
	w.remove("configmaps", "shop/stuck")
	w.put("configmaps", "shop/one", "a=b")
	must.Happen(t, "what comes after", func() bool {
		return slices.ContainsFunc(log.lines(), func(line string) bool {
			return strings.HasPrefix(line,
				"updated shop/one ")
		})
	})
	refuse(log)
	s.Refusals.Retry(t.Context(), "shop/stuck")
	must.Happen(t, "an end of what is under way", func() bool { return b.session(t).delivery.InFlight.Count() == 0 })
	assert.Equal(t, []string{"shop/one 5"}, alive(log.fakeLog))
	s.Tracker.Settle(uint64(ticket))
	require.NoError(t, b.stop())
}

// The version that is read changes, which nothing is listed for: nothing else tells that the log lacks the object.
func TestRefused_objects_are_handed_over(t *testing.T) {
	w, log, store := newWorld(t, "widgets.v1beta1.x", "widgets.v1.x"), newReadableLog(), &memoryStore{}
	w.put("widgets.x", "shop/one", "")
	w.put("widgets.x", "shop/stuck", "")
	refuse(log, "stuck")
	b := runIn(t, w, log, store, StreamSpec{Resource: "widgets.v1beta1.x"})
	must.Happen(t, "the list", func() bool { return len(log.lines()) == 3 })
	b.watches(t, b.only(t).Name)
	require.NoError(t, b.stop())
	refuse(log)
	b = runIn(t, w, log, store, StreamSpec{Resource: "widgets.v1.x"})
	must.Happen(t, "the object", func() bool {
		return slices.Equal(news(log.fakeLog, 3),
			[]string{"added shop/stuck 3 relist"})
	})
	require.NoError(t, b.stop())
}

// Objects are refused for a while, change meanwhile, and are selected and not. In the end a consumer has what exists.
func TestRefused_objects_are_in_the_log_once_the_broker_takes_them(t *testing.T) {
	selections := [][]StreamSpec{
		{{Resource: "configmaps"}},
		{{Resource: "configmaps", Namespace: "shop"}},
		{{Resource: "configmaps", LabelSelector: "a=b"}},
		{{Resource: "configmaps", Namespace: "shop"}, {Resource: "configmaps", Namespace: "bank"}},
	}
	for seed := range uint64(testtier.Rounds(10, 40, 400)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 8))
			w, log, store := newWorld(t, "configmaps.v1"), newReadableLog(), &memoryStore{}
			places := []string{"shop/one", "shop/two", "bank/three", "bank/four"}
			change := func() {
				place := places[random.IntN(len(places))]
				if _, exists := w.at("configmaps", w.version)[place]; exists && random.IntN(3) == 0 {
					w.remove("configmaps", place)
					return
				}
				w.put("configmaps", place, []string{"a=b", "a=c"}[random.IntN(2)])
			}
			entries := selections[0]
			for range 5 {
				var refused []string
				for _, place := range places {
					if random.IntN(3) == 0 {
						_, name, _ := strings.Cut(place, "/")
						refused = append(refused, name)
					}
				}
				refuse(log, refused...)
				if random.IntN(2) == 0 {
					entries = selections[random.IntN(len(selections))]
				}
				b := runIn(t, w, log, store, slices.Clone(entries)...)
				for range random.IntN(10) {
					change()
					if random.IntN(3) == 0 {
						b.settles(t)
					}
				}
				require.NoError(t, b.stop())
				change()
			}
			refuse(log)
			b := runIn(t, w, log, store, slices.Clone(entries)...)
			c := newConsumer("held", false)
			must.Succeed(t, "what exists", func() error {
				c.read(log.fakeLog, len(log.lines()))
				if held, want := c.versions(), w.selected(entries); !slices.Equal(held, want) {
					return fmt.Errorf("held is %v, want %v; the log has\n%s", held, want, strings.Join(log.lines(), "\n"))
				}
				return nil
			})
			require.NoError(t, b.stop())
			for i := range log.log {
				assert.NotContains(t, string(log.log[i].Data), `"cause":"restored"`, "a refusal is taken for another history")
			}
		})
	}
}

// settles waits until all that was read is settled.
func (b *bridge) settles(t *testing.T) {
	t.Helper()
	must.Succeed(t, "an end of what is under way", func() error {
		open := b.session(t).journal.Opened()
		for _, s := range open {
			if n := s.Tracker.Pending(); n > 0 {
				return fmt.Errorf("stream %s has %d pending, retiring %v", s.Name, n, s.Saved.Retiring)
			}
		}
		if len(open) == 0 {
			return errors.New("no stream is open")
		}
		return nil
	})
}

// The broker refuses the repetition of an object that the log has.
func TestRefused_repetition_leaves_a_resync_due_that_is_not_begun_at_once(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	log.set(func() { log.refuse = func(m *sink.Message) bool { return strings.HasSuffix(m.Subject, ".a") } })
	r.env.Client = (&lister{objects: []string{"a u1 5"}}).client(t)
	stop := resyncsDue(t, s)
	must.Happen(t, "two resyncs", func() bool { return resyncCount(s) == 2 })
	s.Resyncer.Resync.Mu.Lock()
	assert.Equal(t, 2*resyncs.FirstDelay, s.Resyncer.Resync.After)
	ended := s.Resyncer.Resync.Ended
	assert.GreaterOrEqual(t, ended[1].Began.Sub(ended[0].Began), resyncs.FirstDelay, "between the two")
	s.Resyncer.Resync.Mu.Unlock()
	refuse(log)
	must.Happen(t, "one that is complete", func() bool { return completeness(log.fakeLog) == "true" })
	must.Happen(t, "nothing to be due", func() bool {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return !s.Saved.ResyncDue
	})
	stop()
	assert.True(t, s.Resyncer.Resync.MayBegin(time.Now(), true), "the next one waits")
}

// resyncsDue has a stream that watches make the resyncs that are due, as one is, until stop is called.
func resyncsDue(t *testing.T, s *stream.Stream) (stop func()) {
	t.Helper()
	s.Status.State(source.Watching, nil)
	s.Mu.Lock()
	s.Saved.ResyncDue = true
	s.Mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.Resyncer.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

func resyncCount(s *stream.Stream) int {
	s.Resyncer.Resync.Mu.Lock()
	defer s.Resyncer.Resync.Mu.Unlock()
	return len(s.Resyncer.Resync.Ended)
}

// What the log has lost is repaired, without an object. Only a resync tells a consumer what has gone.
func TestRefused_object_leaves_a_resync_due_behind_a_repair(t *testing.T) {
	log, store, r, _ := listed(t, "10", "a u1 5", "b u2 6")
	r.stopSaved()
	log.lose(2)
	refuse(log, "a")
	r, s := startStream(t, log, store)
	require.Equal(t, sequence.Repair, s.Saved.Owes.List)
	snapshot(t, s, "20", "a u1 5", "b u2 6")
	r.settle()
	assert.Equal(t, "false", completeness(log.fakeLog))
	assert.True(t, s.Saved.ResyncDue)
	r.stopSaved()
}

// An object is deleted, and another one has its name, while the broker takes nothing of it. Then it takes the end, and
// the process dies.
func TestRefused_object_whose_name_another_one_had_survives_a_crash_between_both(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5")
	refuse(log, "a")
	send(t, s, source.Deleted, "a", "u1", "11", source.ReasonWatch)
	send(t, s, source.Added, "a", "u2", "12", source.ReasonWatch)
	r.settle()
	require.True(t, s.Refusals.Lacks())
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "12"})
	refuse(log)
	log.set(func() { log.fails = func(m *sink.Message) bool { return strings.Contains(m.ID, "u2.") } })
	send(t, s, source.Updated, "a", "u2", "13", source.ReasonWatch)
	must.Happen(t, "the end", func() bool { return slices.Contains(log.lines(), "deleted default/a u1 5 watch") })
	require.NoError(t, r.journal.Save(t.Context()))
	want := checkpoint.Refused{Key: "default/a", Changes: 2, Version: "12"}
	assert.Equal(t, []checkpoint.Refused{want}, store.state.Streams[s.Name].Refused)
	r.stopSaved()
	log.set(func() { log.fails = nil })
	r, s = startStream(t, log, store)
	r.retried(s, "12", "a u2 12")
	assert.Equal(t, []string{"default/a 12"}, alive(log.fakeLog))
	r.stopSaved()
}

// The broker has refused the end of the first object, and the second one. It takes the end of the second one: the log
// has the first, which is gone.
func TestRefused_object_whose_name_another_one_had_has_its_own_end(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	refuse(log, "a")
	send(t, s, source.Deleted, "a", "u1", "11", source.ReasonWatch)
	send(t, s, source.Added, "a", "u2", "12", source.ReasonWatch)
	r.settle()
	require.True(t, s.Refusals.Lacks())
	refuse(log)
	send(t, s, source.Deleted, "a", "u2", "13", source.ReasonWatch)
	r.settle()
	log.set(func() {
		last := log.log[len(log.log)-1]
		assert.Equal(t, "u1", attribute(&last, "objectuid"))
		assert.Equal(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default","uid":"u1",`+
			`"resourceVersion":"5"}}`, string(last.Data))
	})
	assert.Equal(t, "deleted default/a u1 5 relist 3", log.lines()[len(log.lines())-1])
	assert.Empty(t, alive(log.fakeLog))
	assert.False(t, s.Refusals.Lacks())
	r.stopSaved()
}

func TestRefused_changes_are_counted_once_by_all_processes(t *testing.T) {
	w, log, store := newWorld(t, "configmaps.v1"), newReadableLog(), &memoryStore{}
	w.put("configmaps", "shop/one", "")
	w.put("configmaps", "shop/stuck", "")
	entry := StreamSpec{Resource: "configmaps"}
	b := runIn(t, w, log, store, entry)
	begun(t, b, log.fakeLog, []StreamSpec{entry})
	refuse(log, "stuck")
	for range 3 {
		w.put("configmaps", "shop/stuck", "a=b")
	}
	refused := func() []checkpoint.Refused {
		s := b.only(t)
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return s.Saved.Refused
	}
	want := []checkpoint.Refused{{Key: "shop/stuck", Changes: 3, Version: fmt.Sprint(w.version)}}
	must.Happen(t, "the refusals", func() bool { return slices.Equal(refused(), want) })
	require.NoError(t, b.stop())
	for range 2 { // what the position has not passed is watched again, and refused again
		b = runIn(t, w, log, store, entry)
		b.watches(t, "configmaps.v1")
		w.put("configmaps", "shop/one", "a=b")
		must.Happen(t, "what comes after", func() bool {
			return slices.Contains(alive(log.fakeLog), fmt.Sprint("shop/one ", w.version))
		})
		assert.Equal(t, want, refused())
		require.NoError(t, b.stop())
	}
	refuse(log)
	b = runIn(t, w, log, store, entry)
	must.Happen(t, "the object", func() bool { return slices.Contains(alive(log.fakeLog), "shop/stuck "+want[0].Version) })
	require.NoError(t, b.stop())
	assert.Equal(t, "3", attribute(&log.log[len(log.log)-1], "sampledrate"))
}

// An object is refused while the stream is read again from before. The stream gets where it was, and tries the object.
func TestRefused_object_does_not_keep_a_rewind_from_ending(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	lived(t, log, store)
	store.rewind()
	log.forgetIDs()
	log.set(func() { log.refuse = func(m *sink.Message) bool { return strings.Contains(m.ID, "u1.") } })
	r, s := startStream(t, log, store)
	live(t, s, life)
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	require.True(t, s.Refusals.Lacks())
	require.NoError(t, r.journal.Save(t.Context()))
	assert.Empty(t, s.Saved.Replay.To, "the rewind has not ended")
	s.Status.State(source.Watching, nil)
	s.Mu.Lock()
	assert.True(t, s.Steady())
	s.Mu.Unlock()
	refuse(log)
	before := len(log.lines())
	r.env.Client = lists(t, "20", "a u1 18")
	s.Refusals.Retry(t.Context(), "default/a")
	settleNow(t, s)
	assert.Equal(t, []string{"updated default/a u1 18 relist 2"}, log.lines()[before:], "it stands for both changes")
	assert.False(t, s.Refusals.Lacks())
	r.stopSaved()
}

// The broker refuses an end. Its object is selected again before it takes it.
func TestRefused_end_does_not_keep_another_stream_from_taking_over(t *testing.T) {
	w, log := newWorld(t, "configmaps.v1"), newReadableLog()
	w.put("configmaps", "shop/one", "")
	w.put("configmaps", "bank/stuck", "")
	all, shop := StreamSpec{Resource: "configmaps"}, StreamSpec{Resource: "configmaps", Namespace: "shop"}
	both := []StreamSpec{shop, {Resource: "configmaps", Namespace: "bank"}}
	b := runIn(t, w, log, &memoryStore{}, slices.Clone(both)...)
	begun(t, b, log.fakeLog, both)
	refuse(log, "stuck")
	b.respecify(t, shop)
	must.Happen(t, "the refusal", func() bool {
		return slices.ContainsFunc(b.session(t).journal.Opened(), func(s *stream.Stream) bool { return s.Refusals.Lacks() })
	})
	b.respecify(t, all)
	b.watches(t, "configmaps.v1")
	w.put("configmaps", "bank/two", "")
	must.Happen(t, "what is selected", func() bool { return slices.Contains(alive(log.fakeLog), "bank/two 4") })
	refuse(log)
	w.put("configmaps", "bank/stuck", "a=b")
	must.Happen(t, "the object", func() bool { return slices.Contains(alive(log.fakeLog), "bank/stuck 5") })
	require.NoError(t, b.stop())
}

// lists is a client of an API server that has "name uid version" at any version.
func lists(t *testing.T, version string, objects ...string) *kube.Client {
	return answeredBy(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var items []string
		for _, o := range objects {
			f := strings.Fields(o)
			items = append(items, fmt.Sprintf(`{"metadata":{"name":%q,"namespace":"default","uid":%q,"resourceVersion":%q}}`,
				f[0], f[1], f[2]))
		}
		_, _ = fmt.Fprintf(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":%q},"items":[%s]}`,
			version, strings.Join(items, ","))
	}))
}

// retried has a stream try the object "default/a" as it is at a version.
func (r *rig) retried(s *stream.Stream, version string, objects ...string) {
	r.t.Helper()
	s.Status.State(source.Watching, nil)
	r.env.Client = lists(r.t, version, objects...)
	s.Refusals.Retry(r.t.Context(), "default/a")
	r.settle()
}

// The broker stores an event, the answer is lost, and from then on it refuses the object.
func TestRefused_event_that_the_broker_had_taken_is_looked_for(t *testing.T) {
	log, _, r, s := listed(t, "10")
	refusing := false
	log.set(func() {
		log.faults = func() fault { refusing = true; return lostAnswer }
		log.refuse = func(m *sink.Message) bool { return refusing && strings.HasSuffix(m.Subject, ".a") }
	})
	send(t, s, source.Added, "a", "u1", "11", source.ReasonWatch)
	r.settle()
	assert.False(t, s.Refusals.Lacks())
	log.set(func() { log.faults = func() fault { return noFault }; log.refuse = nil })
	send(t, s, source.Deleted, "a", "u1", "12", source.ReasonWatch)
	r.settle()
	assert.Empty(t, alive(log.fakeLog))
	r.stopSaved()
}

// unreadLog cannot be read for a while.
type unreadLog struct {
	readableLog
	reads atomic.Bool
}

func (l *unreadLog) Read(ctx context.Context, q sink.Query, f func(*sink.Stored) error) error {
	if !l.reads.Load() {
		return errors.New("no leader")
	}
	return l.readableLog.Read(ctx, q, f)
}

// As long as the log cannot be searched for the event, it is not recorded.
func TestRefused_event_that_cannot_be_looked_for_waits(t *testing.T) {
	log := &unreadLog{readableLog: newReadableLog()}
	log.reads.Store(true)
	r, s := startStream(t, log, &memoryStore{})
	snapshot(t, s, "10")
	refusing := false
	log.set(func() {
		log.faults = func() fault { refusing = true; return lostAnswer }
		log.refuse = func(m *sink.Message) bool { return refusing && strings.HasSuffix(m.Subject, ".a") }
	})
	log.reads.Store(false)
	send(t, s, source.Added, "a", "u1", "11", source.ReasonWatch)
	must.Happen(t, "it to be shown", func() bool { return r.delivery.Broker.Problem(nil) != nil })
	assert.ErrorContains(t, r.delivery.Broker.Problem(nil), "no leader")
	assert.False(t, s.Refusals.Lacks())
	log.reads.Store(true)
	r.settle()
	assert.False(t, s.Refusals.Lacks())
	require.NoError(t, r.delivery.Broker.Problem(nil))
	_ = r.stop()
	log.wg.Wait()
}

// Another stream shows that etcd was restored while a change is on its way that is refused.
func TestRefused_object_is_tried_again_in_a_restored_etcd_that_is_older(t *testing.T) {
	log, store, r, s := listed(t, "1000", "a u1 900")
	refuse(log, "a")
	gate := log.hold()
	send(t, s, source.Updated, "a", "u1", "1001", source.ReasonWatch)
	cause := &source.RewoundError{Stream: "other", Position: "1000", Server: "500"}
	r.journal.Exclusive(func() {
		s.Epochs.Restored(r.epochs.Next(), source.Why{Cause: source.CauseRestored}, cause)
	})
	close(gate)
	r.settle()
	log.set(func() { log.gate = nil })
	require.NoError(t, s.Epochs.Renew(t.Context(), cause))
	relist(t, s, "500", "a u1 450")
	r.settle()
	require.True(t, s.Refusals.Lacks())
	r.stopSaved()
	refuse(log)
	r, s = startStream(t, log, store)
	r.retried(s, "500", "a u1 450")
	assert.Equal(t, []string{"default/a 450"}, alive(log.fakeLog))
	r.stopSaved()
}

// As many objects are recorded as may be. One more waits, and holds up what would have the others tried.
func TestRefused_object_that_waits_long_has_everything_read_again(t *testing.T) {
	log, _, r, s := listed(t, "10", "x u2 6")
	refuse(log, "x")
	r.refusals.Store(refused.Most)
	r.delivery.RoomTime = 0
	var restarted atomic.Bool
	r.restart = func() { restarted.Store(true) }
	send(t, s, source.Updated, "x", "u2", "11", source.ReasonWatch)
	must.Happen(t, "another session", restarted.Load)
	tries := 0
	log.set(func() { log.refuse = func(*sink.Message) bool { tries++; return true } })
	send(t, s, source.Updated, "x", "u2", "12", source.ReasonWatch) // comes before the timer
	must.Happen(t, "another try", func() (tried bool) {
		log.set(func() { tried = tries == 2 })
		return tried
	})
	assert.Equal(t, 1, s.Figures.Incidents.Past().Rejections, "one event is refused")
	_ = r.stop()
}

func TestRefused_event_is_rejected_behind_a_filter_that_leaves_out_what_follows(t *testing.T) {
	log := newReadableLog()
	r := start(t, log, &memoryStore{})
	s := r.stream(&StreamSpec{Filter: leavesOut("12")})
	snapshot(t, s, "10", "a u1 5")
	refuse(log, "a")
	live(t, s, []happening{{source.Updated, "a", "u1", "11"}, {source.Updated, "a", "u1", "12"}})
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	require.True(t, s.Refusals.Lacks())
	refuse(log)
	r.retried(s, "20", "a u1 12")
	lines := log.lines()
	assert.Equal(t, "rejected default/a u1 12 relist 2", lines[len(lines)-1])
	assert.False(t, s.Refusals.Lacks())
	r.stopSaved()
}

// rates returns what the events of an object behind the first so many messages stand for.
func rates(log readableLog, from int, name string) (all []string) {
	log.mu.Lock()
	defer log.mu.Unlock()
	for i := range log.log[from:] {
		if m := &log.log[from+i]; attribute(m, "name") == name {
			all = append(all, cmp.Or(attribute(m, "sampledrate"), "1"))
		}
	}
	return all
}

// The next process watches refused changes again, and its broker takes them.
func TestRefused_changes_that_are_published_after_all_stand_for_themselves(t *testing.T) {
	changes := []happening{
		{source.Updated, "a", "u1", "12"}, {source.Updated, "a", "u1", "13"}, {source.Updated, "a", "u1", "14"},
	}
	for name, c := range map[string]struct {
		refused, again []happening
		want           []string
	}{
		"all":      {nil, changes, []string{"1", "1", "1"}},
		"the rest": {nil, changes[1:], []string{"1", "2"}}, // the position had passed the first one
		"the last": {changes[:2], changes[2:], []string{"3"}},
		"none":     {nil, []happening{{source.Updated, "a", "u1", "15"}}, []string{"4"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, store, r, s := listed(t, "10", "a u1 5")
			refuse(log, "a")
			_ = must.Get(s.Admit(t.Context(), "11", 1))(t) // something else is on its way
			live(t, s, changes)
			require.NoError(t, r.journal.Save(t.Context()))
			_ = r.stop()
			r, s = startStream(t, log, store)
			before := len(log.lines())
			live(t, s, c.refused)
			refuse(log)
			live(t, s, c.again)
			assert.Equal(t, c.want, rates(log, before, "a"))
			assert.False(t, s.Refusals.Lacks())
			r.stopSaved()
		})
	}
}

// What is read back is a change of its own, and stands for what was refused before. What a list shows is no change.
func TestRefused_changes_are_counted_with_what_is_read_back(t *testing.T) {
	for reason, want := range map[source.Reason]string{source.ReasonRecovered: "3", source.ReasonRelist: "2"} {
		t.Run(string(reason), func(t *testing.T) {
			log, _, r, s := listed(t, "10", "a u1 5")
			before := len(log.lines())
			refuse(log, "a")
			live(t, s, []happening{{source.Updated, "a", "u1", "12"}, {source.Updated, "a", "u1", "13"}})
			refuse(log)
			send(t, s, source.Updated, "a", "u1", "15", reason)
			r.settle()
			assert.Equal(t, []string{want}, rates(log, before, "a"))
			r.stopSaved()
		})
	}
}

func TestRefused_changes_stand_for_themselves_in_a_rewind(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r, s := saved(t, log, store)
	taken := []happening{{source.Updated, "a", "u1", "11"}, {source.Updated, "a", "u1", "12"}}
	refused := []happening{{source.Updated, "a", "u1", "15"}, {source.Updated, "a", "u1", "16"}}
	live(t, s, taken)
	refuse(log, "a")
	live(t, s, refused)
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	r.stopSaved()
	refuse(log)
	store.rewind()
	log.forgetIDs()
	r, s = startStream(t, log, store)
	before := len(log.lines())
	live(t, s, slices.Concat(taken, refused))
	assert.Equal(t, []string{"1", "1", "1", "1"}, rates(log, before, "a"))
	r.stopSaved()
}

// What is read may be older than what was refused: such versions have no order.
func TestRefused_object_whose_version_is_no_number_is_found_by_an_audit(t *testing.T) {
	log, store, r, s := listed(t, "list-1", "a u1 v-1")
	refuse(log, "a")
	live(t, s, []happening{{source.Updated, "a", "u1", "v-2"}})
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "v-3"})
	r.stopSaved()
	refuse(log)
	r, s = startStream(t, log, store)
	r.retried(s, "v-3", "a u1 v-2")
	require.True(t, s.Refusals.Lacks())
	s.Auditor.Client = r.env.Client
	differing, done, err := s.Auditor.Audit(t.Context())
	require.NoError(t, err)
	assert.True(t, done)
	assert.Equal(t, []string{"default/a"}, differing)
	r.stopSaved()
}

// The broker has refused an object already, of which nothing is published again.
func TestResync_that_is_due_remains_due_while_the_log_lacks_an_object(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	refuse(log, "a")
	live(t, s, []happening{{source.Updated, "a", "u1", "11"}})
	note(t, s, source.Progress{Kind: source.Bookmark, Version: "20"})
	r.env.Client = (&lister{objects: []string{"a u1 11"}, version: "20"}).client(t)
	stop := resyncsDue(t, s)
	due := func() (due, later bool) {
		s.Mu.Lock()
		defer s.Mu.Unlock()
		return s.Saved.ResyncDue, !s.Resyncer.Resync.MayBegin(time.Now(), false)
	}
	must.Happen(t, "the end of a resync", func() bool { due, later := due(); return !due || later })
	stop()
	isDue, later := due()
	assert.True(t, isDue)
	assert.True(t, later)
	assert.Equal(t, "false", completeness(log.fakeLog))
	r.stopSaved()
}

func TestResync_that_is_due_waits_until_the_log_lacks_no_object(t *testing.T) {
	r := resyncs.New()
	now := time.Now()
	assert.True(t, r.MayBegin(now, true), "the first one does not wait")
	r.Postpone()
	assert.False(t, r.MayBegin(now, false))
	assert.True(t, r.MayBegin(now.Add(time.Minute), false))
	assert.False(t, r.MayBegin(now.Add(time.Minute), true))
	for range 20 {
		r.Postpone()
	}
	assert.False(t, r.MayBegin(now.Add(resyncs.LastDelay-time.Second), false))
	r.Told()
	assert.True(t, r.MayBegin(now, true))
}

func TestRefused_object_is_not_tried_less_often_because_it_cannot_be_tried_yet(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	refuse(log, "a")
	live(t, s, []happening{{source.Updated, "a", "u1", "11"}})
	s.Status.State(source.Waiting, errors.New("away"))
	for range 5 {
		s.Refusals.Retry(t.Context(), "default/a")
	}
	_, at := s.Refusals.NextRefused()
	assert.LessOrEqual(t, time.Until(at), time.Second)
	_ = r.stop()
}

// Changes of an object are refused, and then its entry is removed.
func TestRefused_changes_are_counted_with_the_end_of_an_object_that_is_not_selected_any_more(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	refuse(log, "a")
	live(t, s, []happening{{source.Updated, "a", "u1", "11"}, {source.Updated, "a", "u1", "12"}})
	refuse(log)
	before := len(log.lines())
	require.NoError(t, r.retire(t.Context(), t.Context(), s, always(source.ReasonDeselected), "a test"))
	assert.Equal(t, []string{"deleted default/a u1 5 deselected 2"}, log.lines()[before:])
	_ = r.stop()
}

// The next process is at a position before the refused change, which its watch is yet to show.
func TestRefused_object_is_not_read_as_it_was_before(t *testing.T) {
	log, store, r, s := listed(t, "10", "a u1 5")
	refuse(log, "a")
	_ = must.Get(s.Admit(t.Context(), "11", 1))(t) // something else is on its way
	live(t, s, []happening{{source.Updated, "a", "u1", "12"}})
	require.NoError(t, r.journal.Save(t.Context()))
	_ = r.stop()
	refuse(log)
	r, s = startStream(t, log, store)
	r.retried(s, "10", "a u1 5")
	assert.True(t, s.Refusals.Lacks(), "what it was before is taken for what it is")
	r.stopSaved()
}

func TestRefused_objects_of_a_stored_stream_have_no_versions_behind_a_restoration(t *testing.T) {
	before := []checkpoint.Refused{{Key: "shop/a", Changes: 2, Version: "9"}}
	saved := checkpoint.Stream{Position: "10", Refused: before}
	ledger.BeginEpoch(&saved, 7, "10", source.Why{Cause: source.CauseRestored})
	assert.Equal(t, []checkpoint.Refused{{Key: "shop/a", Changes: 2}}, saved.Refused)
	assert.Equal(t, "9", before[0].Version, "what was committed has changed")
}

func TestResync_that_is_due_and_fails_is_not_begun_again_at_once(t *testing.T) {
	_, _, r, s := listed(t, "10", "a u1 5")
	r.env.Client = answeredBy(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
	}))
	stop := resyncsDue(t, s)
	must.Happen(t, "a resync", func() bool { return resyncCount(s) == 1 })
	stop()
	assert.False(t, s.Resyncer.Resync.MayBegin(time.Now(), false))
	r.stopSaved()
}
