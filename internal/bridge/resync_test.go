// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/resyncs"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// again publishes objects again, written as in snapshot, as if the API server had just listed them.
func again(t *testing.T, s *stream.Stream, objects ...string) (queued int) {
	t.Helper()
	s.Status.State(source.Watching, nil)
	for _, o := range objects {
		f := strings.Fields(o)
		id := source.Ident{Namespace: "default", Name: f[0], UID: f[1], ResourceVersion: f[2]}
		ok := must.Get(s.Resyncer.RepublishOne(t.Context(), id, contentOf(id), 7, rate.NewLimiter(rate.Inf, 1)))(t)
		if ok {
			queued++
		}
	}
	return queued
}

func TestResync_publishes_what_the_log_has_and_nothing_else(t *testing.T) {
	log, r, s := startNew(t, nil)
	snapshot(t, s, "10", "a u1 5", "b u2 6", "c u3 7")
	send(t, s, source.Updated, "b", "u2", "11", source.ReasonWatch)
	send(t, s, source.Deleted, "c", "u3", "12", source.ReasonWatch)
	r.settle()
	before := len(log.lines())
	objects := []string{"a u1 5", "a u1 4", "a u9 5", "b u2 6", "b u2 11", "b u2 99", "c u3 7", "c u3 12", "d u4 8"}
	again(t, s, objects...)
	r.settle()
	want := []string{"updated default/a u1 5 resync", "updated default/b u2 11 resync"}
	got := log.lines()[before:]
	slices.Sort(got)
	expect(t, got, want...)
	id := log.log[before].ID
	assert.True(t, strings.HasSuffix(id, ".r7"), "the id is %s", id)
	row, _ := s.Ledger.Get("default/a")
	assert.True(t, row.Sequence > uint64(before) && s.Tracker.Pending() == 0 && r.budget.Count() == 0,
		"the row is %+v, %d tickets and %d changes are open", row, s.Tracker.Pending(), r.budget.Count())
	// The next change is checked against the place of what was published again.
	send(t, s, source.Updated, "a", "u1", "13", source.ReasonWatch)
	r.settle()
	expect(t, log.lines()[before+2:], "updated default/a u1 13 watch")
}

// What happens between the look at an object and its turn goes first.
func TestResync_gives_way_to_what_is_on_its_way(t *testing.T) {
	log, r, s := startNew(t, &StreamSpec{Latest: true})
	snapshot(t, s, "10", "a u1 5", "b u2 6")
	before := len(log.lines())
	gate := log.hold()
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	assert.Equal(t, 1, again(t, s, "a u1 5", "a u1 11", "b u2 6"), "queued, and only of b is nothing on its way")
	send(t, s, source.Updated, "b", "u2", "12", source.ReasonWatch)
	send(t, s, source.Updated, "b", "u2", "13", source.ReasonWatch)
	close(gate)
	log.set(func() { log.gate = nil })
	r.settle()
	got := log.lines()[before:]
	for _, line := range got {
		assert.False(t, strings.HasSuffix(line, "resync 2"),
			"what is published again was folded with what happened: %s", line)
	}
	got = slices.DeleteFunc(got, func(line string) bool { return !strings.Contains(line, "/b") })
	assert.Equal(t, "updated default/b u2 6 resync", got[0], "the log has %v", got)
}

// Another writer, or an earlier process, has published more. That is no sign of another history, as it is for what a
// list shows.
func TestResync_learns_what_the_log_has_and_goes_without(t *testing.T) {
	log, _, r, s := listed(t, "10", "a u1 5")
	other, theirs := startStream(t, log, &memoryStore{})
	for _, version := range []string{"8", "9"} { // versions that the list would have shown
		send(t, theirs, source.Updated, "a", "u1", version, source.ReasonWatch)
	}
	other.settle()
	before := len(log.lines())
	s.Mu.Lock()
	row, _ := s.Ledger.Get("default/a")
	row.Fresh = false
	s.Ledger.Put("default/a", row)
	s.Mu.Unlock()
	again(t, s, "a u1 5")
	r.settle()
	expect(t, log.lines()[before:])
	row, _ = s.Ledger.Get("default/a")
	assert.True(t, row.ResourceVersion == "9" && s.Epochs.Mismatched() == nil, "the row is %+v, the doubt %v", row,
		s.Epochs.Mismatched())
}

