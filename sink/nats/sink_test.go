// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/sinktest"
)

func TestSink_keeps_the_contract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) *sinktest.Harness {
		b := newBroker(t)
		p := sinktest.NewProxy(t, b.addr)
		cfg := config(p.Addr())
		cfg.LookEvery = 200 * time.Millisecond
		return &sinktest.Harness{
			Sink:      newSink(t, cfg),
			Subject:   func(key string) string { return "k8s." + key },
			Log:       b.log,
			Remembers: true,
			Verifies:  true,
			Limit:     1 << 20,
			Cut:       p.Cut,
			Stop:      b.stop,
			Start:     b.start,
			Save:      b.save,
			Restore:   b.restore,
			Destroy:   b.destroy,
			Remake:    b.remake,
			Purge:     b.purge,
			Unordered: true,
			Library:   "github.com/nats-io/nats.go",
		}
	})
}

// The server's memory for ids is short: what is repeated later is found by the check of the subject's last message.
func TestSink_recognises_a_repetition_after_the_memory_for_ids(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	s := newSink(t, config(b.addr()))
	end := ready(t, s)
	js := b.connect(t)
	st := must.Get(js.Stream(t.Context(), stream))(t)
	cfg := st.CachedInfo().Config
	cfg.Duplicates = 100 * time.Millisecond
	must.Get(js.UpdateStream(t.Context(), cfg))(t)
	first := publish(t, s, message("k8s.a", "a.1"))
	// Ids are forgotten in their order.
	later := gonats.NewMsg("k8s.other")
	later.Header.Set("Nats-Msg-Id", "later")
	must.Get(js.PublishMsg(t.Context(), later))(t)
	must.Succeed(t, "a later id is forgotten", func() error {
		ack, err := js.PublishMsg(t.Context(), later)
		if err == nil && ack.Duplicate {
			return errors.New("remembered")
		}
		return err
	})
	again := message("k8s.a", "a.1")
	again.Verify = true
	r := publish(t, s, again)
	assert.True(t, r.err == nil && r.rc.Duplicate && r.rc.Sequence == first.rc.Sequence, "published again: %+v", r)
	assert.EqualValues(t, 1, s.Stats().Duplicates, "duplicates were counted")
	require.NoError(t, end())
}

// The server looks at ids before it looks at the expected last sequence.
func TestSink_takes_a_repetition_behind_which_the_subject_has_another_message_for_a_conflict(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	s := readySink(t, config(b.addr()))
	a := publish(t, s, message("k8s.a", "a.1"))
	last := publish(t, s, message("k8s.a", "a.2"))
	require.NoError(t, errors.Join(a.err, last.err))
	m := message("k8s.a", "a.1")
	r := publish(t, s, m)
	var c *sink.ConflictError
	require.ErrorAs(t, r.err, &c, "a.1 again: %+v", r)
	require.NotNil(t, c.Last)
	assert.Equal(t, "a.2", c.Last.ID)
	assert.Equal(t, last.rc.Sequence, c.Last.Sequence)
	assert.Equal(t, a.rc.Sequence, c.Duplicate)
	assert.EqualValues(t, 0, s.Stats().Duplicates, "duplicates were counted")
	assert.EqualValues(t, 1, s.Stats().Conflicts, "conflicts were counted")
	m.Shared = true
	shared := publish(t, s, m)
	assert.True(t, shared.err == nil && shared.rc.Duplicate && shared.rc.Sequence == a.rc.Sequence,
		"a.1 again, of a shared subject: %+v", shared)
	b.purge(t)
	require.ErrorAs(t, publish(t, s, message("k8s.a", "a.2")).err, &c, "a.2 again, which was removed")
	assert.Nil(t, c.Last)
}

func TestSink_is_refused_for_good_what_the_stream_finds_too_large(t *testing.T) {
	b := newBroker(t)
	js := b.connect(t)
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: stream, Subjects: []string{"k8s.>"},
		MaxMsgSize: 1000,
	}); err != nil {
		t.Fatal(err)
	}
	s := readySink(t, config(b.addr()))
	m := message("k8s.a", "a.1")
	m.Data = bytes.Repeat([]byte("1"), 1000)
	r := publish(t, s, m)
	assert.True(t, sink.IsPermanent(r.err), "too large: %v", r.err)
}

func TestSink_is_refused_for_good_what_is_not_permitted(t *testing.T) {
	b := newBroker(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: []string{"k8s.ok.>", "$JS.API.>"}},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}},
		}
	})
	cfg := config(b.addr())
	cfg.Client.Auth = natsclient.Auth{User: "bridge", Password: "pw"}
	s := readySink(t, cfg)
	require.NoError(t, publish(t, s, message("k8s.ok.a", "a.1")).err)
	r := publish(t, s, message("k8s.secret.a", "a.2"))
	require.True(t, sink.IsPermanent(r.err), "not permitted")
	assert.Contains(t, r.err.Error(), "k8s.secret.a", "not permitted")
	assert.NoError(t, publish(t, s, message("k8s.ok.a", "a.3")).err)
}

