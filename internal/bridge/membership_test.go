// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/handover"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// news returns what a log has behind its first n messages, sorted, without uids and without the versions of markers.
func news(log *fakeLog, n int) (all []string) {
	for _, line := range log.lines()[n:] {
		words := strings.Fields(line)
		switch {
		case words[0] == "gap" || strings.HasPrefix(words[0], "snapshot-"):
			words = words[:1]
		case len(words) > 2:
			words = slices.Delete(words, 2, 3)
		}
		all = append(all, strings.Join(words, " "))
	}
	slices.Sort(all)
	return all
}

// selections are ways in which an entry may change. In the world are shop/one and bank/three with the label a=b, and
// shop/two with a=c. Meanwhile shop/one changes at version 6, and shop/two is deleted at version 7.
var selections = map[string]struct {
	before, after []StreamSpec
	streams       []string
	want          []string
}{
	"namespaces are narrowed": {
		[]StreamSpec{{Resource: "configmaps"}},
		[]StreamSpec{{Resource: "configmaps", Namespace: "shop"}},
		[]string{"configmaps.v1/shop"},
		[]string{"deleted bank/three 4 deselected", "deleted shop/two 3 relist", "gap", "updated shop/one 6 relist"},
	},
	"namespaces are widened": {
		[]StreamSpec{{Resource: "configmaps", Namespace: "shop"}},
		[]StreamSpec{{Resource: "configmaps"}},
		[]string{"configmaps.v1"},
		[]string{"added bank/three 4 relist", "deleted shop/two 3 relist", "gap", "updated shop/one 6 relist"},
	},
	"namespaces become all": {
		[]StreamSpec{{Resource: "configmaps", Namespace: "shop"}, {Resource: "configmaps", Namespace: "bank"}},
		[]StreamSpec{{Resource: "configmaps"}},
		[]string{"configmaps.v1"},
		[]string{"deleted shop/two 3 relist", "gap", "updated shop/one 6 relist"},
	},
	"all namespaces become several": {
		[]StreamSpec{{Resource: "configmaps"}},
		[]StreamSpec{{Resource: "configmaps", Namespace: "shop"}, {Resource: "configmaps", Namespace: "bank"}},
		[]string{"configmaps.v1/bank", "configmaps.v1/shop"},
		[]string{"deleted shop/two 3 relist", "gap", "gap", "updated shop/one 6 relist"},
	},
	"a selector is added": {
		[]StreamSpec{{Resource: "configmaps"}},
		[]StreamSpec{{Resource: "configmaps", LabelSelector: "a=c"}},
		[]string{"configmaps.v1"},
		[]string{"deleted bank/three 4 deselected", "deleted shop/one 2 deselected", "deleted shop/two 3 relist", "gap"},
	},
	"a selector is removed": {
		[]StreamSpec{{Resource: "configmaps", LabelSelector: "a=b"}},
		[]StreamSpec{{Resource: "configmaps"}},
		[]string{"configmaps.v1"},
		[]string{"gap", "updated shop/one 6 relist"},
	},
	"it is renamed": {
		[]StreamSpec{{Resource: "configmaps"}},
		[]StreamSpec{{Resource: "configmap"}},
		[]string{"configmaps.v1"},
		[]string{"deleted shop/two 7 watch", "updated shop/one 6 watch"},
	},
	"it is given to a wildcard": {
		[]StreamSpec{{Resource: "configmaps"}},
		[]StreamSpec{{Resource: "*", Wildcard: &Wildcard{All: true}}},
		[]string{"configmaps.v1"},
		[]string{"deleted shop/two 7 watch", "updated shop/one 6 watch"},
	},
	"it is removed": {
		[]StreamSpec{{Resource: "configmaps"}},
		[]StreamSpec{{Resource: "secrets"}},
		nil,
		[]string{"deleted bank/three 4 deselected", "deleted shop/one 2 deselected", "deleted shop/two 3 relist"},
	},
}

func shopAndBank(t *testing.T) *world {
	w := newWorld(t, "configmaps.v1")
	w.put("configmaps", "shop/one", "a=b")
	w.put("configmaps", "shop/two", "a=c")
	w.put("configmaps", "bank/three", "a=b")
	w.version = 5
	return w
}

// begun waits for the first list of streams and returns the number of messages in the log.
func begun(t *testing.T, b *bridge, log *fakeLog, specs []StreamSpec) int {
	t.Helper()
	var streams []string
	for _, s := range specs {
		streams = append(streams, strings.TrimSuffix("configmaps.v1/"+s.Namespace, "/"))
	}
	b.watches(t, streams...)
	must.Happen(t, "all acknowledgements", func() bool { return b.session(t).delivery.InFlight.Count() == 0 })
	return len(log.lines())
}

// shut keeps a log from taking anything until the result is called.
func (l *fakeLog) shut() (open func()) {
	gate := make(chan struct{})
	l.set(func() { l.gate = gate })
	return func() {
		l.set(func() { l.gate = nil })
		close(gate)
	}
}

func meanwhile(w *world) {
	w.put("configmaps", "shop/one", "a=b")
	w.remove("configmaps", "shop/two")
}

