// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestState_tells_how_a_stream_is_doing_and_what_happened_to_it(t *testing.T) {
	log := newFakeLog()
	r := startOf(t, log, &memoryStore{})
	s := r.stream(nil)
	snapshot(t, s, "10", "a u1 5", "b u2 6")
	s.Status.State(source.Watching, nil)
	log.refuse = func(m *sink.Message) bool { return strings.HasSuffix(m.ID, ".11.0") }
	send(t, s, source.Updated, "a", "u1", "11", source.ReasonWatch)
	r.settle()
	relist(t, s, "20", "a u1 11", "b u2 6")
	s.Status.State(source.Waiting, errors.New("connection refused"))

	st := r.pipeline.State()
	require.True(t, len(st.Streams) == 1 && st.Name == "test" && st.BufferBytes == 1<<20, "the pipeline is %+v", st)
	got := st.Streams[0]
	assert.True(t, got.Name == "configmaps.v1" && got.Open && got.Doing == source.Waiting && !got.Live &&
		got.Objects == 2 && got.Published == 3 && got.Position == "20" && got.Unsettled == 0, "the stream is %+v", got)
	assert.True(t, got.Err != nil && !got.Failing.IsZero() && !got.Since.IsZero(),
		"it waits for %v since %v", got.Err, got.Failing)
	past := got.Past
	assert.True(t, past.Gap.From == "10" && past.Gap.To == "20" && !past.Gap.At.IsZero(), "its gap is %+v", past.Gap)
	assert.True(t, past.Rejections == 1 && past.Rejection.Object == "default/a" && past.Rejection.Err != nil,
		"its rejections are %+v", past)
	require.Error(t, past.Failure.Err, "its failure is %+v, over at %v", past.Failure, past.Cleared)
	assert.True(t, past.Cleared.IsZero(), "its failure is %+v, over at %v", past.Failure, past.Cleared)

	s.Status.State(source.Watching, nil)
	got = r.pipeline.State().Streams[0]
	assert.True(t, got.Live && got.Err == nil && got.Failing.IsZero() && got.Past.Failure.Err != nil &&
		!got.Past.Cleared.IsZero(), "when it watches again it is %+v", got)
}

func TestState_tells_what_the_broker_does_not_take(t *testing.T) {
	log, r, s := startNew(t, nil)
	b := r.pipeline.State().Broker
	assert.True(t, b.Err == nil && b.Refused == nil && b.Blocked == nil && b.Reached, "at first the broker is %+v", b)
	full := true
	log.set(func() {
		log.faults = func() fault {
			if full {
				return lostRequest
			}
			return noFault
		}
	})
	send(t, s, source.Added, "a", "u1", "1", source.ReasonWatch)
	must.Happen(t, "a refusal", func() bool { return r.pipeline.State().Broker.Refused != nil })
	st := r.pipeline.State()
	assert.True(t, st.BufferedEvents == 1 && st.Streams[0].Unsettled > 0, "meanwhile it is %+v", st)
	log.set(func() { full = false })
	r.settle()
	st = r.pipeline.State()
	assert.True(t, st.Broker.Refused == nil && st.BufferedEvents == 0, "when it takes events again it is %+v", st)
	log.set(func() { log.away = errors.New("gone") })
	b = r.pipeline.State().Broker
	assert.True(t, b.Err != nil && !b.Since.IsZero() && b.Reached, "when it is away it is %+v", b)
}

// It answers, and is full, for example. One object that it does not take is enough, whatever becomes of the others.
func TestBroker_that_refuses_for_long_is_not_ready(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, r, s := startNew(t, nil)
		full := true
		log.set(func() { log.fails = func(m *sink.Message) bool { return full && strings.HasSuffix(m.Key, "/a") } })
		clear(r.entries.unbegun)
		said := &testlog.Text{}
		r.cfg.Log, r.env.Log, r.delivery.Log = said.Logger(), said.Logger(), said.Logger()
		snapshot(t, s, "1")
		ready := func() string { return strings.Join(r.pipeline.unready(), "\n") }
		send(t, s, source.Added, "a", "u1", "2", source.ReasonWatch)
		s.Status.State(source.Watching, nil)
		<-time.After(health.UnreadyAfter / 2)
		assert.Empty(t, ready(), "soon after")
		send(t, s, source.Added, "b", "u2", "3", source.ReasonWatch)
		<-time.After(health.UnreadyAfter)
		assert.Contains(t, ready(), "broker: it answers, and for 45s has refused something")
		assert.EqualValues(t, 0, value(t, r.registry, "broker_ready"))
		assert.Positive(t, said.Count("the broker answers, and refuses what is published"))
		log.set(func() { full = false })
		r.settle()
		assert.Empty(t, ready(), "when it takes everything")
		assert.EqualValues(t, 1, value(t, r.registry, "broker_ready"))
	})
}

// What failed while the broker was away was not refused by it.
func TestBroker_that_was_away_has_refused_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, r, s := startNew(t, nil)
		down := true
		clear(r.entries.unbegun)
		snapshot(t, s, "1")
		s.Status.State(source.Watching, nil)
		assert.Empty(t, r.unready())
		log.set(func() {
			log.away = errors.New("no connection")
			log.fails = func(*sink.Message) bool { return down }
		})
		send(t, s, source.Added, "a", "u1", "2", source.ReasonWatch)
		assert.Empty(t, r.unready())
		<-time.After(2 * health.UnreadyAfter)
		assert.Contains(t, strings.Join(r.unready(), "\n"), "no connection")
		log.set(func() { log.away = nil })
		assert.Empty(t, r.unready(), "it is there again, and what waits has not had its turn yet")
		log.set(func() { down = false })
		r.settle()
	})
}

func TestState_tells_of_what_is_configured_and_not_open(t *testing.T) {
	r := startOf(t, newFakeLog(), &memoryStore{}, StreamSpec{Resource: "configmaps"},
		StreamSpec{Resource: "widgets.example.com", Namespace: "web"}, StreamSpec{Resource: "secrets"})
	if got := New(*r.cfg).State(); len(got.Streams) != 3 || got.Ready || !got.Began.IsZero() ||
		got.Streams[1].Name != "widgets.example.com/web" || got.Streams[1].Open {
		t.Errorf("before it runs it is %+v", got)
	}
	r.stream(&r.cfg.Streams[0])
	delete(r.entries.unbegun, &r.cfg.Streams[0])
	delete(r.entries.unbegun, &r.cfg.Streams[2])
	r.entries.unknown = map[*StreamSpec]error{
		&r.cfg.Streams[1]: errors.New("not known"),
		&r.cfg.Streams[2]: errors.New("there are none"), // they were open, and have gone
	}
	got := r.pipeline.State().Streams
	assert.True(t, len(got) == 3 && got[0].Open && !got[1].Open && got[1].Err != nil && got[2].Name == "secrets" &&
		got[2].Err != nil, "they are %+v", got)
}

// A resource that is not served when the process starts is read as it was before: without its namespaces all keys would
// be others.
func TestSession_knows_of_a_stored_stream_what_its_name_does_not_tell(t *testing.T) {
	log, store := newFakeLog(), &memoryStore{}
	r, _ := saved(t, log, store)
	_ = r.stop()
	r = start(t, log, store)
	all, _ := r.session.stored()
	assert.True(t, len(all) == 1 && all[0].Kind == "ConfigMap" && all[0].Namespaced, "it knows %+v", all)
}