func TestResync_waits_while_a_list_goes_on(t *testing.T) {
	log, r, s := startNew(t, nil)
	snapshot(t, s, "10", "a u1 5")
	s.Status.State(source.Watching, nil)
	for name, c := range map[string]struct{ begin, end func() }{
		"a gap": {
			func() {
				note(t, s, source.Progress{Kind: source.Gap, Version: "20", Why: source.Why{Message: "compacted"}})
			},
			func() {
				send(t, s, source.Added, "a", "u1", "5", source.ReasonRelist)
				note(t, s, source.Progress{Kind: source.Listed, Version: "20", Objects: 1})
			},
		},
		"the API server is away": {
			func() { s.Status.State(source.Waiting, errors.New("away")) },
			func() { s.Status.State(source.Watching, nil) },
		},
		"an audit": {
			func() { s.Epochs.Distrust() },
			func() { s.Mu.Lock(); s.Epochs.Distrusted = false; s.Mu.Unlock() },
		},
	} {
		for _, midst := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, in the midst of an object: %v", name, midst), func(t *testing.T) {
				r.settle()
				before := len(log.lines())
				id := source.Ident{Namespace: "default", Name: "a", UID: "u1", ResourceVersion: "5"}
				content := &lateContent{testContent: contentOf(id)}
				if content.first = c.begin; !midst {
					content.first = func() {}
					c.begin()
				}
				ended := make(chan error, 1)
				go func() {
					_, err := s.Resyncer.RepublishOne(t.Context(), id, content, int64(before), rate.NewLimiter(rate.Inf, 1))
					ended <- err
				}()
				select {
				case err := <-ended:
					t.Fatalf("it did not wait (%v)", err)
				case <-time.After(20 * time.Millisecond):
				}
				c.end()
				require.NoError(t, <-ended)
				r.settle()
				if got := log.lines(); got[len(got)-1] != "updated default/a u1 5 resync" {
					t.Errorf("the log ends with %v", got[before:])
				}
				if n := r.budget.Count(); n != 0 || !s.Resyncer.Resync.Room.TryAcquire(resyncs.Ahead) {
					t.Fatalf("%d changes are open, or what was dropped takes room", n)
				}
				s.Resyncer.Resync.Room.Release(resyncs.Ahead)
			})
		}
	}
}

// lateContent calls first when it is read for the first time: the object is about to be queued then.
type lateContent struct {
	testContent
	first func()
	once  sync.Once
}

func (c *lateContent) Body() *source.Body {
	c.once.Do(c.first)
	return c.testContent.Body()
}

// An object that is listed again in another history is published by that, also where it is as it was.
func TestResync_leaves_another_history_to_its_list(t *testing.T) {
	log := newFakeLog()
	_, s := startStream(t, log, &memoryStore{})
	snapshot(t, s, "10", "a u1 5")
	require.NoError(t, s.Epochs.Renew(t.Context(), &source.RewoundError{Stream: s.Name, Position: "10", Server: "6"}))
	before := len(log.lines())
	id := source.Ident{Namespace: "default", Name: "a", UID: "u1", ResourceVersion: "5"}
	s.Mu.Lock()
	assert.False(t, s.Resyncer.Logged("default/a", id, 0),
		"the log is said to have a state of the history that has just begun")
	s.Mu.Unlock()
	expect(t, log.lines()[before:])
}

func TestResync_passes_filters_but_for_what_ignores_changes(t *testing.T) {
	for name, c := range map[string]struct {
		spec *StreamSpec
		want []string
	}{
		"operations with updated": {
			without(source.Added),
			[]string{"updated default/a u1 5 resync", "updated default/b u2 19 resync"},
		},
		"operations without updated": {without(source.Updated), nil},
		"ignored changes":            {tens(), []string{"updated default/a u1 5 resync", "updated default/b u2 19 resync"}},
		"snapshot never": {
			&StreamSpec{SkipSnapshot: true},
			[]string{"updated default/a u1 5 resync", "updated default/b u2 19 resync"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			log, r, s := startNew(t, c.spec)
			snapshot(t, s, "11", "a u1 5", "b u2 11")
			send(t, s, source.Updated, "b", "u2", "19", source.ReasonWatch)
			r.settle()
			before := len(log.lines())
			again(t, s, "a u1 5", "b u2 19")
			r.settle()
			got := log.lines()[before:]
			slices.Sort(got)
			expect(t, got, c.want...)
		})
	}
}

