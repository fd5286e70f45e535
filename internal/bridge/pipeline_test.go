// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/journal"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/stream"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// underWay reports whether the only change of default/a was handed to the sink.
func underWay(s *stream.Stream) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	o := s.Pending["default/a"]
	return o != nil && len(o.Pending) == 0
}

// history is what a test did to its objects: the versions of each, in order.
type history map[string][]string

// check fails the test if the log does not have every state of every object once, in order.
func (h history) check(t *testing.T, log *fakeLog) {
	t.Helper()
	got := history{}
	ids := map[string]bool{}
	for i := range log.log {
		s := &log.log[i]
		require.False(t, ids[s.ID], "id %s is in the log twice", s.ID)
		ids[s.ID] = true
		name := attribute(s, "name")
		got[name] = append(got[name], attribute(s, "resourceversion"))
	}
	for name, versions := range h {
		require.Equal(t, fmt.Sprint(versions), fmt.Sprint(got[name]),
			"log of %s is\n%v, want\n%v", name, got[name], versions)
	}
}

func TestPipeline_keeps_every_state_once_and_in_order_under_faults(t *testing.T) {
	for seed := range uint64(20) {
		log := newFakeLog()
		log.faults = flaky(seed)
		r, s := startStream(t, log, &memoryStore{})
		did := history{}
		random := rand.New(rand.NewPCG(seed, 2))
		for v := 1; v <= 300; v++ {
			name := "o" + strconv.Itoa(random.IntN(5))
			did[name] = append(did[name], strconv.Itoa(v))
			send(t, s, source.Updated, name, "u-"+name, strconv.Itoa(v), source.ReasonWatch)
		}
		r.settle()
		did.check(t, log)
		require.Equal(t, 1, log.most, "messages of an object were unacknowledged at a time")
		require.Equal(t, "299", s.Tracker.Position(), "position, want the version before the last")
		_ = r.stop()
	}
}

// A process that dies loses what it has not committed. The next one reads again from the committed position, and the
// log must not show it: neither while the broker remembers ids, nor afterwards.
func TestPipeline_a_crash_repeats_nothing(t *testing.T) {
	for seed := range uint64(20) {
		log, store := newFakeLog(), &memoryStore{}
		did := history{}
		random := rand.New(rand.NewPCG(seed, 3))
		var frames []source.Change
		for v := 1; v <= 400; v++ {
			name := "o" + strconv.Itoa(random.IntN(5))
			did[name] = append(did[name], strconv.Itoa(v))
			frames = append(frames, source.Change{Ident: source.Ident{Name: name, ResourceVersion: strconv.Itoa(v)}})
		}
		for at, died := 0, false; !died || at < len(frames); {
			log.faults = flaky(seed)
			r, s := startStream(t, log, store)
			at, _ = strconv.Atoi(s.Tracker.Position())
			end := min(len(frames), at+1+random.IntN(200))
			for i, f := range frames[at:end] {
				send(t, s, source.Updated, f.Name, "u-"+f.Name, f.ResourceVersion, source.ReasonWatch)
				if i%50 == 49 {
					require.NoError(t, r.journal.Commit(t.Context()))
				}
			}
			if end == len(frames) {
				r.settle()
			}
			_ = r.stop()
			at, died = end, true
			if random.IntN(2) == 0 {
				log.forgetIDs()
			}
		}
		did.check(t, log)
	}
}

func TestPipeline_reads_no_more_than_the_budget(t *testing.T) {
	log := newFakeLog()
	log.gate = make(chan struct{})
	r, s := startStream(t, log, &memoryStore{})
	ctx := must.Within(t, 50*time.Millisecond)
	const size = 300 << 10
	admitted := 0
	for ; ; admitted++ {
		if _, err := s.Admit(ctx, strconv.Itoa(admitted+1), size); err != nil {
			break
		}
	}
	assert.Equal(t, 3, admitted, "objects of 300 KiB were admitted into 1 MiB, want 3")
	for range admitted {
		r.budget.Release(size, false)
	}
	assert.NoError(t, must.Err(s.Admit(t.Context(), "9", 5<<20)),
		"an object larger than the budget does not pass alone")
	close(log.gate)
}

