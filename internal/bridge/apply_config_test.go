// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// saying is a spec of ConfigMaps.
func saying(says string) StreamSpec {
	return StreamSpec{Resource: "configmaps", Says: says, Encoding: encode.Config{Cluster: "test", Pipeline: "test"}}
}

// begins runs a pipeline that reads one spec.
func begins(t *testing.T, api *apiServer, log *fakeLog, store checkpoint.Store) *bridge {
	t.Helper()
	b := runBridge(t, api, log, store, func(c *Config) {
		c.Drain, c.Streams = 5*time.Second, []StreamSpec{saying("it")}
	})
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	must.Happen(t, "the watch", func() bool { return b.only(t).Status.Watching() })
	return b
}

func TestRespecify_leaves_alone_what_stays(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	b := begins(t, api, log, &memoryStore{})
	session, stream := b.session(t), b.only(t)
	b.Respecify(t.Context(), []StreamSpec{saying("it")})
	assert.Same(t, stream, b.only(t), "the stream, or the session, is another one")
	assert.Same(t, session, b.session(t), "the stream, or the session, is another one")
	api.add(1)
	must.Happen(t, "what comes", func() bool { return len(log.lines()) == 3 })
}

func TestRespecify_goes_on_where_an_entry_is_read_in_another_way(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
	b := begins(t, api, log, store)
	session := b.session(t)
	for round := range 3 {
		api.add(2)
		b.Respecify(t.Context(), []StreamSpec{saying(fmt.Sprintf("it, in way %d", round))})
		must.Happen(t, "what came meanwhile", func() bool { return len(log.lines()) == 4+2*round })
		assert.Equal(t, fmt.Sprintf("it, in way %d", round), b.only(t).Spec.Says)
	}
	assert.Same(t, session, b.session(t), "it is another session")
	for _, line := range log.lines()[2:] {
		assert.True(t, strings.HasPrefix(line, "added") && strings.HasSuffix(line, " watch"), "the log has %s", line)
	}
	require.NoError(t, b.stop())
}

func TestRespecify_deletes_in_the_log_what_no_entry_selects_any_more(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
	b := begins(t, api, log, store)
	session := b.session(t)
	api.add(2)
	must.Happen(t, "what came before", func() bool { return len(log.lines()) == 4 })
	b.Respecify(t.Context(), nil)
	must.Happen(t, "the ends", func() bool { return len(log.lines()) == 6 })
	must.Happen(t, "the end of the stream", func() bool { return len(session.journal.Opened()) == 0 })
	code, body := b.get("/readyz")
	assert.Equal(t, 200, code, "it is not ready: %s", body)
	for _, line := range log.lines()[4:] {
		assert.True(t, strings.HasPrefix(line, "deleted") && strings.HasSuffix(line, " deselected"), "the log has %s", line)
	}
	must.Happen(t, "an empty store", func() bool {
		state := must.Get(store.Load(t.Context()))(t)
		return len(state.Streams) == 0
	})
	b.Respecify(t.Context(), []StreamSpec{saying("it")})
	must.Happen(t, "what exists", func() bool { return len(log.lines()) == 6+2+2 }) // between markers
	assert.Same(t, session, b.session(t), "it is another session")
}

// What cannot be drained is left to the next session, which reads what is wanted then.
func TestRespecify_goes_on_from_the_checkpoint_where_the_broker_is_away(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
	b := begins(t, api, log, store)
	b.current.Load().cfg.Drain = 50 * time.Millisecond
	gate := log.hold()
	session, stream := b.session(t), b.only(t)
	api.add(5)
	must.Happen(t, "the events", func() bool { return stream.Tracker.Pending() == 5 })
	b.Respecify(t.Context(), []StreamSpec{saying("another thing")})
	must.Happen(t, "the next session", func() bool { return b.session(t) != session })
	log.set(func() { log.gate = nil })
	close(gate)
	must.Happen(t, "the events", func() bool { return len(log.lines()) == 7 })
	assert.Equal(t, "another thing", b.only(t).Spec.Says)
	require.NoError(t, b.stop())
	all := strings.Join(log.lines(), "\n")
	assert.Equal(t, 5, strings.Count(all, "added"), "the log has\n%s", all)
}