func TestResync_slots_are_the_same_for_all_processes_and_spread_over_streams(t *testing.T) {
	_, s := startStream(t, newFakeLog(), &memoryStore{})
	spec := StreamSpec{Resync: time.Hour}
	begins := map[int64]bool{}
	for i := range 50 {
		s := (&stream.Stream{
			Identity: stream.Identity{Name: fmt.Sprintf("configmaps.v1/ns-%d", i), Spec: &spec}, Env: s.Env,
		}).Assemble()
		now := time.Unix(1_764_000_000, 0)
		first := s.Resyncer.Slot(now)
		begins[first%3600] = true
		age := now.Unix() - first
		assert.True(t, age >= 0 && age < 3600, "at %d the slot began at %d", now.Unix(), first)
		for second := range int64(3600) {
			at := s.Resyncer.Slot(time.Unix(first+second, 999))
			require.Equal(t, first, at, "%d seconds into the slot", second)
			require.Equal(t, first+3600, s.Resyncer.Slot(time.Unix(first+second+3600, 0)), "%d seconds into the slot", second)
		}
	}
	assert.GreaterOrEqual(t, len(begins), 45, "50 streams begin at %d times", len(begins))
}

func TestResync_is_due_once_a_slot_and_not_in_the_first(t *testing.T) {
	r := start(t, newFakeLog(), &memoryStore{})
	s := r.stream(&StreamSpec{Resync: time.Hour})
	now := time.Unix(1_764_000_000, 0)
	due := func(after time.Duration) bool {
		is, wait := s.Resyncer.DueResync(now.Add(after))
		assert.True(t, wait > 0 && wait <= resyncs.FailedDelay, "it is looked again in %v", wait)
		return is
	}
	assert.True(t, !due(0) && s.Saved.Resynced == 0, "it is due before there was a list; saved is %+v", s.Saved)
	snapshot(t, s, "10", "a u1 5")
	s.Status.State(source.Watching, nil)
	assert.False(t, due(0), "it is due when everything was just listed")
	for _, c := range []struct {
		after time.Duration
		due   bool
	}{{time.Hour, true}, {time.Hour, true}, {100 * time.Hour, true}} {
		assert.Equal(t, c.due, due(c.after), "after %v it is due", c.after)
	}
	s.Resyncer.Resynced(s.Resyncer.Slot(now.Add(time.Hour)))
	assert.False(t, due(time.Hour), "it is due twice in a slot, or not in the next")
	assert.True(t, due(2*time.Hour), "it is due twice in a slot, or not in the next")
	if due(-200 * time.Hour); due(-200*time.Hour) || !due(-199*time.Hour) {
		t.Error("a clock that was wrong for a moment ends the schedule")
	}
	s.Spec.Resync = 0
	assert.False(t, due(time.Hour), "it is due without a schedule, or remembered")
	assert.EqualValues(t, 0, s.Saved.Resynced, "it is due without a schedule, or remembered")
}

// resyncs returns the numbers of those of which the log has events, and how often it has each id.
func resyncsIn(log *fakeLog) (numbers map[string]int, ids map[string]int) {
	numbers, ids = map[string]int{}, map[string]int{}
	log.set(func() {
		for i := range log.log {
			if m := &log.log[i]; attribute(m, "reason") == string(source.ReasonResync) {
				numbers[m.ID[strings.LastIndex(m.ID, ".r")+2:]]++
				ids[m.ID]++
			}
		}
	})
	return numbers, ids
}

