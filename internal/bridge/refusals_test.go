// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
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
	must.Happen(t, "the snapshot", func() bool { return slices.Contains(log.lines(), fmt.Sprint("snapshot-completed ", w.version)) })
	w.put("configmaps", "shop/one", "a=b")
	w.put("configmaps", "shop/stuck", "a=b")
	w.put("configmaps", "shop/two", "a=b")
	must.Happen(t, "what comes after", func() bool {
		return slices.ContainsFunc(log.lines(), func(line string) bool { return strings.HasPrefix(line, "updated shop/two ") })
	})
	require.NoError(t, b.stop())
	saved := store.state.Streams["configmaps.v1"]
	assert.Equal(t, []checkpoint.Refused{{Key: "shop/stuck", Changes: 2, Version: fmt.Sprint(w.version - 1)}}, saved.Refused)
	assert.Equal(t, fmt.Sprint(w.version-1), saved.Position, "the watch has not shown that its last version is complete")

	refuse(log)
	b = runIn(t, w, log, store, entry)
	must.Happen(t, "the object", func() bool {
		return slices.ContainsFunc(log.lines(), func(line string) bool { return strings.HasPrefix(line, "added shop/stuck ") })
	})
	require.NoError(t, b.stop())
	assert.Empty(t, store.state.Streams["configmaps.v1"].Refused)
	assert.Equal(t, "2", attribute(&log.log[len(log.log)-1], "sampledrate"), "the event stands for both changes")
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
		return slices.ContainsFunc(b.session(t).opened(), func(s *stream) bool { return s.lacks() })
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
	must.Happen(t, "the refusal", b.only(t).lacks)
	w.put("configmaps", "shop/one", "a=b") // the position passes the end
	must.Happen(t, "what comes after", func() bool { return slices.Contains(alive(log.fakeLog), "shop/one 5") })
	require.NoError(t, b.stop())
	refuse(log)
	b = runIn(t, w, log, store, entry)
	must.Happen(t, "the end", func() bool { return slices.Equal(alive(log.fakeLog), []string{"shop/one 5"}) })
	assert.Zero(t, strings.Count(strings.Join(log.lines(), "\n"), "gap"), "an audit has found it")
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
	b.watches(t, b.only(t).name)
	s := b.only(t)
	must.Happen(t, "the refusal", s.lacks)
	ticket := must.Get(s.Admit(t.Context(), fmt.Sprint(w.version+1), 1))(t)
	w.remove("configmaps", "shop/stuck")
	w.put("configmaps", "shop/one", "a=b")
	must.Happen(t, "what comes after", func() bool {
		return slices.ContainsFunc(log.lines(), func(line string) bool { return strings.HasPrefix(line, "updated shop/one ") })
	})
	refuse(log)
	s.retry(t.Context(), "shop/stuck")
	must.Happen(t, "an end of what is under way", func() bool { return b.session(t).busy.count() == 0 })
	assert.Equal(t, []string{"shop/one 5"}, alive(log.fakeLog))
	s.tracker.Settle(uint64(ticket))
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
	b.watches(t, b.only(t).name)
	require.NoError(t, b.stop())
	refuse(log)
	b = runIn(t, w, log, store, StreamSpec{Resource: "widgets.v1.x"})
	must.Happen(t, "the object", func() bool { return slices.Equal(news(log.fakeLog, 3), []string{"added shop/stuck 3 relist"}) })
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
		open := b.session(t).opened()
		for _, s := range open {
			if n := s.tracker.Pending(); n > 0 {
				return fmt.Errorf("stream %s has %d pending, retiring %v", s.name, n, s.saved.Retiring)
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
	r.cfg.Client = (&lister{objects: []string{"a u1 5"}}).client(t)
	s.status.State(source.Watching, nil)
	s.mu.Lock()
	s.saved.ResyncDue = true
	s.mu.Unlock()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { s.resyncs(ctx) })
	must.Happen(t, "two resyncs", func() bool { return s.resyncCount() == 2 })
	s.resync.mu.Lock()
	assert.Equal(t, 2*firstResyncAgain, s.resync.after)
	s.resync.mu.Unlock()
	refuse(log)
	must.Happen(t, "one that is complete", func() bool { return completeness(log.fakeLog) == "true" })
	must.Happen(t, "nothing to be due", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return !s.saved.ResyncDue
	})
	cancel()
	running.Wait()
}

func (s *stream) resyncCount() int {
	s.resync.mu.Lock()
	defer s.resync.mu.Unlock()
	return len(s.resync.ended)
}

// What the log has lost is repaired, without an object. Only a resync tells a consumer what has gone.
func TestRefused_object_leaves_a_resync_due_behind_a_repair(t *testing.T) {
	log, store, r, _ := listed(t, "10", "a u1 5", "b u2 6")
	r.stopSaved()
	log.lose(2)
	refuse(log, "a")
	r, s := startStream(t, log, store)
	require.Equal(t, sequence.Repair, s.saved.Owes.List)
	snapshot(t, s, "20", "a u1 5", "b u2 6")
	r.settle()
	assert.Equal(t, "false", completeness(log.fakeLog))
	assert.True(t, s.saved.ResyncDue)
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
	require.True(t, s.lacks())
	refuse(log)
	log.set(func() { log.fails = func(m *sink.Message) bool { return strings.Contains(m.ID, "u2.") } })
	send(t, s, source.Updated, "a", "u2", "13", source.ReasonWatch)
	must.Happen(t, "the end", func() bool { return slices.Contains(log.lines(), "deleted default/a u1 5 watch") })
	require.NoError(t, r.save(t.Context()))
	assert.Equal(t, []checkpoint.Refused{{Key: "default/a", Changes: 2, Version: "12"}}, store.state.Streams[s.name].Refused)
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
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.saved.Refused
	}
	want := []checkpoint.Refused{{Key: "shop/stuck", Changes: 3, Version: fmt.Sprint(w.version)}}
	must.Happen(t, "the refusals", func() bool { return slices.Equal(refused(), want) })
	require.NoError(t, b.stop())
	for range 2 { // what the position has not passed is watched again, and refused again
		b = runIn(t, w, log, store, entry)
		b.watches(t, "configmaps.v1")
		w.put("configmaps", "shop/one", "a=b")
		must.Happen(t, "what comes after", func() bool { return slices.Contains(alive(log.fakeLog), fmt.Sprint("shop/one ", w.version)) })
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
	require.True(t, s.lacks())
	require.NoError(t, r.save(t.Context()))
	assert.False(t, s.replaying())
	s.status.State(source.Watching, nil)
	s.mu.Lock()
	assert.True(t, s.steady())
	s.mu.Unlock()
	refuse(log)
	before := len(log.lines())
	r.cfg.Client = answeredBy(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"20"},"items":[
			{"metadata":{"name":"a","namespace":"default","uid":"u1","resourceVersion":"18"}}]}`)
	}))
	s.retry(t.Context(), "default/a")
	s.session.settleNow(t)
	assert.Equal(t, []string{"updated default/a u1 18 relist 2"}, log.lines()[before:], "it stands for both changes")
	assert.False(t, s.lacks())
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
		return slices.ContainsFunc(b.session(t).opened(), func(s *stream) bool { return s.lacks() })
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