// tellsNothingOf checks that no metric is about a stream, once the log's end was seen: what waits for that is shown
// until then.
func (b *bridge) tellsNothingOf(t *testing.T, stream string) {
	t.Helper()
	<-b.session(t).met
	must.Happen(t, "no series", func() bool {
		for _, f := range must.Get(b.registry.Gather())(t) {
			if strings.Contains(fmt.Sprint(f), stream) {
				return false
			}
		}
		return true
	})
}

// A stream whose drain the session's end cuts short leaves no series behind.
func TestRespecify_forgets_what_was_counted_of_what_goes(t *testing.T) {
	for name, away := range map[string]bool{"when it is drained": false, "when the broker is away": true} {
		t.Run(name, func(t *testing.T) {
			api, log := newAPIServer(t, 10), newFakeLog()
			b := begins(t, api, log, &memoryStore{})
			session, stream, gate := b.session(t), b.only(t), make(chan struct{})
			if away {
				session.cfg.Drain = 50 * time.Millisecond
				log.set(func() { log.gate = gate })
				api.add(1)
				must.Happen(t, "the event", func() bool { return stream.Tracker.Pending() == 1 })
			}
			b.Respecify(t.Context(), nil)
			must.Happen(t, "the session", func() bool { return (b.session(t) != session) == away })
			log.set(func() { log.gate = nil })
			close(gate)
			must.Happen(t, "the session to be ready", func() bool { code, _ := b.get("/readyz"); return code == 200 })
			b.tellsNothingOf(t, "configmaps.v1")
		})
	}
}

// So does one whose session ends for another reason, or has.
func TestRespecify_forgets_what_was_counted_where_the_session_ends_by_itself(t *testing.T) {
	for name, ended := range map[string]bool{"during the drain": false, "before": true} {
		t.Run(name, func(t *testing.T) {
			api, log := newAPIServer(t, 10), newFakeLog()
			b := begins(t, api, log, &memoryStore{})
			session, stream, gate := b.session(t), b.only(t), make(chan struct{})
			log.set(func() { log.gate = gate })
			api.add(1)
			must.Happen(t, "the event", func() bool { return stream.Tracker.Pending() == 1 })
			respecified := make(chan struct{})
			respecify := func() {
				defer close(respecified)
				b.Respecify(t.Context(), nil)
			}
			if !ended {
				go respecify()
				must.Happen(t, "the turn", func() bool { return len(session.entries.all()) == 0 })
			}
			log.end <- &sink.InterruptedError{Target: "the log", Cause: errors.New("nobody knows")}
			<-session.over
			if ended {
				respecify()
			}
			<-respecified
			log.set(func() { log.gate = nil })
			close(gate)
			must.Happen(t, "the next session", func() bool { return b.session(t) != session })
			b.tellsNothingOf(t, "configmaps.v1")
		})
	}
}

func TestRespecify_begins_anew_where_nothing_is_read_yet(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	store := &slowStore{opened: make(chan struct{})}
	b := runBridge(t, api, log, store, func(c *Config) { c.Streams = []StreamSpec{{Resource: "nothings"}} })
	must.Happen(t, "the session", func() bool { return b.current.Load() != nil })
	b.Respecify(t.Context(), []StreamSpec{saying("it")})
	close(store.opened)
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
}

// slowStore answers when it is opened.
type slowStore struct {
	memoryStore
	opened chan struct{}
}