// One event is not acknowledged, and objects come and go.
func TestPipeline_whose_position_stays_keeps_little_of_deleted_objects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, _, r, s := listed(t, "1")
		gate := log.hold()
		send(t, s, source.Added, "a", "u", "2", source.ReasonWatch)
		must.Happen(t, "an event under way", func() bool { return underWay(s) })
		log.set(func() { log.gate = nil })
		gone := 0
		come := func() {
			gone++
			name := "o-" + strconv.Itoa(gone)
			send(t, s, source.Added, name, "u", strconv.Itoa(2*gone+1), source.ReasonWatch)
			send(t, s, source.Deleted, name, "u", strconv.Itoa(2*gone+2), source.ReasonWatch)
			<-time.After(time.Millisecond)
		}
		held := func() int64 { return r.budget.Bytes() }
		for held() < 1<<19 { // half of the buffer
			require.Less(t, gone, 10_000, "%d bytes are held", held())
			come()
		}
		assert.Greater(t, gone, 1000)
		come500 := make(chan struct{})
		go func() {
			defer close(come500)
			for range 500 {
				come()
			}
		}()
		<-time.After(time.Minute)
		assert.LessOrEqual(t, held(), int64(1<<19+1<<10))
		close(gate)
		commits := time.NewTicker(journal.Every)
		defer commits.Stop()
		for began, over := time.Now(), false; !over; {
			select {
			case <-come500:
				over = true
			case <-commits.C:
				require.NoError(t, r.journal.Commit(t.Context()))
				assert.Less(t, time.Since(began), time.Minute, "%d bytes are in the buffer", r.budget.Bytes())
			}
		}
		_ = r.stop()
	})
}

// slowDisk fails each commit once it is full, after a while.
type slowDisk struct {
	memoryStore
	full atomic.Bool
}

func (s *slowDisk) Commit(ctx context.Context, b *checkpoint.Batch) error {
	if !s.full.Load() {
		return s.memoryStore.Commit(ctx, b)
	}
	return cmp.Or(pause.For(ctx, 5*time.Second), errors.New("no space left on device"))
}

// comeAndGo has a watch show an object and its deletion, and so on, a hundred changes a second, until ctx ends. It
// returns how many it has shown.
func comeAndGo(ctx context.Context, s *stream.Stream) (shown *atomic.Int64, wait func()) {
	shown = &atomic.Int64{}
	shown.Store(10)
	var reading sync.WaitGroup
	reading.Go(func() {
		for pause.For(ctx, 10*time.Millisecond) == nil {
			version := shown.Add(1)
			name, op := "o-"+strconv.FormatInt(version/2, 10), source.Added
			if version%2 == 1 {
				op = source.Deleted
			}
			id := source.Ident{Namespace: "default", Name: name, UID: name, ResourceVersion: strconv.FormatInt(version, 10)}
			ticket, err := s.Admit(ctx, id.ResourceVersion, 1<<10)
			if err != nil {
				return
			}
			s.Deliver(source.Change{
				Op: op, Ident: id, Body: source.NewBody([]byte(`{"metadata":{}}`)), Reason: source.ReasonWatch,
				Seen: time.Now(), Ticket: ticket, Size: 1 << 10,
			})
		}
	})
	return shown, reading.Wait
}

// Objects come and go while no commit succeeds, or while one event is not acknowledged.
func TestPipeline_whose_checkpoint_or_position_stays_reads_no_more_than_there_is_room(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := &slowDisk{}
		r, s := startStream(t, newFakeLog(), disk)
		snapshot(t, s, "10")
		ctx, cancel := context.WithCancel(t.Context())
		shown, wait := comeAndGo(ctx, s)
		bounded := func(during time.Duration) {
			for began := time.Now(); time.Since(began) < during; {
				<-time.After(journal.Every)
				_ = r.journal.Commit(t.Context())
				require.LessOrEqual(t, r.budget.Bytes(), r.budget.Limit()/2+2<<10,
					"half of the buffer, and the objects of two versions")
			}
		}
		disk.full.Store(true)
		bounded(5 * time.Minute)
		before := shown.Load()
		disk.full.Store(false)
		stuck := s.Tracker.Open("", time.Now())
		bounded(5 * time.Minute)
		require.Greater(t, shown.Load(), before, "the checkpoint was saved again")
		before = shown.Load()
		s.Tracker.Settle(stuck)
		bounded(time.Minute)
		require.Greater(t, shown.Load(), before+100, "the position moves again")
		cancel()
		wait()
		_ = r.stop()
	})
}