func TestResync_that_is_asked_for_publishes_everything_while_changes_go_on(t *testing.T) {
	api, log := newAPIServer(t, 10), newReadableLog()
	api.add(100)
	b := runBridge(t, api, log, &memoryStore{}, func(c *Config) { c.ResyncRate = 500 })
	s := b.only(t)
	must.Happen(t, "the watch", func() bool { return s.Status.Watching() && s.Safe() == "101" })
	began := time.Now()
	started, err := StartResyncs([]*Pipeline{b.Pipeline}, "test", []string{"configmaps"})
	require.True(t, err == nil && len(started) == 1 && !started[0].State.Ended() && started[0].Objects == 100 &&
		started[0].Number >= began.Unix(), "%+v, error %v", started, err)
	api.add(10)
	must.Happen(t, "its end", func() bool {
		all := Resyncs([]*Pipeline{b.Pipeline})
		return len(all) == 1 && all[0].State == resyncs.Done && all[0].Published >= 100
	})
	assert.GreaterOrEqual(t, time.Since(began), 99*time.Second/500, "100 objects took, and 500 a second are the most")
	must.Happen(t, "the changes", func() bool { return value(t, b.registry, "ledger_objects") == 110 })
	numbers, _ := resyncsIn(log.fakeLog)
	n := numbers[fmt.Sprint(started[0].Number)]
	assert.True(t, len(numbers) == 1 && n >= 100 && n <= 110, "published again are %v", numbers)
	assert.EqualValues(t, 1, value(t, b.registry, "resyncs_total"), "counted")
	require.NoError(t, b.stop())
}

// gated is a bridge that watches a hundred objects, whose log takes nothing more until open is called.
func gated(t *testing.T) (api *apiServer, log *fakeLog, b *bridge, open func()) {
	t.Helper()
	api, log = newAPIServer(t, 10), newFakeLog()
	api.add(100)
	b = runBridge(t, api, log, &memoryStore{}, func(c *Config) { c.ResyncRate = rate.Inf })
	s := b.only(t)
	must.Happen(t, "the watch", func() bool { return s.Status.Watching() && s.Safe() == "101" })
	log.set(func() { log.ungated = true })
	gate := log.hold()
	return api, log, b, func() {
		log.set(func() { log.gate = nil })
		close(gate)
	}
}

// A resync that is asked for while one runs begins after that, and another one is the same. So whoever asks gets
// everything that exists from then on.
func TestResync_is_queued_behind_the_one_that_runs(t *testing.T) {
	_, log, b, open := gated(t)
	ask := func() resyncs.Resync {
		all, err := StartResyncs([]*Pipeline{b.Pipeline}, "", nil)
		require.True(t, err == nil && len(all) == 1, "%v %v", all, err)
		return all[0]
	}
	first := ask()
	must.Happen(t, "a full room", func() bool { return b.current.Load().delivery.InFlight.Count() == resyncs.Ahead })
	if told := b.State().Resyncs; len(told) != 1 || told[0].Stream != "configmaps.v1" || told[0].Listed == 0 {
		t.Errorf("of what runs it is told %+v", told)
	}
	second, third := ask(), ask()
	assert.True(t, first.Number != second.Number && second.Number == third.Number && second.State == resyncs.Queued,
		"asked for %+v, %+v and %+v", first, second, third)
	assert.Equal(t, resyncs.Ahead, b.current.Load().delivery.InFlight.Count(), "on their way")
	open()
	must.Happen(t, "both", func() bool { return value(t, b.registry, "resyncs_total") == 2 })
	numbers, _ := resyncsIn(log)
	assert.Equal(t, 100, numbers[fmt.Sprint(first.Number)], "published again are %v", numbers)
	assert.Equal(t, 100, numbers[fmt.Sprint(second.Number)], "published again are %v", numbers)
}

