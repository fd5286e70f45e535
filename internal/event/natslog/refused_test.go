// SPDX-License-Identifier: Apache-2.0

package natslog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
)

const noJetStream = "JetStream does not answer (is it enabled on the server and for this account?)"

func TestTail_that_does_not_follow_fails_without_JetStream(t *testing.T) {
	b := newBroker(t)
	b.bare = true
	b.start()
	s, _ := b.tail(tail.Config{})
	must.Happen(t, "the end", func() bool { ended, _ := s.End(); return ended })
	want := "read stream KUBERNETES at " + b.url() + ": " + noJetStream
	_, err := s.End()
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), want), "got %v, want %s", err, want)
	assert.Empty(t, s.Said())
}

func TestTail_that_follows_waits_for_JetStream_and_says_so_once(t *testing.T) {
	b := newBroker(t)
	b.bare = true
	b.start()
	s, _ := b.tail(tail.Config{Span: event.Span{Follow: true, Start: beginning}})
	must.Happen(t, "a notice", func() bool { return strings.Contains(s.Said(), noJetStream) })
	b.stop()
	b.bare = false
	b.start().stream()
	b.publish(event.Added, "web", 1, 1)
	b.expect(s, "added web@1 created by kubectl")
	n := strings.Count(s.Said(), noJetStream)
	assert.Equal(t, 1, n, "it said so %d times:\n%s", n, s.Said())
}

func TestTail_fails_where_the_broker_will_never_agree_to_its_subjects(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "web", 1, 1)
	for _, follow := range []bool{false, true} {
		s, _ := b.only("k8s.>", "k8s.east.>").tail(tail.Config{Span: event.Span{Follow: follow, Start: beginning}})
		must.Happen(t, "the end", func() bool { ended, _ := s.End(); return ended })
		if _, err := s.End(); err == nil || !strings.Contains(err.Error(), "read stream KUBERNETES at "+b.url()) ||
			!strings.Contains(err.Error(), "overlap") {
			t.Errorf("follow %v: got %v", follow, err)
		}
		assert.NotContains(t, s.Said(), "reading stream", "follow %v: it said %q and reads nothing", follow, s.Said())
	}
}

func TestTail_that_follows_says_what_it_reads_and_shows_no_token(t *testing.T) {
	b := newBroker(t)
	b.auth = "hidden"
	b.start()
	since := time.Date(2026, 11, 20, 14, 30, 5, 0, time.UTC)
	b.login = "hidden@"
	b.stream()
	for want, span := range map[string]event.Span{
		"from now on":                            {},
		"from its beginning on":                  {Start: beginning},
		"from 2026-11-20T14:30:05Z on":           {Start: event.Start{Time: since}},
		"from the last 3 events that match":      {Start: event.Start{Last: 3}},
		"from now on until 2126-11-20T14:30:05Z": {Until: since.AddDate(100, 0, 0)},
	} {
		t.Run(want, func(t *testing.T) {
			span.Follow = true
			b := &broker{t: t, port: b.port, login: "hidden@"}
			s, _ := b.tail(tail.Config{Span: span})
			must.Happen(t, "a notice", func() bool { return s.Said() != "" })
			full := "reading stream KUBERNETES at " + strings.Replace(b.url(), "hidden", "redacted", 1) + " " + want +
				"; ^C ends it"
			assert.Equal(t, full, s.Said())
		})
	}
}

func TestCheckServer_says_what_is_valid(t *testing.T) {
	for _, good := range []string{
		"nats://a:1", "tls://a", "ws://a/path", "wss://a", "a", "127.0.0.1:1", "[::1]:4222",
		"me:pw@a",
	} {
		assert.NoError(t, natslog.CheckServer(good), good)
	}
	for bad, want := range map[string]string{
		"foo://me:hidden@x": `"foo://redacted@x" has the scheme "foo"; use nats, tls, ws or wss`,
		"nats://":           `"nats://" is not the URL of a NATS server; write nats://host:4222, or tls, ws or wss for nats`,
		"":                  `"" is not the URL of a NATS server; write nats://host:4222, or tls, ws or wss for nats`,
		"me:hid den@x": `"(an address that cannot be read)" is not the URL of a NATS server; write nats://host:4222, ` +
			"or tls, ws or wss for nats",
	} {
		err := natslog.CheckServer(bad)
		assert.True(t, err != nil && err.Error() == want, "%q: got %v, want %s", bad, err, want)
	}
}

func TestCheckSubject_refuses_what_no_subject_of_an_event_matches(t *testing.T) {
	for _, good := range []string{"k8s.>", ">", "k8s.*.apps", "k8s.a%20b"} {
		assert.NoError(t, natslog.CheckSubject(good), good)
	}
	for _, bad := range []string{"", "foo..x", ".x", "x.", "a b", "k8s.>.x", "k8s.web-*", "k8s.a>"} {
		err := natslog.CheckSubject(bad)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), `"`+bad+`" `), "%q: got %v", bad, err)
	}
}

func TestConnect_says_why_an_address_without_a_scheme_does_not_answer(t *testing.T) {
	b := newBroker(t)
	address := strings.TrimPrefix(b.url(), "nats://")
	_, err := natslog.Connect(natslog.Config{Servers: []string{address}})
	want := "connect to " + address + ": dial tcp " + address +
		": connect: connection refused; is the NATS server, or the bridge that contains it, running there?"
	assert.EqualError(t, err, want)
}