// Whatever an entry becomes: what is known of objects carries over, and no event is repeated.
func TestSelection_changes_by_a_restart(t *testing.T) {
	for name, c := range selections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, log, store := shopAndBank(t), newFakeLog(), &memoryStore{}
			b := runIn(t, w, log, store, slices.Clone(c.before)...)
			n := begun(t, b, log, c.before)
			require.NoError(t, b.stop())
			meanwhile(w)
			b = runIn(t, w, log, store, slices.Clone(c.after)...)
			changed(t, b, w, log, store, n, c.streams, c.want)
			gapsBegin(t, log, n, 5)
		})
	}
}

// Here the watch may show what happens before it is stopped, unless the broker is away: then it is published before.
func TestSelection_changes_by_a_reload(t *testing.T) {
	for name, c := range selections {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, log, store := shopAndBank(t), newFakeLog(), &memoryStore{}
			b := runIn(t, w, log, store, slices.Clone(c.before)...)
			n := begun(t, b, log, c.before)
			w.mu.Lock() // no watch is told
			w.version++
			w.history = append(w.history, occurrence{"configmaps", 6, thing{"shop", "one", "u2", "a=b", 6}, false})
			w.version++
			w.history = append(w.history, occurrence{"configmaps", 7, thing{"shop", "two", "u3", "a=c", 7}, true})
			w.mu.Unlock()
			b.respecify(t, slices.Clone(c.after)...)
			changed(t, b, w, log, store, n, c.streams, c.want)
			gapsBegin(t, log, n, 7)
		})
	}
}