func TestResync_is_refused_where_nothing_is_watched_or_called_so(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	gate := make(chan struct{})
	log.gate = gate
	defer close(gate)
	b := runBridge(t, api, log, &memoryStore{}, func(c *Config) { c.Drain = time.Millisecond })
	s := b.only(t)
	must.Happen(t, "the list", func() bool { state, _ := s.Status.Now(); return state == source.Listing })
	all, err := StartResyncs([]*Pipeline{b.Pipeline}, "", nil)
	assert.True(t, err == nil && len(all) == 1 && all[0].State == resyncs.Refused && all[0].Problem == "it is listing",
		"%+v, error %v", all, err)
	for want, ask := range map[string][]string{
		`pipeline "x" is not this bridge's; valid: test`:          {"x"},
		`resource "pods" is not this bridge's; valid: configmaps`: {"test", "configmaps", "pods"},
	} {
		all, err := StartResyncs([]*Pipeline{b.Pipeline}, ask[0], ask[1:])
		assert.True(t, err != nil && err.Error() == want && all == nil, "%v: %v, error %v", ask, all, err)
	}
	for _, name := range []string{"configmaps", "configmaps.v1", "configmap", "cm", "ConfigMap"} {
		assert.NoError(t, must.Err(StartResyncs([]*Pipeline{b.Pipeline}, "", []string{name})), name)
	}
}

// A slot that a crash, or a stop, cuts short begins again, with the ids that it had; one that is complete does not.
func TestResync_has_nothing_to_do_where_nothing_is_selected(t *testing.T) {
	b := New(Config{Name: "test", Metrics: health.NewMetrics(prometheus.NewRegistry()), Streams: []StreamSpec{
		{Resource: "pods", NamespaceSelector: labels.Nothing()},
		{Resource: "*.example.com", Wildcard: &Wildcard{Group: "example.com"}},
		{Resource: "nodes"},
	}})
	state := func(when string, want ...resyncs.State) {
		t.Helper()
		all, err := StartResyncs([]*Pipeline{b}, "", nil)
		require.True(t, err == nil && len(all) == len(want), "%s: %+v, error %v", when, all, err)
		for i, r := range all {
			assert.True(t, r.State == want[i] && r.State.Ended() && (r.Problem == "") == (want[i] == resyncs.Empty),
				"%s: %+v, want %s", when, r, want[i])
		}
	}
	state("before it runs", resyncs.Refused, resyncs.Refused, resyncs.Refused)
	s := newSession(b, newFakeLog())
	defer s.delivery.ShutDown()
	b.current.Store(s)
	state("before it is known what there is", resyncs.Refused, resyncs.Refused, resyncs.Refused)
	pods, wildcard := &b.cfg.Streams[0], &b.cfg.Streams[1]
	delete(s.entries.unbegun, pods)
	delete(s.entries.unbegun, wildcard)
	state("when that is nothing", resyncs.Empty, resyncs.Empty, resyncs.Refused)
	s.entries.selected = map[*StreamSpec]int{wildcard: 1}
	state("when a stream is between two versions", resyncs.Empty, resyncs.Refused, resyncs.Refused)
	s.entries.selected = nil
	s.entries.unknown = map[*StreamSpec]error{pods: errors.New("forbidden")}
	state("when it is not known any more", resyncs.Refused, resyncs.Empty, resyncs.Refused)
}

func TestResync_of_a_slot_that_was_cut_short_begins_again(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newReadableLog(), &memoryStore{}
	api.add(60)
	run := func(resynced int64) (*bridge, *stream.Stream) {
		b := runBridge(t, api, log, store, func(c *Config) {
			c.Streams[0].Resync, c.ResyncRate, c.Drain = 1000*time.Hour, rate.Inf, time.Millisecond
		})
		s := b.only(t)
		must.Happen(t, "the schedule", func() bool {
			s.Mu.Lock()
			defer s.Mu.Unlock()
			return s.Saved.Resynced > resynced
		})
		return b, s
	}
	b, s := run(0)
	slot := s.Resyncer.Slot(time.Now())
	require.NoError(t, b.stop())
	if numbers, _ := resyncsIn(log.fakeLog); len(numbers) > 0 || store.state.Streams[s.Name].Resynced != slot {
		t.Fatalf("published again are %v, the slot is %d, stored %+v", numbers, slot, store.state.Streams[s.Name])
	}

	overdue := store.state.Streams[s.Name]
	overdue.Resynced = slot - 1000*3600
	store.state.Streams[s.Name] = overdue
	gate, n := make(chan struct{}), 0
	log.set(func() {
		log.stored = func() {
			if n++; n == 20 {
				log.gate = gate
			}
		}
	})
	b = runBridge(t, api, log, store, func(c *Config) {
		c.Streams[0].Resync, c.ResyncRate, c.Drain = 1000*time.Hour, rate.Inf, time.Millisecond
	})
	must.Happen(t, "a part", func() bool { numbers, _ := resyncsIn(log.fakeLog); return numbers[fmt.Sprint(slot)] >= 15 })
	_ = b.stop()
	require.Equal(t, overdue.Resynced, store.state.Streams[s.Name].Resynced, "a part of it is taken for the whole")
	close(gate)
	log.set(func() { log.gate, log.stored = nil, nil })
	log.forgetIDs()
	b, _ = run(overdue.Resynced)
	require.NoError(t, b.stop())
	numbers, ids := resyncsIn(log.fakeLog)
	whole := 0
	for _, n := range numbers {
		whole = max(whole, n)
	}
	assert.True(t, len(numbers) == 2 && whole == 60 && store.state.Streams[s.Name].Resynced == slot,
		"published again are %v with %d ids, stored is %+v", numbers, len(ids), store.state.Streams[s.Name])
}

