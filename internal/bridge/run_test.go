// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/refused"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestRun_publishes_what_exists_and_what_comes(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	api.add(3)
	b := runBridge(t, api, log, &memoryStore{}, nil)
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 5 })
	api.add(2)
	must.Happen(t, "the watch's events", func() bool { return len(log.lines()) == 7 })
	require.NoError(t, b.stop())
}

// What was read and not acknowledged is waited for, and no longer than that; the next process reads it again.
func TestRun_a_stop_while_the_broker_is_away_ends_in_time_and_loses_nothing(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
	b := runBridge(t, api, log, store, func(c *Config) { c.Drain = 50 * time.Millisecond })
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	log.set(func() { log.gate = make(chan struct{}) })
	api.add(20)
	s := b.only(t)
	must.Happen(t, "the events", func() bool { return s.Tracker.Pending() == 20 })
	require.NoError(t, b.stop())
	assert.Equal(t, "1", store.state.Streams[s.Name].Position, "the position, and nothing after 1 was acknowledged")
	log.set(func() { log.gate = nil })
	b = runBridge(t, api, log, store, nil)
	must.Happen(t, "the events", func() bool { return len(log.lines()) == 22 })
	s = b.only(t)
	must.Happen(t, "the last acknowledgement", func() bool { return s.Tracker.Pending() == 0 })
	for i, line := range log.lines()[2:] {
		assert.Equal(t, 1, strings.Count(strings.Join(log.lines(), "\n"), line), "line %d", i)
		assert.True(t, strings.HasPrefix(line, "added"), "line %d", i)
	}
}

func TestRun_a_stop_drains_what_was_read(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
	b := runBridge(t, api, log, store, nil)
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	gate := log.hold()
	api.add(20)
	s := b.only(t)
	must.Happen(t, "the events", func() bool {
		return s.Tracker.Pending() == 20 &&
			b.current.Load().delivery.InFlight.Count() == 20
	})
	stopped := make(chan error, 1)
	go func() { stopped <- b.stop() }()
	close(gate)
	require.NoError(t, <-stopped)
	assert.Equal(t, 22, len(log.lines()), "messages are in the log, want all 22")
	assert.Equal(t, "20", store.state.Streams[s.Name].Position, "the position, want the version before the last")
}

// A budget that is spent stops the reading, not a handler; and comes back whole.
func TestRun_holds_no_more_bytes_than_the_buffer(t *testing.T) {
	const buffer = 100 << 10
	api, log := newAPIServer(t, 10<<10), newFakeLog()
	b := runBridge(t, api, log, &memoryStore{}, func(c *Config) { c.Buffer = buffer })
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	gate := log.hold()
	api.add(100)
	must.Happen(t, "a full buffer", func() bool { return b.current.Load().budget.Bytes() > buffer-20<<10 })
	var most atomic.Int64
	log.set(func() { log.stored = func() { most.Store(max(most.Load(), b.current.Load().budget.Bytes())) } })
	close(gate)
	must.Happen(t, "the events", func() bool { return len(log.lines()) == 102 })
	must.Happen(t, "the bytes back", func() bool {
		return b.current.Load().budget.Bytes() == 0 && b.current.Load().budget.Count() == 0
	})
	n := most.Load()
	assert.True(t, n <= buffer && n >= buffer/2, "%d bytes were held, and the limit is %d", n, buffer)
}

func TestRun_ends_with_the_reason_where_something_must_not_be_used(t *testing.T) {
	api := newAPIServer(t, 10)
	unusable := &sink.UnusableError{Target: "stream X", Reason: "it forgets", Advice: "use another"}
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"the broker's stream": {func(c *Config) {
			log := newFakeLog()
			log.unusable = unusable
			c.Sink = func(func() uint64) (sink.Sink, error) { return log, nil }
		}, "pipeline test: " + unusable.Error()},
		"two names of one resource": {
			func(c *Config) {
				c.Streams = append(c.Streams, StreamSpec{Resource: "cm", Encoding: c.Streams[0].Encoding})
			},
			"have objects in common",
		},
		"the checkpoint": {func(c *Config) { c.Store = &unreadable{} }, "pipeline test: unreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			b := runBridge(t, api, newFakeLog(), &memoryStore{}, c.change)
			select {
			case err := <-b.ended:
				require.Error(t, err, "ended, want %q in it, once", c.want)
				assert.Equal(t, 1, strings.Count(err.Error(), c.want), "ended, want %q in it, once", c.want)
			case <-time.After(time.Minute):
				t.Error("goes on")
			}
		})
	}
}

type unreadable struct{ memoryStore }

type unreadableError struct{}

func (unreadableError) Error() string   { return "unreadable" }
func (unreadableError) Permanent() bool { return true }

func (*unreadable) Load(context.Context) (*checkpoint.State, error) {
	return nil, unreadableError{}
}