// changed checks what a change of the selection has left behind.
func changed(t *testing.T, b *bridge, w *world, log *fakeLog, store *memoryStore, n int, streams, want []string) {
	t.Helper()
	w.change(func() {}) // in case a watch has missed something
	must.Succeed(t, "the log", func() error {
		if got := news(log, n); !slices.Equal(got, want) {
			return fmt.Errorf("%d streams are open; the log has\n%s\nwant\n%s",
				len(b.session(t).journal.Opened()), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		return nil
	})
	b.watches(t, streams...)
	must.Happen(t, "the store", func() bool {
		state := must.Get(store.Load(t.Context()))(t)
		return len(state.Streams) == len(streams)
	})
	w.put("configmaps", "shop/five", "a=c")
	if len(streams) > 0 && slices.Contains(streams, "configmaps.v1/shop") || slices.Contains(streams, "configmaps.v1") {
		must.Happen(t, "what comes", func() bool { return slices.Contains(news(log, n), "added shop/five 8 watch") })
	}
	require.NoError(t, b.stop())
	assert.LessOrEqual(t, len(news(log, n)), len(want)+1, "the log has\n%s", strings.Join(news(log, n), "\n"))
	sequencesRise(t, log)
}

// The new selection has more objects than the one before, and none of them.
func TestSelection_that_is_turned_round_tells_what_exists(t *testing.T) {
	w, log, store := shopAndBank(t), newFakeLog(), &memoryStore{}
	before := []StreamSpec{{Resource: "configmaps", LabelSelector: "a=c"}}
	b := runIn(t, w, log, store, slices.Clone(before)...)
	n := begun(t, b, log, before)
	require.NoError(t, b.stop())
	b = runIn(t, w, log, store, StreamSpec{Resource: "configmaps", LabelSelector: "a=b"})
	b.watches(t, "configmaps.v1")
	require.NoError(t, b.stop())
	want := []string{"added bank/three 4 relist", "added shop/one 2 relist", "deleted shop/two 3 deselected", "gap"}
	assert.Equal(t, want, news(log, n))
}

// The log has only the end of an object of the stream, in a namespace that is one of several now.
func TestRebuild_of_a_stream_that_is_widened_says_that_the_checkpoint_was_lost(t *testing.T) {
	w, log, store := newWorld(t, "configmaps.v1"), newReadableLog(), &memoryStore{}
	entry := StreamSpec{Resource: "configmaps", Namespace: "shop"}
	w.put("configmaps", "shop/one", "")
	b := runIn(t, w, log, store, entry)
	begun(t, b, log.fakeLog, []StreamSpec{entry})
	w.remove("configmaps", "shop/one")
	must.Happen(t, "the end", func() bool { return len(alive(log.fakeLog)) == 0 })
	require.NoError(t, b.stop())
	n := len(log.lines())
	b = runIn(t, w, log, &memoryStore{}, StreamSpec{Resource: "configmaps"})
	must.Happen(t, "the gap", func() bool { return slices.Contains(news(log.fakeLog, n), "gap") })
	require.NoError(t, b.stop())
}

// The log has the end of an object that no entry selects any more. Its stream is not made again.
func TestRebuild_makes_no_stream_of_an_end_that_is_not_selected(t *testing.T) {
	w, log := newWorld(t, "configmaps.v1", "widgets.v1.x"), newReadableLog()
	entry := StreamSpec{Resource: "configmaps"}
	w.put("configmaps", "shop/one", "")
	b := runIn(t, w, log, &memoryStore{}, entry)
	begun(t, b, log.fakeLog, []StreamSpec{entry})
	w.remove("configmaps", "shop/one")
	must.Happen(t, "the end", func() bool { return len(alive(log.fakeLog)) == 0 })
	require.NoError(t, b.stop())
	store := &namingStore{names: map[string]struct{}{}}
	b = runIn(t, w, log, store, StreamSpec{Resource: "widgets"})
	b.watches(t, "widgets.v1.x")
	require.NoError(t, b.stop())
	assert.Equal(t, map[string]struct{}{"widgets.v1.x": {}}, store.names, "streams that were stored")
}

// namingStore remembers the names of all streams that were committed.
type namingStore struct {
	memoryStore
	names map[string]struct{}
}

func (s *namingStore) Commit(ctx context.Context, b *checkpoint.Batch) error {
	for name := range b.Streams {
		s.names[name] = struct{}{}
	}
	return s.memoryStore.Commit(ctx, b)
}

// The log has only markers of the stream. They do not say whether its resource is in namespaces.
func TestRebuild_of_a_stream_without_objects_says_that_the_checkpoint_was_lost(t *testing.T) {
	for _, namespace := range []string{"", "shop"} {
		w, log := newWorld(t, "configmaps.v1"), newReadableLog()
		entry := StreamSpec{Resource: "configmaps", Namespace: namespace}
		b := runIn(t, w, log, &memoryStore{}, entry)
		n := begun(t, b, log.fakeLog, []StreamSpec{entry})
		require.NoError(t, b.stop())
		w.put("configmaps", "shop/one", "")
		b = runIn(t, w, log, &memoryStore{}, entry)
		must.Happen(t, "the list", func() bool { return slices.Contains(news(log.fakeLog, n), "added shop/one 2 relist") })
		require.NoError(t, b.stop())
		log.set(func() {
			gap := slices.IndexFunc(log.log, func(m sink.Stored) bool {
				return strings.Contains(attribute(&m, "type"),
					".gap.")
			})
			require.GreaterOrEqual(t, gap, n, "there is no gap")
			assert.Contains(t, string(log.log[gap].Data), `"cause":"checkpoint-lost"`)
		})
	}
}

// gapsBegin checks that the gaps behind the first n messages say that the selection has changed, and since when:
// between the first list at version 5 and the latest version at which the streams before it can have stopped.
func gapsBegin(t *testing.T, log *fakeLog, n int, latest uint64) {
	t.Helper()
	log.set(func() {
		for i := n; i < len(log.log); i++ {
			m := &log.log[i]
			if !strings.Contains(attribute(m, "type"), ".gap.") {
				continue
			}
			var gap struct{ From, Cause string }
			require.NoError(t, json.Unmarshal(m.Data, &gap))
			from := ledger.Numeric(gap.From)
			assert.True(t, gap.Cause == "selection" && from >= 5 && from <= latest, "a gap %s", m.Data)
		}
	})
}

// sequencesRise checks that events of an object have rising sequences.
func sequencesRise(t *testing.T, log *fakeLog) {
	t.Helper()
	last := map[string]string{}
	log.set(func() {
		for i := range log.log {
			m := &log.log[i]
			key, sequence := attribute(m, "partitionkey"), attribute(m, "sequence")
			if sequence == "" {
				continue
			}
			assert.Greater(t, sequence, last[key], "%s of %s", m.ID, key)
			last[key] = sequence
		}
	})
}

// The broker is away when the namespaces are narrowed. The other objects go on meanwhile.
func TestSelection_changes_while_the_broker_is_away_and_a_drain_lasts_too_long(t *testing.T) {
	w, log, store := shopAndBank(t), newFakeLog(), &memoryStore{}
	c := selections["namespaces are narrowed"]
	b := runIn(t, w, log, store, slices.Clone(c.before)...)
	n := begun(t, b, log, c.before)
	session := b.session(t)
	session.cfg.Drain = 50 * time.Millisecond
	open := log.shut()
	w.put("configmaps", "shop/one", "a=b")
	w.remove("configmaps", "shop/two")
	stream := b.only(t)
	must.Happen(t, "what waits", func() bool { return stream.Tracker.Pending() == 2 })
	b.respecify(t, slices.Clone(c.after)...)
	must.Happen(t, "another session", func() bool { return b.session(t) != session })
	open()
	b.watches(t, c.streams...)
	must.Happen(t, "the ends", func() bool {
		return slices.Contains(news(log, n), "deleted bank/three 4 deselected")
	})
	require.NoError(t, b.stop())
	all := strings.Join(news(log, n), "\n")
	assert.Equal(t, 1, strings.Count(all, "updated shop/one 6"), all)
	assert.Equal(t, 1, strings.Count(all, "deleted shop/two"), all)
	sequencesRise(t, log)
}

// crashStore fails every commit from the n-th on, as a process that is killed there.
type crashStore struct {
	*memoryStore
	left atomic.Int64
}

func (s *crashStore) Commit(ctx context.Context, b *checkpoint.Batch) error {
	if s.left.Add(-1) < 0 {
		return context.DeadlineExceeded
	}
	return s.memoryStore.Commit(ctx, b)
}

// Whatever commit is the last one: the next process ends with the same state, and repeats nothing.
func TestSelection_changes_across_a_crash_at_any_commit(t *testing.T) {
	for name, c := range selections {
		if len(c.streams) == 0 {
			continue
		}
		for commits := range int64(6) {
			t.Run(fmt.Sprintf("%s, %d", name, commits), func(t *testing.T) {
				t.Parallel()
				w, log, store := shopAndBank(t), newReadableLog(), &memoryStore{}
				b := runIn(t, w, log, store, slices.Clone(c.before)...)
				n := begun(t, b, log.fakeLog, c.before)
				require.NoError(t, b.stop())
				meanwhile(w)
				crashing := &crashStore{memoryStore: store}
				crashing.left.Store(commits)
				b = runIn(t, w, log, crashing, slices.Clone(c.after)...)
				must.Happen(t, "the crash, or the end", func() bool {
					return crashing.left.Load() < -1 || settledAs(b, c.streams) && len(store.streams(t)) == len(c.streams)
				})
				b.session(t).cfg.Drain = time.Millisecond
				_ = b.stop()
				b = runIn(t, w, log, store, slices.Clone(c.after)...)
				b.watches(t, c.streams...)
				w.put("configmaps", "shop/five", "a=c")
				must.Happen(t, "what comes", func() bool {
					return strings.Contains(strings.Join(log.lines(), "\n"), "shop/five")
				})
				must.Happen(t, "nothing else in the store", func() bool {
					return len(must.Get(store.Load(t.Context()))(t).Streams) == len(c.streams)
				})
				require.NoError(t, b.stop())
				sequencesRise(t, log.fakeLog)
				gapsBegin(t, log.fakeLog, n, 7)
				assert.Equal(t, w.selected(c.after), alive(log.fakeLog))
			})
		}
	}
}

// widelyRead reads ConfigMaps and widgets until a ConfigMap of two is removed and the log has only its last messages
// left. The consumer has read the log before that.
func widelyRead(t *testing.T, w *world, log readableLog, left int, entries []StreamSpec) *consumer {
	t.Helper()
	w.put("configmaps", "shop/one", "")
	w.put("configmaps", "shop/two", "")
	b := runIn(t, w, log, &memoryStore{}, slices.Clone(entries)...)
	b.watches(t, "configmaps.v1", "widgets.v1.x")
	require.NoError(t, b.stop())
	n := len(log.lines())
	c := newConsumer("has read", false)
	c.read(log.fakeLog, n)
	laterSecond(t)
	w.remove("configmaps", "shop/one")
	log.trim(n + 1 - left)
	return c
}

// holdsTheTruth waits until a consumer that reads on holds the ConfigMaps that there are.
func (c *consumer) holdsTheTruth(t *testing.T, w *world, log readableLog) {
	t.Helper()
	must.Succeed(t, "the truth", func() error {
		c.read(log.fakeLog, len(log.lines()))
		held := c.versions()
		if !slices.Equal(held, w.selected([]StreamSpec{{Resource: "configmaps"}})) || c.failed != "" {
			return fmt.Errorf("it holds %v (%s); the log has\n%s", held, c.failed, strings.Join(log.lines(), "\n"))
		}
		return nil
	})
}

// The checkpoint is lost, and retention has removed all that the log had of a stream. Whatever commit is the last one
// then: a consumer that had read what was removed ends with what exists.
func TestRebuild_of_a_log_that_has_nothing_left_is_followed_by_a_resync(t *testing.T) {
	entries := []StreamSpec{{Resource: "configmaps"}, {Resource: "widgets"}}
	for _, left := range []int{0, 1} {
		for commits := range int64(6) {
			t.Run(fmt.Sprintf("%d of the log are left, %d commits", left, commits), func(t *testing.T) {
				t.Parallel()
				w, log := newWorld(t, "configmaps.v1", "widgets.v1.x"), newReadableLog()
				c := widelyRead(t, w, log, left, entries)
				crashing := &crashStore{memoryStore: &memoryStore{}}
				crashing.left.Store(commits)
				b := runIn(t, w, log, crashing, slices.Clone(entries)...)
				must.Happen(t, "the crash, or the end", func() bool {
					return crashing.left.Load() < -1 || settledAs(b, []string{"configmaps.v1", "widgets.v1.x"})
				})
				b.session(t).cfg.Drain = time.Millisecond
				_ = b.stop()
				b = runIn(t, w, log, crashing.memoryStore, slices.Clone(entries)...)
				c.holdsTheTruth(t, w, log)
				must.Happen(t, "all streams, saved", func() bool {
					saved, _ := crashing.Load(t.Context())
					return !saved.Log.ResyncNew && len(saved.Streams) == 2
				})
				require.NoError(t, b.stop())
			})
		}
	}
}

// resyncsOf counts the complete resyncs of a resource in a log.
func resyncsOf(log *fakeLog, resource string) (n int) {
	log.mu.Lock()
	defer log.mu.Unlock()
	for i := range log.log {
		m := &log.log[i]
		if typeOf(m) == "resync-completed" && strings.Split(attribute(m, "partitionkey"), "/")[2] == resource {
			n++
		}
	}
	return n
}

// A resource is served again only by the second process after the checkpoint was lost. Secrets come with the third one.
func TestRebuild_resyncs_a_stream_that_begins_later(t *testing.T) {
	for name, c := range map[string]struct {
		entries []StreamSpec
		secrets bool // whether these are resynced, too
	}{
		"of a name":     {[]StreamSpec{{Resource: "configmaps"}, {Resource: "widgets"}}, false},
		"of a wildcard": {[]StreamSpec{{Wildcard: &Wildcard{All: true}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, log, store := newWorld(t, "configmaps.v1", "widgets.v1.x"), newReadableLog(), &memoryStore{}
			consumer := widelyRead(t, w, log, 0, c.entries)
			saved := func() *checkpoint.State { return must.Get(store.Load(t.Context()))(t) }
			w.serve("widgets.v1.x")
			b := runIn(t, w, log, store, slices.Clone(c.entries)...)
			must.Happen(t, "a resync of widgets", func() bool { return resyncsOf(log.fakeLog, "widgets") > 0 })
			require.NoError(t, b.stop())
			assert.True(t, saved().Log.ResyncNew)
			w.serve("configmaps.v1", "widgets.v1.x")
			b = runIn(t, w, log, store, slices.Clone(c.entries)...)
			consumer.holdsTheTruth(t, w, log)
			must.Happen(t, "what is saved", func() bool {
				now := saved()
				return now.Log.ResyncNew == c.secrets && len(now.Streams) == 2 && !now.Streams["configmaps.v1"].ResyncDue
			})
			require.NoError(t, b.stop())
			w.serve("configmaps.v1", "widgets.v1.x", "secrets.v1")
			b = runIn(t, w, log, store, append(slices.Clone(c.entries), StreamSpec{Resource: "secrets"})...)
			b.watches(t, "configmaps.v1", "widgets.v1.x", "secrets.v1")
			if c.secrets {
				must.Happen(t, "a resync of Secrets", func() bool { return resyncsOf(log.fakeLog, "secrets") > 0 })
			}
			require.NoError(t, b.stop())
			assert.Equal(t, c.secrets, resyncsOf(log.fakeLog, "secrets") > 0)
			assert.False(t, !c.secrets && saved().Streams["secrets.v1"].ResyncDue)
		})
	}
}

// laterSecond waits for the next second: nothing but the time tells an epoch from one that nothing is left of.
func laterSecond(t *testing.T) {
	t.Helper()
	now := time.Now().Unix()
	must.Happen(t, "the next second", func() bool { return time.Now().Unix() > now })
}

// The log or the checkpoint was lost when the selection changes. A consumer that has read everything before ends with
// what is selected, and so does one that begins.
func TestSelection_changes_where_the_log_or_the_checkpoint_was_lost(t *testing.T) {
	for loss, lose := range map[string]func(log readableLog, store *memoryStore, n int){
		"the whole log":  func(log readableLog, _ *memoryStore, _ int) { log.lose(0) },
		"half the log":   func(log readableLog, _ *memoryStore, n int) { log.lose(n / 2) },
		"the checkpoint": func(_ readableLog, store *memoryStore, _ int) { store.state = checkpoint.State{} },
	} {
		for name, c := range selections {
			t.Run(loss+", "+name, func(t *testing.T) {
				t.Parallel()
				w, log, store := shopAndBank(t), newReadableLog(), &memoryStore{}
				b := runIn(t, w, log, store, slices.Clone(c.before)...)
				n := begun(t, b, log.fakeLog, c.before)
				require.NoError(t, b.stop())
				consumers := []*consumer{newConsumer("has read", false), newConsumer("begins", false)}
				consumers[0].read(log.fakeLog, n)
				meanwhile(w)
				lose(log, store, n)
				for _, c := range consumers {
					c.cut(len(log.lines()))
				}
				b = runIn(t, w, log, store, slices.Clone(c.after)...)
				b.watches(t, c.streams...)
				must.Succeed(t, "the truth", func() error {
					if len(store.streams(t)) != len(c.streams) {
						return fmt.Errorf("the store has %v", store.streams(t))
					}
					for _, consumer := range consumers {
						consumer.read(log.fakeLog, len(log.lines()))
						if held := consumer.versions(); !slices.Equal(held, w.selected(c.after)) || consumer.failed != "" {
							return fmt.Errorf("the consumer that %s holds %v (%s); selected is %v; the log has\n%s", consumer.name,
								held, consumer.failed, w.selected(c.after), strings.Join(log.lines(), "\n"))
						}
					}
					return nil
				})
				require.NoError(t, b.stop())
				sequencesRise(t, log.fakeLog)
			})
		}
	}
}

// The log has lost that objects came back behind their ends. A consumer that has read that holds them.
func TestSelection_ends_what_the_log_has_lost_behind_an_older_end(t *testing.T) {
	for name, after := range map[string]StreamSpec{
		"it is removed": {Resource: "secrets"}, "it is narrowed": {Resource: "configmaps", Namespace: "shop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, log, store := shopAndBank(t), newReadableLog(), &memoryStore{}
			all, none := StreamSpec{Resource: "configmaps"}, StreamSpec{Resource: "secrets"}
			b := runIn(t, w, log, store, all)
			begun(t, b, log.fakeLog, []StreamSpec{all})
			require.NoError(t, b.stop())
			b = runIn(t, w, log, store, none)
			must.Happen(t, "the ends", func() bool { return len(alive(log.fakeLog)) == 0 && len(store.streams(t)) == 0 })
			require.NoError(t, b.stop())
			n := len(log.lines())
			b = runIn(t, w, log, store, all)
			must.Happen(t, "all", func() bool { return len(alive(log.fakeLog)) == 3 })
			b.watches(t, "configmaps.v1")
			require.NoError(t, b.stop())
			c := newConsumer("has read", false)
			c.read(log.fakeLog, len(log.lines()))
			log.lose(n)
			c.cut(n)
			b = runIn(t, w, log, store, after)
			if after.Namespace != "" {
				b.watches(t, "configmaps.v1/shop")
			}
			must.Succeed(t, "the truth", func() error {
				c.read(log.fakeLog, len(log.lines()))
				if held := c.versions(); !slices.Equal(held, w.selected([]StreamSpec{after})) {
					return fmt.Errorf("held is %v; the log has\n%s", held, strings.Join(log.lines(), "\n"))
				}
				return nil
			})
			require.NoError(t, b.stop())
		})
	}
}

// Both start before the log has anything. The broker tells the last event of a subject, whosesoever it is.
func TestPipeline_publishes_what_another_one_publishes_at_the_same_subjects(t *testing.T) {
	w, log := newWorld(t, "configmaps.v1"), newReadableLog()
	run := func(name string) *bridge {
		return runBridge(t, &apiServer{Server: w.Server}, log, &memoryStore{}, func(c *Config) {
			c.Name, c.Identity = name, checkpoint.Identity{Cluster: "test", Pipeline: name}
			c.Streams = []StreamSpec{{
				Resource: "configmaps", Says: "x", Encoding: encode.Config{Cluster: "test", Pipeline: name},
			}}
		})
	}
	bridges := map[string]*bridge{"a": run("a"), "b": run("b")}
	for _, b := range bridges {
		b.watches(t, "configmaps.v1")
	}
	w.put("configmaps", "shop/one", "")
	w.put("configmaps", "bank/two", "")
	for name, b := range bridges {
		must.Succeed(t, "the objects", func() error {
			published := 0
			log.set(func() {
				for i := range log.log {
					if m := &log.log[i]; attribute(m, "pipeline") == name && typeOf(m) == "added" {
						published++
					}
				}
			})
			if published != 2 {
				return fmt.Errorf("pipeline %s has published %d; the log has\n%s", name, published, strings.Join(log.lines(), "\n"))
			}
			return nil
		})
		require.NoError(t, b.stop())
	}
}

// The log has lost that the entry of another resource was removed, which the name could mean too.
func TestName_keeps_its_meaning_where_the_log_was_lost(t *testing.T) {
	w, log, store := newWorld(t, "gateways.v1.istio.io"), newReadableLog(), &memoryStore{}
	w.put("gateways.istio.io", "shop/one", "")
	name, full := StreamSpec{Resource: "gateways"}, StreamSpec{Resource: "gateways.gateway.io"}
	b := runIn(t, w, log, store, name)
	b.watches(t, "gateways.v1.istio.io")
	require.NoError(t, b.stop())
	w.put("gateways.gateway.io", "shop/two", "")
	w.serve("gateways.v1.gateway.io", "gateways.v1.istio.io")
	b = runIn(t, w, log, store, name, full)
	b.watches(t, "gateways.v1.istio.io", "gateways.v1.gateway.io")
	require.NoError(t, b.stop())
	n := len(log.lines())
	b = runIn(t, w, log, store, name)
	must.Happen(t, "the end", func() bool { return len(store.streams(t)) == 1 })
	require.NoError(t, b.stop())
	log.lose(n)
	b = runIn(t, w, log, store, name)
	must.Happen(t, "the one stream in the store", func() bool { return len(store.streams(t)) == 1 })
	b.watches(t, "gateways.v1.istio.io")
	require.NoError(t, b.stop())
}

// versions returns what a consumer holds, as place and version.
func (c *consumer) versions() (all []string) {
	for key, h := range c.held {
		if h.typ != "deleted" {
			all = append(all, strings.TrimPrefix(key, "test/core/configmaps/")+" "+h.version)
		}
	}
	slices.Sort(all)
	return all
}

// settledAs reports whether these streams watch.
func settledAs(b *bridge, streams []string) bool {
	watching := 0
	if session := b.current.Load(); session != nil {
		for _, s := range session.journal.Opened() {
			if slices.Contains(streams, s.Name) && s.Status.Watching() {
				watching++
			}
		}
	}
	return watching == len(streams)
}

// streams returns the stored streams.
func (s *memoryStore) streams(t *testing.T) map[string]checkpoint.Stream {
	return must.Get(s.Load(t.Context()))(t).Streams
}

// selected returns the ConfigMaps that entries select, as place and version.
func (w *world) selected(entries []StreamSpec) (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for place, o := range w.at("configmaps", w.version) {
		for _, e := range entries {
			if e.Resource == "secrets" {
				continue
			}
			namespace := e.Namespace == "" || e.Namespace == o.namespace
			if namespace && (e.LabelSelector == "" || e.LabelSelector == o.labels) {
				all = append(all, fmt.Sprint(place, " ", o.version))
			}
		}
	}
	slices.Sort(all)
	return all
}

// alive returns the objects that exist by the log.
func alive(log *fakeLog) (all []string) {
	last := map[string]string{}
	for _, line := range log.lines() {
		if words := strings.Fields(line); len(words) > 3 {
			last[words[1]] = words[1] + " " + words[3]
			if words[0] == "deleted" {
				delete(last, words[1])
			}
		}
	}
	for _, one := range last {
		all = append(all, one)
	}
	slices.Sort(all)
	return all
}

func TestVersion_that_is_read_changes_without_a_word(t *testing.T) {
	for name, c := range map[string]struct{ before, after string }{
		"another one is pinned":     {"widgets.v1beta1.x", "widgets.v1.x"},
		"none is named any more":    {"widgets.v1.x", "widgets"},
		"the one is not served now": {"widgets", "widgets"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, log, store := newWorld(t, "widgets.v1beta1.x", "widgets.v1.x"), newFakeLog(), &memoryStore{}
			w.put("widgets.x", "shop/one", "")
			w.put("widgets.x", "shop/two", "")
			b := runIn(t, w, log, store, StreamSpec{Resource: c.before})
			must.Happen(t, "the list", func() bool { return len(log.lines()) == 4 })
			b.watches(t, b.only(t).Name)
			require.NoError(t, b.stop())
			w.put("widgets.x", "shop/one", "")
			w.remove("widgets.x", "shop/two")
			w.serve("widgets.v1.x")
			b = runIn(t, w, log, store, StreamSpec{Resource: c.after})
			want := []string{"deleted shop/two 5 watch", "updated shop/one 4 watch"}
			must.Happen(t, "what happened", func() bool { return slices.Equal(news(log, 4), want) })
			b.watches(t, "widgets.v1.x")
			require.NoError(t, b.stop())
			assert.Equal(t, want, news(log, 4))
			assert.Len(t, store.state.Streams, 1)
		})
	}
}

// A second resource of the same plural is installed. The group of it comes first.
func TestName_keeps_its_meaning(t *testing.T) {
	w, log, store := newWorld(t, "gateways.v1.istio.io"), newFakeLog(), &memoryStore{}
	w.put("gateways.istio.io", "shop/one", "")
	b := runIn(t, w, log, store, StreamSpec{Resource: "gateways"})
	b.watches(t, "gateways.v1.istio.io")
	n := len(log.lines())
	w.put("gateways.gateway.io", "shop/two", "")
	w.serve("gateways.v1.gateway.io", "gateways.v1.istio.io")
	require.NoError(t, b.stop())
	b = runIn(t, w, log, store, StreamSpec{Resource: "gateways"})
	b.watches(t, "gateways.v1.istio.io")
	w.put("gateways.istio.io", "shop/one", "")
	must.Happen(t, "what comes", func() bool { return slices.Contains(news(log, n), "updated shop/one 4 watch") })
	code, body := b.get("/readyz")
	assert.Equal(t, 200, code, body)
	// Its meaning goes: it is another one from then on.
	w.serve("gateways.v1.gateway.io")
	b.cfg.Catalog.Refresh()
	must.Happen(t, "the ends", func() bool { return slices.Contains(news(log, n), "deleted shop/one 4 relist") })
	must.Happen(t, "the other resource", func() bool { return slices.Contains(news(log, n), "added shop/two 3 snapshot") })
	b.watches(t, "gateways.v1.gateway.io")
	require.NoError(t, b.stop())
	assert.Len(t, store.state.Streams, 1)
}

func TestName_that_may_mean_several_resources_is_told_with_their_groups(t *testing.T) {
	w := newWorld(t, "gateways.v1.gateway.io", "gateways.v1.istio.io")
	var said testlog.Text
	b := runBridge(t, &apiServer{Server: w.Server}, newFakeLog(), &memoryStore{}, func(c *Config) {
		c.Streams[0].Resource, c.Log = "gateways", slog.New(slog.NewTextHandler(&said, nil))
	})
	b.watches(t, "gateways.v1.gateway.io")
	require.NoError(t, b.stop())
	want := "may mean several resources, and the first one is read: gateways.gateway.io, gateways.istio.io; name it " +
		"with its group"
	assert.Equal(t, 1, strings.Count(said.String(), want), said.String())
}

// A definition that comes later may show that an entry cannot be read. The others go on.
func TestEntry_that_a_later_definition_does_not_fit_is_told(t *testing.T) {
	w, log := newWorld(t, "configmaps.v1"), newFakeLog()
	b := runIn(t, w, log, &memoryStore{}, StreamSpec{Resource: "configmaps"},
		StreamSpec{Resource: "nodes.x", Namespace: "shop"})
	b.watches(t, "configmaps.v1")
	w.serve("configmaps.v1", "nodes.v1.x")
	b.cfg.Catalog.Refresh()
	want := "pipeline test: nodes.x: resource nodes.x is cluster-scoped and cannot be read in namespaces"
	must.Happen(t, want, func() bool { _, body := b.get("/readyz"); return strings.Contains(body, want) })
	w.put("configmaps", "shop/one", "")
	must.Happen(t, "the other one", func() bool {
		return strings.Contains(strings.Join(log.lines(), "\n"),
			"added shop/one")
	})
	require.NoError(t, b.stop())
}

// What the API server does not serve is told, and read as soon as it is served.
func TestName_of_nothing_is_told_until_it_is_served(t *testing.T) {
	w, log := newWorld(t), newFakeLog()
	b := runIn(t, w, log, &memoryStore{}, StreamSpec{Resource: "widgets"}, StreamSpec{Resource: "widgets.v2.x"})
	says := func(want string) {
		t.Helper()
		must.Happen(t, want, func() bool { _, body := b.get("/readyz"); return strings.Contains(body, want) })
	}
	says(`pipeline test: widgets: resource "widgets": the API server does not serve it`)
	w.put("widgets.x", "shop/one", "")
	w.serve("widgets.v1.x")
	says(`resource "widgets.v2.x": the API server does not serve that version, only v1`)
	b.watches(t, "widgets.v1.x")
	_, body := b.get("/readyz")
	assert.NotContains(t, body, `resource "widgets":`)
	require.NoError(t, b.stop())
}

// A narrowing is undone while the broker takes nothing.
func TestSelection_changes_and_changes_back(t *testing.T) {
	w, log, store := shopAndBank(t), newFakeLog(), &memoryStore{}
	b := runIn(t, w, log, store, StreamSpec{Resource: "configmaps"})
	n := begun(t, b, log, []StreamSpec{{Resource: "configmaps"}})
	open := log.shut()
	back, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		b.respecify(t, StreamSpec{Resource: "configmaps", Namespace: "shop"})
		close(back)
		b.respecify(t, StreamSpec{Resource: "configmaps"})
	}()
	<-back
	w.put("configmaps", "bank/three", "a=b")
	open()
	<-done
	b.watches(t, "configmaps.v1")
	w.put("configmaps", "shop/one", "a=c")
	must.Happen(t, "what comes", func() bool { return slices.Contains(news(log, n), "updated shop/one 7 watch") })
	must.Happen(t, "nothing else in the store", func() bool {
		return len(must.Get(store.Load(t.Context()))(t).Streams) == 1
	})
	require.NoError(t, b.stop())
	sequencesRise(t, log)
	assert.Equal(t, w.selected([]StreamSpec{{}}), alive(log))
}

