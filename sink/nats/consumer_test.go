// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
)

// limited returns a ready sink in front of a stream with limits, which has one message.
func limited(t *testing.T, change func(*jetstream.StreamConfig)) (*nats.Sink, jetstream.Stream) {
	t.Helper()
	b := newBroker(t)
	js := b.connect(t)
	cfg := jetstream.StreamConfig{Name: stream, Subjects: []string{"k8s.>"}, Duplicates: time.Minute}
	change(&cfg)
	st := must.Get(js.CreateStream(t.Context(), cfg))(t)
	s := readySink(t, config(b.addr()))
	publish(t, s, message("k8s.a", "a.1"))
	return s, st
}

func TestRead_keeps_to_the_limits_for_consumers(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*jetstream.StreamConfig){
		"inactive threshold": func(c *jetstream.StreamConfig) { c.ConsumerLimits.InactiveThreshold = 30 * time.Second },
		"longer threshold":   func(c *jetstream.StreamConfig) { c.ConsumerLimits.InactiveThreshold = time.Hour },
		"max ack pending":    func(c *jetstream.StreamConfig) { c.ConsumerLimits.MaxAckPending = 10 },
		"one consumer":       func(c *jetstream.StreamConfig) { c.MaxConsumers = 1 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, _ := limited(t, change)
			for _, lastOfKey := range []bool{false, true} {
				assert.Equal(t, []string{"a.1"}, ids(t, s, sink.Query{LastOfKey: lastOfKey}), "read")
			}
		})
	}
}

func TestRead_gives_up_where_no_consumer_is_allowed(t *testing.T) {
	t.Parallel()
	s, st := limited(t, func(c *jetstream.StreamConfig) { c.MaxConsumers = 1 })
	s.SetOccupied(300 * time.Millisecond)
	must.Get(st.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "reader"}))(t)
	err := s.Read(t.Context(), sink.Query{}, func(*sink.Stored) error { return nil })
	var u *sink.UnusableError
	if !errors.As(err, &u) || u.Target != "stream "+stream || !strings.Contains(u.Reason, "maximum consumers limit") ||
		!strings.Contains(u.Advice, "consumer ls "+stream) {
		t.Errorf("read: %v", err)
	}
	assert.NoError(t, s.Ready(), "not ready")
}

// A process that was killed leaves a consumer behind, which the broker keeps for a while.
func TestRead_waits_for_a_consumer_that_was_left_behind(t *testing.T) {
	t.Parallel()
	s, st := limited(t, func(c *jetstream.StreamConfig) { c.MaxConsumers = 1 })
	must.Get(st.CreateConsumer(t.Context(), jetstream.ConsumerConfig{Durable: "reader"}))(t)
	read := make(chan error, 1)
	go func() { read <- s.Read(t.Context(), sink.Query{}, func(*sink.Stored) error { return nil }) }()
	sayEventually(t, s, "maximum consumers limit reached")
	assert.NoError(t, publish(t, s, message("k8s.b", "b.1")).err, "published meanwhile")
	require.NoError(t, st.DeleteConsumer(t.Context(), "reader"))
	assert.NoError(t, <-read, "read")
	must.Succeed(t, "ready", s.Ready)
}

// A fault that may pass is not taken for a limit, and a limit is not believed at once.
func TestRead_tries_again_where_a_consumer_was_refused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refusal  answer
		times    int32
		unusable bool
	}{
		"unavailable":           {refuse(503, 10008, "JetStream system temporarily unavailable"), 6, false},
		"server fault":          {refuse(500, 10028, "insufficient memory"), 6, false},
		"timeout":               {refuse(408, 10000, "timeout"), 6, false},
		"stream not found":      {refuse(404, 10059, "stream not found"), 6, false},
		"refused three times":   {refuse(400, 10139, "inactive threshold exceeds system limit"), 3, false},
		"refused every time":    {refuse(400, 10139, "inactive threshold exceeds system limit"), 1 << 30, true},
		"full for a short time": {refuse(400, 10026, "maximum consumers limit reached"), 6, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var refused atomic.Int32
			cfg := config(newFake(t, oneByOne(func(subject string) answer {
				if strings.HasPrefix(subject, makeSubject) && refused.Add(1) <= c.times {
					return c.refusal
				}
				return answer{}
			}, []delivered{{1, 1}, {2, 2}, {3, 3}})))
			cfg.Wait = 5 * time.Millisecond
			s := readySink(t, cfg)
			err := s.Read(t.Context(), sink.Query{}, func(*sink.Stored) error { return nil })
			var u *sink.UnusableError
			assert.True(t, errors.As(err, &u) == c.unusable && (c.unusable || err == nil), "read: %v", err)
		})
	}
}