// The position of one stream stays. What it holds of deleted objects leaves room for others.
func TestPipeline_goes_on_beside_a_stream_whose_position_stays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, r, s := listed(t, "10")
		other := r.in("another")
		snapshot(t, other, "10")
		s.Tracker.Open("", time.Now())
		ctx, cancel := context.WithCancel(t.Context())
		stays, wait := comeAndGo(ctx, s)
		during := func(d time.Duration) {
			for began := time.Now(); time.Since(began) < d; {
				<-time.After(journal.Every)
				require.NoError(t, r.journal.Commit(t.Context()))
				require.LessOrEqual(t, r.budget.Bytes(), r.budget.Limit())
			}
		}
		during(time.Minute)
		before := stays.Load()
		goes, waitOther := comeAndGo(ctx, other)
		during(time.Minute)
		assert.Equal(t, before, stays.Load(), "it reads no more")
		assert.Greater(t, goes.Load(), int64(5000), "the other one is not slowed down")
		cancel()
		wait()
		waitOther()
		_ = r.stop()
	})
}

func TestStream_may_read_what_makes_room(t *testing.T) {
	for name, c := range map[string]struct {
		saved, position, held string
		pending               int
		list                  sequence.Owes
		want                  bool
	}{
		"all is saved":                      {saved: "10", position: "10", want: true},
		"an event is not acknowledged":      {saved: "10", position: "10", pending: 1},
		"the position is not saved":         {saved: "9", position: "10"},
		"the position is held":              {saved: "9", position: "10", held: "9", want: true},
		"everything is to be listed again":  {saved: "", position: "10", held: "10", list: sequence.Republish, want: true},
		"that it is to be is not saved yet": {saved: "10", position: "10", held: "10", list: sequence.Republish},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, r, s := listed(t, "10")
			s.Tracker = ledger.NewTracker(c.position)
			s.Store.Position.Store(&c.saved)
			s.Held, s.Saved.Owes.List = c.held, c.list
			for range c.pending {
				s.Tracker.Open("", time.Now())
			}
			s.Ledger = ledger.New(map[string]checkpoint.Row{"o": {Deleted: true, Version: 10}}, r.budget.Hold)
			r.budget.SetLimit(1)
			assert.Equal(t, c.want, s.MayRead())
		})
	}
}

// A stream retires that had many objects, and the broker refuses the end of one. Others of the pipeline go on.
func TestPipeline_does_not_wait_for_what_is_held_of_a_stream_that_retires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var objects []string
		for i := range 4000 {
			objects = append(objects, fmt.Sprintf("o%d u%d 5", i, i))
		}
		log, _, r, s := listed(t, "10", objects...)
		refuse(log, "o7")
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { assert.NoError(t, r.retire(t.Context(), ctx, s, always(source.ReasonDeselected), "a test")) })
		must.Happen(t, "the end of all other objects", func() bool { return s.Ledger.Len() <= 1 && s.Refusals.Lacks() })
		assert.Zero(t, r.budget.Gone())
		cancel()
		running.Wait()
		_ = r.stop()
	})
}

func TestPipeline_a_failed_commit_loses_nothing(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	r, s := startStream(t, log, store)
	store.fail = errors.New("disk full")
	send(t, s, source.Added, "a", "u1", "1", source.ReasonWatch)
	send(t, s, source.Added, "b", "u2", "2", source.ReasonWatch)
	r.settle()
	require.ErrorIs(t, r.journal.Commit(t.Context()), store.fail, "the commit ends with the store's error")
	store.fail = nil
	require.NoError(t, r.journal.Commit(t.Context()))
	got := len(store.state.Rows[s.Name])
	assert.Equal(t, 2, got, "the store has %d rows, want both", got)
	assert.Equal(t, "1", store.state.Streams[s.Name].Position, "the store has position, want 1")
}

func TestPipeline_has_one_unacknowledged_event_of_an_object(t *testing.T) {
	log := newFakeLog()
	log.gate = make(chan struct{})
	r, s := startStream(t, log, &memoryStore{})
	flying := func(name string) (n int) {
		log.set(func() { n = log.flying["k8s.test.core.configmaps.default."+name] })
		return n
	}
	send(t, s, source.Added, "a", "u1", "1", source.ReasonWatch)
	must.Happen(t, "the first event to be under way", func() bool { return flying("a") == 1 })
	send(t, s, source.Updated, "a", "u1", "2", source.ReasonWatch)
	send(t, s, source.Updated, "a", "u1", "3", source.ReasonWatch)
	for _, name := range []string{"b", "c"} { // a worker that could take a again would have by now
		send(t, s, source.Added, name, "u-"+name, "4", source.ReasonWatch)
		must.Happen(t, "another object's event to be under way", func() bool { return flying(name) == 1 })
	}
	require.Equal(t, 1, flying("a"), "events of one object are under way")
	close(log.gate)
	r.settle()
}

func inKnative() *StreamSpec {
	return &StreamSpec{Encoding: encode.Config{Profile: encode.Knative, Host: "https://10.96.0.1:443"}}
}

