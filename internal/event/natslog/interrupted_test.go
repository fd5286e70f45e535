// SPDX-License-Identifier: Apache-2.0

package natslog_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail/tailtest"
)

func TestTail_goes_on_after_the_broker_was_away(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "web", 1, 1)
	s, _ := b.tail(tail.Config{Span: event.Span{Follow: true, Start: beginning}})
	b.expect(s, "added web@1 created by kubectl")
	want := []string{"added web@1 created by kubectl"}
	for i := range 3 {
		b.stop()
		must.Happen(t, "a notice", func() bool { return strings.Count(s.Said(), "no connection to") == i+1 })
		b.start()
		b.publish(event.Updated, "web", i+2, i+2)
		want = append(want, fmt.Sprintf("updated web@%d spec.replicas %d→%d", i+2, i+1, i+2))
		b.expect(s, want...)
	}
	n := strings.Count(s.Said(), "reading stream KUBERNETES at "+b.url()+" again")
	assert.Equal(t, 3, n, "after 3 interruptions it said %d times that it reads again:\n%s", n, s.Said())
}

func TestTail_waits_for_the_broker_and_for_the_stream(t *testing.T) {
	b := newBroker(t)
	s, _ := b.tail(tail.Config{Span: event.Span{Follow: true}})
	want := "no connection to " + b.url() +
		", trying again until there is one; is the NATS server, or the bridge that contains it, running there?"
	must.Happen(t, "a notice", func() bool { return s.Said() == want })
	b.start()
	must.Happen(t, "a notice", func() bool { return strings.Contains(s.Said(), `there is no stream "KUBERNETES" yet`) })
	b.stream()
	b.publish(event.Added, "web", 1, 1)
	b.expect(s, "added web@1 created by kubectl")
	last := "\nreading stream KUBERNETES at " + b.url() + " from its beginning on; ^C ends it"
	assert.True(t, strings.HasSuffix(s.Said(), last), "it said %q", s.Said())
}

func TestTail_starts_again_with_a_stream_that_was_replaced(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "web", 1, 1)
	b.publish(event.Updated, "web", 2, 2)
	s, _ := b.tail(tail.Config{Span: event.Span{Follow: true, Start: beginning}})
	b.expect(s, "added web@1 created by kubectl", "updated web@2 spec.replicas 1→2")
	for i := range 8 {
		// At once, so that no client can ask for the stream while there is none.
		b.use(func(js jetstream.JetStream) error {
			return errors.Join(js.DeleteStream(t.Context(), "KUBERNETES"), createStream(t.Context(), js))
		})
		b.publish(event.Updated, "web", 10+i, 3)
		// A server that is busy may give the new stream what the old one had: then more is shown, and no change.
		last := fmt.Sprintf("updated web@%d", 10+i)
		must.Happen(t, last, func() bool { return strings.Contains(s.Text(), last) })
	}
	if n := strings.Count(s.Said(), "was replaced by a new one"); n < 8 { // more where the broker took several attempts
		t.Errorf("of at least 8 times it said %d times so:\n%s", n, s.Said())
	}
}

// A consumer that is made on the new stream would wait there for a sequence of the old one.
func TestTail_notices_a_stream_that_is_replaced_before_its_consumer_is_made(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "web", 1, 1)
	s, _ := b.tailAfter(tail.Config{Span: event.Span{Follow: true}}, func(l *natslog.Log) {
		l.BeforeConsumer(func() {
			b.use(func(js jetstream.JetStream) error {
				return errors.Join(js.DeleteStream(t.Context(), "KUBERNETES"), createStream(t.Context(), js))
			})
			b.publish(event.Updated, "web", 10, 3)
		})
	})
	b.expect(s, "updated web@10")
}

func TestTail_goes_on_silently_when_its_consumer_was_deleted(t *testing.T) {
	b := newBroker(t).start().stream()
	s, _ := b.tail(tail.Config{Span: event.Span{Follow: true}})
	must.Happen(t, "a consumer", b.hasConsumer)
	first := "reading stream KUBERNETES at " + b.url() + " from now on; ^C ends it"
	must.Happen(t, "a notice", func() bool { return s.Said() == first })
	b.use(func(js jetstream.JetStream) error {
		stream, err := js.Stream(t.Context(), "KUBERNETES")
		if err != nil {
			return err
		}
		for name := range stream.ConsumerNames(t.Context()).Name() {
			err = errors.Join(err, stream.DeleteConsumer(t.Context(), name))
		}
		return err
	})
	b.publish(event.Updated, "web", 2, 3)
	b.expect(s, "updated web@2")
	assert.Equal(t, first, s.Said())
}

// away stops the broker, and lets f change its streams before a tail can connect again.
func (b *broker) away(s *tailtest.Screen, f func(*broker)) {
	b.t.Helper()
	n := strings.Count(s.Said(), "no connection")
	b.stop()
	must.Happen(b.t, "a notice", func() bool { return strings.Count(s.Said(), "no connection") > n })
	aside := &broker{t: b.t, dir: b.dir, port: newBroker(b.t).port}
	aside.start()
	f(aside)
	aside.stop()
	n = strings.Count(s.Said(), "reading stream")
	b.start()
	must.Happen(b.t, "reading again", func() bool { return strings.Count(s.Said(), "reading stream") > n })
}

func TestTail_says_once_what_was_removed_before_it_was_read(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "web", 1, 1)
	s, _ := b.tail(tail.Config{Span: event.Span{Follow: true, Start: beginning}})
	b.expect(s, "added web@1 created by kubectl")
	b.away(s, func(aside *broker) {
		for i := range 3 {
			aside.publish(event.Updated, "web", i+2, i+2)
		}
		aside.use(func(js jetstream.JetStream) error {
			stream, err := js.Stream(t.Context(), "KUBERNETES")
			if err != nil {
				return err
			}
			return stream.Purge(t.Context())
		})
	})
	b.away(s, func(*broker) {})
	b.publish(event.Updated, "web", 5, 5)
	must.Happen(t, "the last event", func() bool { return strings.Contains(s.Text(), "updated web@5") })
	n := strings.Count(s.Said(), `messages 2 to 4 were removed from stream "KUBERNETES" before they were read`)
	assert.Equal(t, 1, n, "it said so %d times:\n%s", n, s.Said())
}

func TestTail_notices_another_stream_of_the_same_name_and_length(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "web", 1, 1)
	s, _ := b.tail(tail.Config{Span: event.Span{Follow: true, Start: beginning}})
	b.expect(s, "added web@1 created by kubectl")
	b.away(s, func(aside *broker) {
		aside.use(func(js jetstream.JetStream) error { return js.DeleteStream(t.Context(), "KUBERNETES") })
		aside.stream()
		aside.publish(event.Updated, "web", 8, 8)
	})
	b.expect(s, "added web@1 created by kubectl", "updated web@8")
}
