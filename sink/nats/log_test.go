// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
)

func bounds(t *testing.T, s *nats.Sink, expected uint64) sink.LogBounds {
	t.Helper()
	return must.Get(s.Bounds(t.Context(), map[int32]uint64{0: expected}))(t)
}

func TestBounds_names_the_stream_by_its_creation(t *testing.T) {
	b := newBroker(t)
	s := readySink(t, config(b.addr()))
	js := b.connect(t)
	st := must.Get(js.Stream(t.Context(), stream))(t)
	want := st.CachedInfo().Created.Format(time.RFC3339Nano)
	assert.Equal(t, want, bounds(t, s, 0).ID, "the stream")
}

// A process that has just started cannot know that it asks a replica that was left behind.
func TestBounds_do_not_believe_a_replica_that_was_left_behind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patience       time.Duration
		behind         int32 // so many answers are those of a replica that was left behind
		expected, last uint64
	}{
		"the others answer later":  {time.Hour, 5, 7, 7},
		"there is no more":         {100 * time.Millisecond, 0, 8, 7},
		"nothing else is expected": {time.Hour, 5, 3, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			s := newSink(t, config(newFake(t, replicated(func() int {
				if asked.Add(1) <= c.behind {
					return 3
				}
				return 7
			}))))
			s.SetPatience(c.patience)
			ready(t, s)
			assert.Equal(t, c.last, bounds(t, s, c.expected).Partitions[0].Last, "the log ends")
		})
	}
}

func TestBounds_say_what_they_wait_for(t *testing.T) {
	t.Parallel()
	var last atomic.Int32
	last.Store(3)
	s := readySink(t, config(newFake(t, replicated(func() int { return int(last.Load()) }))))
	got := make(chan sink.LogBounds, 1)
	go func() {
		b, err := s.Bounds(t.Context(), map[int32]uint64{0: 7})
		assert.NoError(t, err)
		got <- b
	}()
	sayEventually(t, s, "it ends at 3, and is expected to end at 7")
	assert.NoError(t, publish(t, s, message("k8s.a", "a.1")).err, "published meanwhile")
	last.Store(7)
	b := <-got
	assert.EqualValues(t, 7, b.Partitions[0].Last, "bounds %+v", b)
	must.Succeed(t, "ready", s.Ready)
}

// Whoever was told what the log has builds on it, though another run published it.
func TestSink_ends_when_the_log_lost_what_its_bounds_told(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]int{"created again": 0, "created again and published to": 5} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			first := newSink(t, config(b.addr()))
			end := ready(t, first)
			for i := range 3 {
				publish(t, first, message("k8s.a", fmt.Sprint("a.", i)))
			}
			_ = end()
			cfg := config(b.addr())
			cfg.LookEvery = 20 * time.Millisecond
			s := newSink(t, cfg)
			ended := runs(t, s)
			bounds(t, s, 3)
			b.remake(t, n)
			select {
			case err := <-ended:
				mustHaveLost(t, err, 3)
			case <-time.After(time.Minute):
				t.Error("Run has not ended")
			}
		})
	}
}

// The place of a message of others is told too; the leader is asked, and no consumer needed.
func TestAt_finds_whosesoever_message_without_a_consumer(t *testing.T) {
	b := newBroker(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "bridge", Password: "pw", Permissions: &server.Permissions{Publish: &server.SubjectPermission{
				Allow: []string{
					"k8s.>", "$JS.API.STREAM.INFO.KUBERNETES", "$JS.API.STREAM.CREATE.KUBERNETES",
					"$JS.API.STREAM.MSG.GET.KUBERNETES",
				},
			}}},
			{Username: "other", Password: "pw"},
		}
		o.NoAuthUser = "other"
	})
	js := b.connect(t)
	must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: stream, Subjects: []string{"k8s.>", "more.>"}}))(t)
	cfg := config(b.addr())
	cfg.Client.Auth.User, cfg.Client.Auth.Password = "bridge", "pw"
	s := readySink(t, cfg)
	must.Get(js.Publish(t.Context(), "more.x", []byte("data"), jetstream.WithMsgID("theirs")))(t)
	st, err := s.At(t.Context(), 0, 1)
	assert.True(t, err == nil && st != nil && st.ID == "theirs" && st.Sequence == 1 && len(st.Data) == 0,
		"at 1: %+v (%v)", st, err)
}

func TestAt_keeps_the_data_of_structured_messages(t *testing.T) {
	b := newBroker(t)
	s := readySink(t, config(b.addr()))
	m := message("k8s.a", "a.1")
	m.Attributes, m.ContentType = nil, "application/cloudevents+json"
	publish(t, s, m)
	st, err := s.At(t.Context(), 0, 1)
	assert.True(t, err == nil && st != nil && string(st.Data) == string(m.Data), "at 1: %+v (%v)", st, err)
}

// A cluster without a leader of its own still acknowledges what the stream's leader takes.
func TestSink_publishes_on_without_answers_to_its_routine_questions(t *testing.T) {
	t.Parallel()
	var looks atomic.Int32
	cfg := config(newFake(t, func(subject string) answer {
		switch {
		case strings.HasPrefix(subject, infoSubject) && looks.Add(1) > 1:
			return refuse(503, 10008, "JetStream system temporarily unavailable")
		case strings.HasPrefix(subject, "k8s."):
			return answer{reply: `{"stream":"KUBERNETES","seq":7}`}
		default:
			return haveStream(subject)
		}
	}))
	cfg.LookEvery = 5 * time.Millisecond
	s := readySink(t, cfg)
	must.Succeed(t, "four looks", func() error {
		assert.NoError(t, s.Ready(), "not ready")
		if n := looks.Load(); n < 4 {
			return fmt.Errorf("only %d", n)
		}
		return nil
	})
	assert.NoError(t, publish(t, s, message("k8s.a", "a.1")).err, "published")
}