// oneByOne is a stream of three messages, of which the n-th consumer brings what deliveries has at n, unless script has
// an answer.
func oneByOne(script func(subject string) answer, deliveries ...[]delivered) func(subject string) answer {
	var consumers atomic.Int32
	return func(subject string) answer {
		if a := script(subject); a.reply != "" {
			return a
		}
		switch {
		case strings.HasPrefix(subject, lastSubject):
			return answer{reply: `{"message":{"subject":"k8s.a","seq":3,"time":"2026-01-02T03:04:05Z"}}`}
		case strings.HasPrefix(subject, makeSubject):
			consumers.Add(1)
			return answer{reply: `{"type":"io.nats.jetstream.api.v1.consumer_create_response","stream_name":"KUBERNETES",` +
				`"name":"C","config":{}}`}
		case strings.HasPrefix(subject, nextSubject):
			return answer{messages: deliveries[consumers.Load()-1]}
		default:
			return haveStream(subject)
		}
	}
}

// The connection may drop a message where too many wait, without an error.
func TestRead_misses_no_message_that_got_lost_on_the_way(t *testing.T) {
	t.Parallel()
	all := []delivered{{1, 1}, {2, 2}, {3, 3}}
	for name, first := range map[string][]delivered{
		"in the middle": {{1, 1}, {3, 3}},
		"at the start":  {{2, 2}, {3, 3}},
		"twice":         {{1, 1}, {1, 1}, {2, 2}},
	} {
		for _, lastOfKey := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				second := all
				if !lastOfKey && first[0].sequence == 1 {
					second = []delivered{{2, 1}, {3, 2}}
				}
				none := func(string) answer { return answer{} }
				s, said := newTalkingSink(t, config(newFake(t, oneByOne(none, first, second))))
				ready(t, s)
				ctx := must.Within(t, time.Minute)
				var got []uint64
				err := s.Read(ctx, sink.Query{LastOfKey: lastOfKey},
					func(st *sink.Stored) error { got = append(got, st.Sequence); return nil })
				assert.True(t, err == nil && slices.Equal(got, []uint64{1, 2, 3}) &&
					strings.Contains(said(), "got lost on the way"), "read %v (%v); said %s", got, err, said())
			})
		}
	}
}

// Whoever only reads must not have to look for the reason in the logs.
func TestReady_says_why_nothing_can_be_read(t *testing.T) {
	t.Parallel()
	b := newBroker(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Allow: []string{"k8s.>", "$JS.API.STREAM.>"}},
		}}}
	})
	cfg := config(b.addr())
	cfg.Client.Auth.User, cfg.Client.Auth.Password = "bridge", "pw"
	cfg.AckTimeout, cfg.LookEvery = 200*time.Millisecond, 10*time.Millisecond
	s := readySink(t, cfg)
	publish(t, s, message("k8s.a", "a.1"))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Read(ctx, sink.Query{}, func(*sink.Stored) error { return nil }) }()
	sayEventually(t, s, `Permissions Violation for Publish to "$JS.API.CONSUMER.CREATE.KUBERNETES`)
	must.Succeed(t, "published meanwhile", func() error { return publish(t, s, message("k8s.a", "a.2")).err })
	cancel()
	assert.ErrorIs(t, <-ended, context.Canceled)
	assert.NoError(t, s.Ready(), "not ready")
}