// The API server goes away in the middle of a list, and comes back.
func TestResync_goes_on_when_the_API_server_is_back(t *testing.T) {
	api, log, b, open := gated(t)
	s := b.only(t)
	must.Get(StartResyncs([]*Pipeline{b.Pipeline}, "", nil))(t)
	must.Happen(t, "a full room", func() bool { return b.current.Load().delivery.InFlight.Count() == resyncs.Ahead })
	api.setAway(true)
	must.Happen(t, "the failing watch", func() bool { return !s.Status.Watching() })
	open()
	api.setAway(false)
	must.Happen(t, "its end", func() bool { return value(t, b.registry, "resyncs_total") == 1 })
	numbers, ids := resyncsIn(log)
	require.Len(t, numbers, 1, "published again, %d ids", len(ids))
	assert.Len(t, ids, 100, "published again, %d ids", len(ids))
}

func TestResync_that_fails_says_why_and_a_slot_is_tried_again_later(t *testing.T) {
	r := resyncs.New()
	now := time.Unix(1_764_000_000, 0)
	require.True(t, r.BeginSlot(now, 5), "a slot does not begin")
	told := r.End(errors.New("no permission"))
	assert.True(t, told.State == resyncs.Failed && told.Problem == "no permission", "%+v", told)
	assert.False(t, r.BeginSlot(time.Now(), 5), "it is tried again at once, or never")
	assert.True(t, r.BeginSlot(time.Now().Add(resyncs.FailedDelay), 5), "it is tried again at once, or never")
	_ = r.End(nil)
	for i := range 3 * resyncs.Kept {
		asked := r.Ask(now)
		if n, ok := r.Begin(); !ok || n != asked.Number || n != max(1_764_000_000+int64(i), n) {
			t.Fatalf("%d began, %v; asked for was %+v", n, ok, asked)
		}
		_ = r.End(nil)
	}
	assert.Len(t, r.All(), resyncs.Kept, "remembered")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := r.Wait(ctx, time.Hour)
	assert.True(t, err != nil || r.Wait(ctx, time.Hour) != nil, "it waits on when it is not wanted any more")
}

// Between the look at an object and its turn another state of it has come; in between the two nothing says that the
// stream is not steady.
func TestResync_queues_nothing_of_what_has_changed_by_its_turn(t *testing.T) {
	log, r, s := startNew(t, nil)
	snapshot(t, s, "10", "a u1 5")
	s.Status.State(source.Watching, nil)
	gate := log.hold()
	id := source.Ident{Namespace: "default", Name: "a", UID: "u1", ResourceVersion: "5"}
	content := &lateContent{
		testContent: contentOf(id),
		first:       func() { send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch) },
	}
	queued, steady, err := s.Resyncer.RepublishNow(t.Context(), id, content, 7, rate.NewLimiter(rate.Inf, 1))
	assert.True(t, !queued && steady && err == nil, "queued %v, steady %v, error %v", queued, steady, err)
	close(gate)
	log.set(func() { log.gate = nil })
	r.settle()
	n := s.Tracker.Pending()
	assert.True(t, n == 0 && s.Resyncer.Resync.Room.TryAcquire(resyncs.Ahead),
		"%d tickets are open, or there is no room", n)
}