// What may not be listed any more may exist: its ends say deselected.
func TestSelection_is_narrowed_with_the_permissions(t *testing.T) {
	w, log, store := shopAndBank(t), newFakeLog(), &memoryStore{}
	c := selections["namespaces are narrowed"]
	b := runIn(t, w, log, store, slices.Clone(c.before)...)
	n := begun(t, b, log, c.before)
	require.NoError(t, b.stop())
	w.denied[""] = true
	b = runIn(t, w, log, store, slices.Clone(c.after)...)
	must.Happen(t, "the end", func() bool { return slices.Contains(news(log, n), "deleted bank/three 4 deselected") })
	b.watches(t, c.streams...)
	require.NoError(t, b.stop())
}

// Two streams of one namespace go over to one, as where two versions were read. What the one ahead has published is
// dropped until the position has passed it.
func TestHandover_drops_what_the_stream_ahead_has_published(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	scope := source.Stream{Resource: configMaps, Namespace: "default"}
	stored := func(position string, floors ...sequence.Floor) checkpoint.Stream {
		return checkpoint.Stream{
			Position: position, Epoch: 5, Fingerprint: scope.Scope(), Kind: "ConfigMap", Namespaced: true, Floors: floors,
		}
	}
	store.state = checkpoint.State{
		Identity: checkpoint.Identity{Cluster: "test", Pipeline: "test"},
		Streams: map[string]checkpoint.Stream{
			"configmaps.v1beta1/default": stored("10"), "configmaps.v1/default": stored("20", sequence.Floor{Position: 15}),
		},
		Rows: map[string]map[string]checkpoint.Row{
			"configmaps.v1beta1/default": {"default/a": {UID: "u1", ResourceVersion: "9", Epoch: 5, Version: 9, Form: 3}},
			"configmaps.v1/default":      {"default/b": {UID: "u2", ResourceVersion: "18", Epoch: 5, Version: 18, Form: 4}},
		},
	}
	r := startOf(t, log, store, StreamSpec{Resource: "configmaps", Namespace: "default"})
	from := []string{"configmaps.v1/default", "configmaps.v1beta1/default"}
	require.NoError(t, r.journal.Move(t.Context(), handover.Handover{From: from, To: []*membership.Assignment{{
		Stream: scope, Action: membership.Run, From: from, Same: true, Called: []string{"configmaps"},
	}}}))
	want := checkpoint.Stream{
		Position: "10", Epoch: 5, Fingerprint: scope.Scope(), Kind: "ConfigMap", Namespaced: true,
		Called: []string{"configmaps"},
		Floors: []sequence.Floor{{Namespace: "default", Position: 20}, {Position: 15}},
	}
	assert.Equal(t, map[string]checkpoint.Stream{"configmaps.v1/default": want}, store.streams(t))
	rows := store.state.Rows["configmaps.v1/default"]
	assert.True(t, len(rows) == 2 && rows["default/a"].Form == 0 && rows["default/b"].Form == 4, "the rows are %+v", rows)
	s := must.Get(r.open(&r.cfg.Streams[0], scope))(t)
	send(t, s, source.Added, "c", "u3", "12", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "20", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "21", source.ReasonWatch)
	send(t, s, source.Updated, "b", "u2", "22", source.ReasonWatch)
	r.settle()
	lines := log.lines()
	slices.Sort(lines)
	expect(t, lines, "updated default/a u1 21 watch", "updated default/b u2 22 watch")
	require.NoError(t, r.journal.Save(t.Context()))
	assert.Empty(t, store.streams(t)["configmaps.v1/default"].Floors, "the position has passed the floors")
}