func TestSink_is_refused_for_good_what_has_no_possible_subject(t *testing.T) {
	b := newBroker(t)
	s := readySink(t, config(b.addr()))
	longest := "k8s." + strings.Repeat("a", 3<<10-len("k8s."))
	for _, subject := range []string{
		"", ".", "k8s.", ".k8s", "k8s..a", "k8s.a b", "k8s.a\r\nPING", "k8s.*", "k8s.>",
		"*.a", "k8s.a\t", "other.a", longest + "a",
	} {
		r := publish(t, s, message(subject, "x"))
		assert.True(t, sink.IsPermanent(r.err), "%q: %v", subject, r.err)
	}
	for _, subject := range []string{"k8s.a*b", "k8s.%2E", "k8s.é", "k8s.a>", longest} {
		assert.NoError(t, publish(t, s, message(subject, "y"+subject)).err, "%q", subject)
	}
	assert.EqualValues(t, 0, s.Stats().Disconnects, "disconnects")
}

// Nothing is lost with a stream that has acknowledged nothing.
func TestSink_creates_a_stream_that_vanished_before_it_was_published_to(t *testing.T) {
	b := newBroker(t)
	s, said := newTalkingSink(t, config(b.addr()))
	ready(t, s)
	js := b.connect(t)
	require.NoError(t, js.DeleteStream(t.Context(), stream))
	r := publish(t, s, message("k8s.a", "a.1"))
	assert.True(t, r.err != nil && !sink.IsPermanent(r.err), "without a stream: %v", r.err)
	must.Succeed(t, "published", func() error { return publish(t, s, message("k8s.a", "a.1")).err })
	assert.Equal(t, 1, len(b.log(t)), "messages")
	assert.Contains(t, said(), `level=WARN msg="the stream had vanished`, "nothing")
}

func TestSink_blocks_while_the_window_is_full(t *testing.T) {
	cfg := config(newFake(t, haveStream))
	cfg.Window, cfg.AckTimeout = 2, 2*time.Second
	s := newSink(t, cfg)
	end := ready(t, s)
	got := make(chan error, 4)
	done := func(_ sink.Receipt, err error) { got <- err }
	s.Publish(t.Context(), message("k8s.a", "1"), done)
	s.Publish(t.Context(), message("k8s.b", "2"), done)
	assert.Equal(t, 2, s.Stats().InFlight, "in flight")
	ctx := must.Within(t, 10*time.Millisecond)
	s.Publish(ctx, message("k8s.c", "3"), done)
	assert.ErrorIs(t, <-got, context.DeadlineExceeded, "the third")
	for range 2 {
		err := <-got
		if err == nil || sink.IsPermanent(err) || !strings.Contains(err.Error(), "no acknowledgement within 2s") {
			t.Errorf("never acknowledged: %v", err)
		}
	}
	assert.EqualValues(t, 2, s.Stats().Timeouts, "timeouts")
	s.Publish(t.Context(), message("k8s.d", "4"), done)
	require.NoError(t, end())
	assert.ErrorIs(t, <-got, context.Canceled, "at the end")
}

func TestSink_waits_for_a_broker_that_comes_later(t *testing.T) {
	s := newSink(t, config(noServer))
	end := run(t, s)
	sayEventually(t, s, "connection refused")
	require.NoError(t, end())
	var b atomic.Pointer[broker]
	s = newSink(t, config(sinktest.NewProxy(t, func() string {
		if b := b.Load(); b != nil {
			return b.addr()
		}
		return noServer
	}).Addr()))
	run(t, s)
	sayEventually(t, s, "connect to ")
	b.Store(newBroker(t))
	must.Succeed(t, "ready", s.Ready)
}

// A server that has stopped answering, in the middle of a handshake, does not delay the end.
func TestSink_ends_at_once_whatever_the_broker_does(t *testing.T) {
	must.Prompt(t, "the end", 4*time.Second, func() time.Duration { return endingInHandshake(t) }) // which is given 5 s
}

func endingInHandshake(t *testing.T) time.Duration {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	s := newSink(t, config(l.Addr().String()))
	end := run(t, s)
	c := must.Get(l.Accept())(t)
	defer c.Close()
	began := time.Now()
	require.NoError(t, end())
	return time.Since(began)
}

func TestSink_publishes_in_process(t *testing.T) {
	b := newBroker(t, func(o *server.Options) { o.DontListen = true })
	cfg := config()
	cfg.Client.InProcess = b.server()
	s := readySink(t, cfg)
	r := publish(t, s, message("k8s.a", "a.1"))
	assert.True(t, r.err == nil && r.rc.Sequence == 1, "%+v", r)
}

func TestSink_publishes_to_a_domain(t *testing.T) {
	b := newBroker(t, func(o *server.Options) { o.JetStreamDomain = "hub" })
	for _, domain := range []string{"", "hub"} {
		cfg := config(b.addr())
		cfg.Domain = domain
		s := newSink(t, cfg)
		end := ready(t, s)
		r := publish(t, s, message("k8s.a", "a."+domain))
		assert.True(t, r.err == nil && !r.rc.Duplicate, "%+v", r)
		m := message("k8s.a", "b."+domain)
		m.Verify, m.Previous = true, 1000
		var c *sink.ConflictError
		r = publish(t, s, m)
		assert.True(t, errors.As(r.err, &c) && c.Last.ID == "a."+domain, "conflict: %v", r.err)
		require.NoError(t, end())
	}
}