func (b *bridge) get(path string) (int, string) {
	w := httptest.NewRecorder()
	Handler(b.registry, func() []*Pipeline { return []*Pipeline{b.Pipeline} },
		func() (string, bool) { return "starting", false }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

func TestReadyz_says_what_keeps_a_pipeline_from_being_ready(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	gate := make(chan struct{})
	log.gate, log.away = gate, errors.New("no route to the broker")
	b := runBridge(t, api, log, &memoryStore{}, nil)
	body := ""
	says := func(want string) {
		t.Helper()
		must.Happen(t, want, func() bool {
			var code int
			code, body = b.get("/readyz")
			return strings.Contains(body, want) && (code == http.StatusOK) == (body == "ok\n")
		})
	}
	says("pipeline test: broker: no route to the broker")
	says("pipeline test: stream configmaps.v1: listing")
	close(gate)
	log.set(func() { log.away = nil })
	says("ok")

	// What fails now has half a minute.
	log.set(func() { log.away = errors.New("gone") })
	api.setAway(true)
	s := b.only(t)
	must.Happen(t, "the failing watch", func() bool { return !s.Status.Watching() })
	says("ok")
	code, _ := b.get("/livez")
	assert.Equal(t, http.StatusOK, code, "/livez, and the process lives")
	log.set(func() { log.away = nil })
	api.setAway(false)
	says("ok")
}

func TestRun_waits_for_an_API_server_that_is_away_at_the_start(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	api.setAway(true)
	b := runBridge(t, api, log, &memoryStore{}, nil)
	must.Happen(t, "the complaint", func() bool {
		code, body := b.get("/readyz")
		return code == http.StatusServiceUnavailable && strings.Contains(body,
			`pipeline test: configmaps: resource "configmaps": `)
	})
	api.setAway(false)
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
}

func TestRun_ends_at_once_while_the_API_server_is_away(t *testing.T) {
	api := newAPIServer(t, 10)
	api.setAway(true)
	b := runBridge(t, api, newFakeLog(), &memoryStore{}, nil)
	must.Happen(t, "the complaint", func() bool {
		_, body := b.get("/readyz")
		return strings.Contains(body, "configmaps: ")
	})
	require.NoError(t, b.stop())
}

func TestReadyz_a_broker_that_takes_nothing_of_an_object_is_told_until_it_does(t *testing.T) {
	log, r, s := startNew(t, nil)
	r.refusals.Store(refused.Most)
	log.refuse = func(*sink.Message) bool { return true }
	send(t, s, source.Added, "a", "u1", "1", source.ReasonWatch)
	must.Happen(t, "the refusal", func() bool { return r.delivery.Broker.Problem(nil) != nil })
	log.set(func() { log.refuse = nil })
	send(t, s, source.Updated, "a", "u1", "2", source.ReasonWatch) // comes before the timer
	r.settle()
	assert.NoError(t, r.delivery.Broker.Problem(nil), "everything is published, and the broker is still said to refuse")
	expect(t, log.lines(), "added default/a u1 1 watch", "updated default/a u1 2 watch")
}

// interruptedSink is a log whose sink cannot say, the first time, what became of what was published last.
type interruptedSink struct {
	readableLog
	times *atomic.Int32
}

func (s interruptedSink) Run(ctx context.Context) error {
	if s.times.Add(1) > 1 {
		return s.readableLog.Run(ctx)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		for len(s.lines()) < 3 && ctx.Err() == nil {
			runtime.Gosched()
		}
		cancel()
	}()
	_ = s.readableLog.Run(ctx)
	return &sink.InterruptedError{Target: "the log", Cause: errors.New("nobody knows")}
}

func TestRun_reads_the_log_back_where_its_content_is_unknown(t *testing.T) {
	api, store := newAPIServer(t, 10), &memoryStore{}
	log := interruptedSink{newReadableLog(), &atomic.Int32{}}
	api.add(3)
	b := runBridge(t, api, log, store, nil)
	must.Happen(t, "the second session", func() bool { return log.times.Load() > 1 })
	api.add(1)
	must.Happen(t, "what comes after", func() bool {
		return slices.ContainsFunc(log.lines(), func(line string) bool { return strings.Contains(line, " 5 ") })
	})
	require.NoError(t, b.stop())
	checkOnce(t, log.readableLog)
}

// lostStore refuses every commit but the first few, for good.
type lostStore struct {
	memoryStore
	left atomic.Int32
}

func (s *lostStore) Commit(ctx context.Context, b *checkpoint.Batch) error {
	if s.left.Add(-1) < 0 {
		return fmt.Errorf("commit: %w", &checkpoint.ForeignError{Path: "checkpoint"})
	}
	return s.memoryStore.Commit(ctx, b)
}

func TestRun_ends_where_the_checkpoint_is_another_one(t *testing.T) {
	store := &lostStore{}
	store.left.Store(1)
	api := newAPIServer(t, 10)
	b := runBridge(t, api, newFakeLog(), store, nil)
	select {
	case err := <-b.ended:
		assert.True(t, checkpoint.IsPermanent(err), "it ended with %v", err)
		n := strings.Count(err.Error(), "commit: ")
		assert.Equal(t, 1, n, "it says so %d times: %v", n, err)
	case <-time.After(time.Minute):
		t.Error("it goes on with a checkpoint that is not its own")
	}
}

// A commit that failed may have been made. What it named is saved again, although it is by then what was saved before.
func TestCommit_saves_again_what_a_failed_one_may_have_saved(t *testing.T) {
	store := &memoryStore{}
	r, s := saved(t, newReadableLog(), store)
	before := store.state.Streams[s.Name]
	s.Saved.Owes.Version = "40"
	store.fail = errors.New("no answer")
	require.Error(t, r.journal.Commit(t.Context()), "it did not fail")
	store.fail = nil
	stored := before
	stored.Owes.Version = "40"
	store.state.Streams[s.Name] = stored // it was made nevertheless
	s.Saved.Owes.Version = ""
	require.NoError(t, r.journal.Commit(t.Context()))
	assert.Equal(t, before, store.state.Streams[s.Name], "the store")
}
