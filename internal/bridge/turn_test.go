// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

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
func begins(t *testing.T, api *apiServer, log *fakeLog, store checkpoint.Store, catalogued bool) *bridge {
	t.Helper()
	b := runBridge(t, api, log, store, func(c *Config) {
		c.Drain, c.Streams = 5*time.Second, []StreamSpec{saying("it")}
		if catalogued {
			c.Catalog = catalogOf(t, api)
		}
	})
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 })
	must.Happen(t, "the watch", func() bool { return b.only(t).status.watching() })
	return b
}

func TestRespecify_leaves_alone_what_stays(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	b := begins(t, api, log, &memoryStore{}, false)
	session, stream := b.session(t), b.only(t)
	b.Respecify(t.Context(), []StreamSpec{saying("it")})
	assert.Same(t, stream, b.only(t), "the stream, or the session, is another one")
	assert.Same(t, session, b.session(t), "the stream, or the session, is another one")
	api.add(1)
	must.Happen(t, "what comes", func() bool { return len(log.lines()) == 3 })
}

func TestRespecify_keeps_what_the_checkpoint_has_of_what_goes_and_goes_on_from_there(t *testing.T) {
	for name, catalogued := range map[string]bool{"with a catalog": true, "without one": false} {
		t.Run(name, func(t *testing.T) {
			api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
			b := begins(t, api, log, store, catalogued)
			session := b.session(t)
			api.add(2)
			must.Happen(t, "what came before", func() bool { return len(log.lines()) == 4 })
			b.Respecify(t.Context(), nil)
			if open := session.opened(); len(open) != 0 {
				t.Fatalf("%s is open", open[0].name)
			}
			code, body := b.get("/readyz")
			assert.Equal(t, 200, code, "it is not ready: %s", body)
			api.add(3)
			at := store.state.Streams["configmaps.v1"].Position
			assert.True(t, at == "2" || at == "3", "the position is %s", at)
			b.Respecify(t.Context(), []StreamSpec{saying("it, in another way")})
			must.Happen(t, "what came meanwhile", func() bool { return len(log.lines()) == 7 })
			assert.Same(t, session, b.session(t), "it is another session, or the spec of before")
			assert.Equal(t, "it, in another way", b.only(t).spec.Says, "it is another session, or the spec of before")
			for _, line := range log.lines()[2:] {
				require.True(t, strings.HasPrefix(line, "added"), "the log")
				assert.True(t, strings.HasSuffix(line, " watch"), "the log")
			}
			require.NoError(t, b.stop())
		})
	}
}

// What cannot be drained is left to the next session, which reads what is wanted then.
func TestRespecify_goes_on_from_the_checkpoint_where_the_broker_is_away(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
	b := begins(t, api, log, store, false)
	b.current.Load().cfg.Drain = 50 * time.Millisecond
	gate := log.hold()
	session, stream := b.session(t), b.only(t)
	api.add(5)
	must.Happen(t, "the events", func() bool { return stream.tracker.Pending() == 5 })
	b.Respecify(t.Context(), []StreamSpec{saying("another thing")})
	must.Happen(t, "the next session", func() bool { return b.session(t) != session })
	log.set(func() { log.gate = nil })
	close(gate)
	must.Happen(t, "the events", func() bool { return len(log.lines()) == 7 })
	assert.Equal(t, "another thing", b.only(t).spec.Says)
	require.NoError(t, b.stop())
	all := strings.Join(log.lines(), "\n")
	assert.Equal(t, 5, strings.Count(all, "added"), "the log has\n%s", all)
}

// tellsNothingOf checks that no metric is about a stream, once the log's end was seen: what waits for that is shown until then.
func (b *bridge) tellsNothingOf(t *testing.T, stream string) {
	t.Helper()
	<-b.session(t).met
	all := must.Get(b.registry.Gather())(t)
	for _, f := range all {
		assert.NotContains(t, fmt.Sprint(f), stream)
	}
}