const link = "/apis/v1/namespaces/default/configmaps/"

// Types, sources and subjects of a log may be another's; what a dead process published is known all the same.
func TestProfile_what_died_with_its_process_is_read_back(t *testing.T) {
	log, store := newReadableLog(), &crashingStore{}
	store.left.Store(1 << 30)
	r := start(t, log, store)
	s := r.stream(inKnative())
	snapshot(t, s, "10", "a u1 5")
	require.NoError(t, r.journal.Save(t.Context()))
	store.left.Store(0)
	send(t, s, source.Added, "b", "u2", "11", source.ReasonWatch)
	r.settle()
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	r.settleAndStop()
	log.forgetIDs()

	r = start(t, log, &store.memoryStore)
	s = r.stream(inKnative())
	send(t, s, source.Added, "b", "u2", "11", source.ReasonWatch) // the watch repeats what the log has
	send(t, s, source.Updated, "a", "u1", "12", source.ReasonWatch)
	r.settle()
	relist(t, s, "20", "a u1 12")
	r.settle()
	expect(t, log.lines(), "snapshot-started 10", "add "+link+"a u1 5 snapshot", "snapshot-completed 10",
		"add "+link+"b u2 11 watch", "update "+link+"a u1 12 watch", "gap 20", "delete "+link+"b u2 11 relist")
}

// Where the tail was not read, the broker's check of the last message tells.
func TestProfile_the_last_message_of_an_object_teaches_the_ledger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := newFakeLog()
		r := start(t, log, &memoryStore{})
		send(t, r.stream(inKnative()), source.Added, "a", "u1", "12", source.ReasonWatch)
		r.settleAndStop()
		log.forgetIDs()

		r = start(t, log, &memoryStore{})
		s := r.stream(inKnative())
		send(t, s, source.Added, "a", "u1", "11", source.ReasonWatch)
		send(t, s, source.Updated, "a", "u1", "13", source.ReasonWatch)
		r.settle()
		expect(t, log.lines(), "add "+link+"a u1 12 watch", "update "+link+"a u1 13 watch")
		_ = r.stop()
	})
}

// A profile can be changed with the checkpoint kept: ids stay what they are.
func TestProfile_a_change_of_it_repeats_nothing(t *testing.T) {
	log, store := newReadableLog(), &memoryStore{}
	r := start(t, log, store)
	snapshot(t, r.stream(nil), "10", "a u1 5")
	_ = r.stop()

	r = start(t, log, store)
	relist(t, r.stream(inKnative()), "20", "a u1 5")
	r.settle()
	expect(t, log.lines(), "snapshot-started 10", "added default/a u1 5 snapshot", "snapshot-completed 10", "gap 20")
}

// readableLog is a fakeLog that can be read back, and that can lose what it acknowledged.
type readableLog struct{ *fakeLog }

func newReadableLog() readableLog { return readableLog{newFakeLog()} }

func (l readableLog) Bounds(context.Context, map[int32]uint64) (sink.LogBounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return sink.LogBounds{ID: l.id, Partitions: map[int32]sink.Bounds{0: {
		First: uint64(max(l.first, 1)),
		Last:  uint64(len(l.log)),
	}}}, nil
}

func (l readableLog) At(_ context.Context, _ int32, sequence uint64) (*sink.Stored, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if sequence < uint64(max(l.first, 1)) || sequence > uint64(len(l.log)) {
		return nil, nil
	}
	m := l.log[sequence-1]
	return &m, nil
}

func (l readableLog) Read(_ context.Context, q sink.Query, f func(*sink.Stored) error) error {
	l.mu.Lock()
	log := append([]sink.Stored(nil), l.log...)
	last, at, first := maps.Clone(l.last), append([]string(nil), l.at...), max(l.first, 1)
	l.mu.Unlock()
	for i := first - 1; i < len(log); i++ {
		m := log[i]
		if !strings.HasPrefix(at[i], "k8s.") || m.Sequence <= q.After[0] || q.LastOfKey && last[at[i]] != i+1 ||
			len(q.Subjects) > 0 && !slices.Contains(q.Subjects, at[i]) {
			continue
		}
		if m.Subject = at[i]; !q.Data {
			m.Data = nil
		}
		if err := f(&m); err != nil {
			return err
		}
	}
	return nil
}

// lose restores the log from a copy that was made when it had n messages.
func (l readableLog) lose(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.log = l.log[:n]
	l.byID, l.last = map[string]int{}, map[string]int{}
	for i := range l.log {
		l.byID[l.log[i].ID], l.last[l.at[i]] = i+1, i+1
	}
	l.at = l.at[:n]
}