func (s *slowStore) Load(ctx context.Context) (*checkpoint.State, error) {
	select {
	case <-s.opened:
		return s.memoryStore.Load(ctx)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// A name that comes takes its resource from a wildcard that stays, and gives it back when it goes.
func TestRespecify_has_wildcards_yield_and_take_again(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	wildcard := saying("all")
	wildcard.Resource, wildcard.Wildcard = "*", &Wildcard{All: true}
	b := runBridge(t, api, log, &memoryStore{}, func(c *Config) { c.Streams = []StreamSpec{wildcard} })
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 && b.only(t).Status.Watching() })
	session := b.session(t)
	for round := range 3 {
		b.Respecify(t.Context(), []StreamSpec{wildcard, saying("it")})
		must.Happen(t, "the name's stream", func() bool {
			return len(session.journal.Opened()) == 1 &&
				session.journal.Opened()[0].Spec.Wildcard == nil
		})
		api.add(1)
		must.Happen(t, "what comes by the name", func() bool { return len(log.lines()) == 3+2*round })
		b.Respecify(t.Context(), []StreamSpec{wildcard})
		must.Happen(t, "the wildcard's stream", func() bool {
			return len(session.journal.Opened()) == 1 &&
				session.journal.Opened()[0].Spec.Wildcard != nil
		})
		api.add(1)
		must.Happen(t, "what comes by the wildcard", func() bool { return len(log.lines()) == 4+2*round })
	}
	assert.Same(t, session, b.session(t), "it is another session")
	for _, line := range log.lines()[2:] {
		assert.True(t, strings.HasSuffix(line, " watch"), "the log has %s", line)
	}
}

// A resource that does not exist, or waits for the namespaces, does not hold up that it is dropped.
func TestRespecify_drops_what_is_waited_for(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	b := begins(t, api, log, &memoryStore{})
	missing := saying("missing")
	missing.Resource = "nothings"
	b.Respecify(t.Context(), []StreamSpec{saying("it"), missing})
	must.Happen(t, "the complaint", func() bool {
		_, body := b.get("/readyz")
		return strings.Contains(body, "nothings")
	})
	b.Respecify(t.Context(), []StreamSpec{saying("it")})
	if code, body := b.get("/readyz"); code != 200 {
		t.Errorf("it is not ready: %s", body)
	}
}

// A stop that comes while something is drained drains all, as any stop does.
func TestRespecify_leaves_the_drain_of_a_stop_as_it_is(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
	b := begins(t, api, log, store)
	gate := log.hold()
	session, stream := b.session(t), b.only(t)
	api.add(5)
	must.Happen(t, "the events", func() bool { return stream.Tracker.Pending() == 5 })
	respecified := make(chan struct{})
	go func() {
		defer close(respecified)
		b.Respecify(t.Context(), []StreamSpec{saying("another thing")})
	}()
	must.Happen(t, "the turn", func() bool { return session.entries.all()[0] != stream.Spec })
	stopped := make(chan error, 1)
	go func() { stopped <- b.stop() }()
	select {
	case err := <-stopped:
		stopped <- err
		t.Error("it ended without waiting for the broker")
	case <-time.After(time.Second): // it would have ended by then
	}
	log.set(func() { log.gate = nil })
	close(gate)
	assert.NoError(t, <-stopped)
	<-respecified
	if all := strings.Join(log.lines(), "\n"); strings.Count(all, "added") != 5 || b.session(t) != session {
		t.Errorf("another session: %v; the log has\n%s", b.session(t) != session, all)
	}
}

func TestRespecify_gives_what_comes_the_number_of_the_term(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	b := runBridge(t, api, log, &memoryStore{}, func(c *Config) {
		c.Streams, c.Term = []StreamSpec{saying("it")}, &Term{Number: 7, Held: t.Context()}
	})
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	must.Happen(t, "the watch", func() bool { return b.only(t).Status.Watching() })
	b.Respecify(t.Context(), []StreamSpec{saying("another thing")})
	api.add(1)
	must.Happen(t, "what comes", func() bool { return len(log.lines()) == 3 })
	log.set(func() {
		assert.Equal(t, "7", attribute(&log.log[2], "writerterm"), "it is of the writer")
	})
}

func TestSetBuffer_holds_for_the_sessions_that_follow(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	b := begins(t, api, log, &memoryStore{})
	before := b.session(t)
	b.SetBuffer(2 << 20)
	before.restart()
	must.Happen(t, "the next session", func() bool { return b.session(t) != before })
	is := b.session(t).budget.Limit()
	assert.EqualValues(t, 2<<20, is, "it buffers %d bytes", is)
}