// A stream whose drain the session's end cuts short leaves no series behind.
func TestRespecify_forgets_what_was_counted_of_what_goes(t *testing.T) {
	for name, away := range map[string]bool{"when it is drained": false, "when the broker is away": true} {
		t.Run(name, func(t *testing.T) {
			api, log := newAPIServer(t, 10), newFakeLog()
			b := begins(t, api, log, &memoryStore{}, false)
			session, stream, gate := b.session(t), b.only(t), make(chan struct{})
			if away {
				session.cfg.Drain = 50 * time.Millisecond
				log.set(func() { log.gate = gate })
				api.add(1)
				must.Happen(t, "the event", func() bool { return stream.tracker.Pending() == 1 })
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
			b := begins(t, api, log, &memoryStore{}, false)
			session, stream, gate := b.session(t), b.only(t), make(chan struct{})
			log.set(func() { log.gate = gate })
			api.add(1)
			must.Happen(t, "the event", func() bool { return stream.tracker.Pending() == 1 })
			respecified := make(chan struct{})
			respecify := func() {
				defer close(respecified)
				b.Respecify(t.Context(), nil)
			}
			if !ended {
				go respecify()
				must.Happen(t, "the turn", func() bool { return stream.spec.dropped() })
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
	b := runBridge(t, api, log, &memoryStore{}, func(c *Config) { c.Catalog, c.Streams = catalogOf(t, api), []StreamSpec{wildcard} })
	must.Happen(t, "the snapshot", func() bool { return len(log.lines()) == 2 && b.only(t).status.watching() })
	session := b.session(t)
	for round := range 3 {
		b.Respecify(t.Context(), []StreamSpec{wildcard, saying("it")})
		must.Happen(t, "the name's stream", func() bool { return len(session.opened()) == 1 && session.opened()[0].spec.Wildcard == nil })
		api.add(1)
		must.Happen(t, "what comes by the name", func() bool { return len(log.lines()) == 3+2*round })
		b.Respecify(t.Context(), []StreamSpec{wildcard})
		must.Happen(t, "the wildcard's stream", func() bool { return len(session.opened()) == 1 && session.opened()[0].spec.Wildcard != nil })
		api.add(1)
		must.Happen(t, "what comes by the wildcard", func() bool { return len(log.lines()) == 4+2*round })
	}
	b.Respecify(t.Context(), nil)
	if open := session.opened(); len(open) != 0 || b.session(t) != session {
		t.Errorf("%d streams are open, in this session: %v", len(open), b.session(t) == session)
	}
}

// A resource that does not exist, or waits for the namespaces, does not hold up that it is dropped.
func TestRespecify_drops_what_is_waited_for(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	b := begins(t, api, log, &memoryStore{}, true)
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

// What reads a spec may have asked before that was dropped, and tell the answer afterwards.
func TestRespecify_forgets_what_was_told_of_what_goes_while_that_ended(t *testing.T) {
	s := newSession(&Config{Name: "test", Streams: []StreamSpec{saying("it")}, Metrics: NewMetrics(prometheus.NewRegistry())}, newFakeLog())
	defer s.queue.ShutDown()
	gone, _ := s.respecify(nil)
	ended, awaited := make(chan struct{}), make(chan error, 1)
	s.readers[gone[0]] = ended
	go func() { awaited <- s.await(t.Context(), gone) }()
	for _, what := range []string{gone[0].Resource, gone[0].membership()} {
		s.unresolved(what, errors.New("forbidden"))
	}
	close(ended)
	if err := <-awaited; err != nil || len(s.unknown) != 0 {
		t.Errorf("it says %v, %v", s.unknown, err)
	}
}

// What waits for the same would not say so again before its next try; what is read would never take it back.
func TestRespecify_leaves_what_was_told_of_what_stays_too(t *testing.T) {
	selected := labels.Everything()
	const resource, membership = "configmaps", "namespaces of configmaps"
	for name, c := range map[string]struct {
		goes, stays    StreamSpec
		reading        int
		told, wantTold string
	}{
		"another namespace":                 {StreamSpec{Namespace: "a"}, StreamSpec{Namespace: "b"}, 0, resource, resource},
		"another namespace that is read":    {StreamSpec{Namespace: "a"}, StreamSpec{Namespace: "b"}, 1, resource, ""},
		"another resource":                  {StreamSpec{}, StreamSpec{Resource: "secrets"}, 0, resource, ""},
		"selected namespaces, perhaps none": {StreamSpec{}, StreamSpec{NamespaceSelector: selected}, 0, resource, ""},
		"other selected namespaces":         {StreamSpec{NamespaceSelector: selected}, StreamSpec{NamespaceSelector: selected}, 0, membership, membership},
		"the same in all namespaces":        {StreamSpec{NamespaceSelector: selected}, StreamSpec{}, 0, membership, ""},
	} {
		for _, spec := range []*StreamSpec{&c.goes, &c.stays} {
			if spec.Resource == "" {
				spec.Resource = resource
			}
		}
		s := newSession(&Config{Name: "test", Streams: []StreamSpec{c.goes, c.stays}, Metrics: NewMetrics(prometheus.NewRegistry())}, newFakeLog())
		s.reading[s.specs()[1]] = c.reading
		s.unresolved(c.told, errors.New("not known"))
		gone, _ := s.respecify(s.specs()[1:])
		require.NoError(t, s.await(t.Context(), gone))
		assert.Equal(t, c.wantTold, strings.Join(slices.Collect(maps.Keys(s.unknown)), ", "),
			"%s: it says something", name)
		s.queue.ShutDown()
	}
}

// A stop that comes while something is drained drains all, as any stop does.
func TestRespecify_leaves_the_drain_of_a_stop_as_it_is(t *testing.T) {
	api, log, store := newAPIServer(t, 10), newFakeLog(), &memoryStore{}
	b := begins(t, api, log, store, false)
	gate := log.hold()
	session, stream := b.session(t), b.only(t)
	api.add(5)
	must.Happen(t, "the events", func() bool { return stream.tracker.Pending() == 5 })
	respecified := make(chan struct{})
	go func() {
		defer close(respecified)
		b.Respecify(t.Context(), []StreamSpec{saying("another thing")})
	}()
	must.Happen(t, "the turn", func() bool { return stream.spec.dropped() })
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
	must.Happen(t, "the watch", func() bool { return b.only(t).status.watching() })
	b.Respecify(t.Context(), []StreamSpec{saying("another thing")})
	api.add(1)
	must.Happen(t, "what comes", func() bool { return len(log.lines()) == 3 })
	log.set(func() {
		assert.Equal(t, "7", attribute(&log.log[2], "writerterm"), "it is of the writer")
	})
}

func TestSetBuffer_holds_for_the_sessions_that_follow(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	b := begins(t, api, log, &memoryStore{}, false)
	before := b.session(t)
	b.SetBuffer(2 << 20)
	before.restart()
	must.Happen(t, "the next session", func() bool { return b.session(t) != before })
	is := b.session(t).budget.limit()
	assert.EqualValues(t, 2<<20, is, "it buffers %d bytes", is)
}
