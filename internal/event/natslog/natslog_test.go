// SPDX-License-Identifier: Apache-2.0

package natslog_test

import (
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
)

func TestTail_shows_what_is_published_from_now_on_and_what_it_changed(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "web", 1, 1)
	s, stop := b.tail(tail.Config{Span: event.Span{Follow: true}})
	must.Happen(t, "a consumer", b.hasConsumer)
	b.publish(event.Updated, "web", 2, 3)
	b.publish(event.Updated, "web", 3, 4)
	b.publish(event.Updated, "new", 4, 1)
	b.expect(s, "updated web@2 spec.replicas 1→3", "updated web@3 spec.replicas 3→4", "updated new@4")
	stop()
	assert.NoError(t, must.Err(s.End()), "interrupted")
}

func (b *broker) hasConsumer() bool {
	n := 0
	b.use(func(js jetstream.JetStream) error {
		stream, err := js.Stream(b.t.Context(), "KUBERNETES")
		if err == nil {
			n = stream.CachedInfo().State.Consumers
		}
		return err
	})
	return n > 0
}

func TestTail_without_direct_gets_says_nothing_about_changes_it_has_not_seen(t *testing.T) {
	b := newBroker(t).start().stream(func(c *jetstream.StreamConfig) { c.AllowDirect = false })
	b.publish(event.Added, "web", 1, 1)
	b.publish(event.Updated, "web", 2, 3)
	b.publish(event.Updated, "web", 3, 4)
	b.read(tail.Config{Span: event.Span{Start: event.Start{Last: 2}}}, "updated web@2", "updated web@3 spec.replicas 3→4")
}

func TestTail_compares_only_with_the_same_object(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "web", 1, 1)
	b.store("k8s.east.apps.deployments.shop.web", event.Updated, `{"spec":{"replicas":2}}`,
		map[string]string{"objectuid": "another", "resourceversion": "2"})
	b.store("k8s.one", event.Added, `{"spec":{"replicas":1}}`, map[string]string{"subject": "shop/a", "name": "a"})
	b.store("k8s.one", event.Updated, `{"spec":{"replicas":2}}`, map[string]string{"subject": "shop/b", "name": "b"})
	b.read(tail.Config{Span: event.Span{Start: event.Start{Last: 3}}}, "updated web@2", "added a@7 created by kubectl",
		"updated b@7")
}

func TestTail_begins_where_it_is_told(t *testing.T) {
	b := newBroker(t).start().stream()
	b.read(tail.Config{})
	b.read(tail.Config{Span: event.Span{Start: event.Start{Last: 3}}})
	b.publish(event.Added, "a", 1, 1)
	b.publish(event.Added, "b", 2, 1)
	middle := time.Now()
	b.publish(event.Updated, "a", 3, 2)
	b.store("k8s.junk", event.Unknown, "", map[string]string{"id": ""})
	b.publish(event.Updated, "b", 4, 3)
	b.publish(event.Updated, "a", 5, 5)
	first, second := "added a@1 created by kubectl", "added b@2 created by kubectl"
	third, fourth, fifth := "updated a@3 spec.replicas 1→2", "updated b@4 spec.replicas 1→3",
		"updated a@5 spec.replicas 2→5"

	s := b.read(tail.Config{Span: event.Span{Start: beginning}}, first, second, third, fourth, fifth)
	assert.Contains(t, s.Said(), "message 4 on k8s.junk is skipped, and others like it: not a CloudEvent",
		"about what is no event")
	b.read(tail.Config{Span: event.Span{Start: event.Start{Time: middle}}}, third, fourth, fifth)
	b.read(tail.Config{Span: event.Span{Start: event.Start{Time: time.Now().Add(time.Hour)}}})
	b.read(tail.Config{Span: event.Span{Start: beginning, Until: middle}}, first, second)
	b.read(tail.Config{Span: event.Span{Follow: true, Start: beginning, Until: middle}}, first, second)
	b.read(tail.Config{Span: event.Span{Start: event.Start{Last: 1}}}, fifth)
	b.read(tail.Config{Span: event.Span{Start: event.Start{Last: 3}}}, third, fourth, fifth)
	b.read(tail.Config{Span: event.Span{Start: event.Start{Last: 100}}}, first, second, third, fourth, fifth)
	b.read(tail.Config{Span: event.Span{Start: event.Start{Last: 2}}, Filter: tail.Filter{Names: []string{"b"}}}, second,
		fourth)
	b.read(tail.Config{Span: event.Span{Start: event.Start{Last: 1}}, Filter: tail.Filter{Ops: []event.Op{event.Added}}},
		second)
	b.read(tail.Config{Span: event.Span{Start: beginning}, Filter: tail.Filter{Ops: []event.Op{event.Updated}}}, third,
		fourth, fifth)
	b.only("k8s.*.*.*.*.b").read(tail.Config{Span: event.Span{Start: beginning}}, second, fourth)
	b.only("k8s.*.*.*.*.b", "k8s.none").read(tail.Config{Span: event.Span{Start: event.Start{Last: 1}}}, fourth)
	b.only("k8s.none").read(tail.Config{Span: event.Span{Start: beginning}})
	b.read(tail.Config{})
}

func TestTail_follows_until_a_time_and_then_ends(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "a", 1, 1)
	span := event.Span{Follow: true, Start: beginning, Until: time.Now().Add(300 * time.Millisecond)}
	b.read(tail.Config{Span: span}, "added a@1 created by kubectl")
}

func TestTail_that_does_not_follow_fails_without_a_stream(t *testing.T) {
	b := newBroker(t).start()
	s, _ := b.tail(tail.Config{})
	must.Happen(t, "the end", func() bool { ended, _ := s.End(); return ended })
	_, err := s.End()
	assert.True(t, err != nil && strings.Contains(err.Error(), `there is no stream "KUBERNETES"`), "got %v", err)
}

func TestTail_fails_when_the_broker_refuses_it(t *testing.T) {
	b := newBroker(t)
	b.auth = "right"
	b.start()
	for _, wait := range []bool{false, true} {
		log, err := natslog.Connect(natslog.Config{
			Servers: []string{b.url()}, Auth: natsclient.Auth{Token: "wrong"}, Stream: "KUBERNETES", Wait: wait,
			Pause: 10 * time.Millisecond,
		})
		if err == nil {
			err = tail.Run(t.Context(), log, tail.Config{Span: event.Span{Follow: true}, Printer: tail.JSON{W: io.Discard}})
			log.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "the broker refuses the credentials: nats: Authorization Violation") {
			t.Errorf("wait %v: got %v", wait, err)
		}
	}
}

func TestConnect_without_waiting_fails_where_there_is_no_broker_and_shows_no_password(t *testing.T) {
	b := newBroker(t)
	_, err := natslog.Connect(natslog.Config{Servers: []string{strings.Replace(b.url(), "nats://", "nats://me:hidden@",
		1)}})
	assert.True(t, err != nil && !strings.Contains(err.Error(), "hidden") &&
		strings.Contains(err.Error(), strconv.Itoa(b.port)), "got %v", err)
}

func TestConnect_says_what_is_wrong_as_the_sink_does_also_where_it_would_wait(t *testing.T) {
	for want, c := range map[string]natslog.Config{
		"servers: none given": {},
		"servers[0]: not a URL: net/url: invalid userinfo": {
			Servers: []string{"nats://me:hid den@there"},
		},
		"nkey /none: nats: open /none: no such file or directory": {Auth: natsclient.Auth{NKeyFile: "/none"}},
		"tls: CA: open /none: no such file or directory":          {TLS: natsclient.TLS{CAFile: "/none"}},
		"auth: more than one of token, user, nkey, creds": {Auth: natsclient.Auth{
			Token: "a",
			User:  "b",
		}},
	} {
		c.Wait = true
		if c.Servers == nil && want != "servers: none given" {
			c.Servers = []string{"there"}
		}
		_, err := natslog.Connect(c)
		assert.True(t, err != nil && err.Error() == want, "got %v, want %s", err, want)
	}
}

func TestTail_decodes_headers_as_the_sink_encodes_them(t *testing.T) {
	b := newBroker(t).start().stream()
	b.store("k8s.east.apps.deployments.shop.web", event.Deleted, `{}`,
		map[string]string{"name": "k%20%C3%A9%25", "resourceversion": "50%!%41"})
	b.read(tail.Config{Span: event.Span{Start: beginning}}, "deleted k é%@50%!A")
}

func TestTail_as_JSON_is_a_stream_of_events(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "web", 1, 1)
	b.publish(event.Updated, "web", 2, 2)
	r, w := io.Pipe()
	s, _ := b.tail(tail.Config{Span: event.Span{Follow: true, Start: beginning}, Printer: tail.JSON{W: w}})
	decoder := json.NewDecoder(r)
	for _, want := range []string{"1", "2"} {
		var e struct {
			Specversion, Type, Resourceversion string
			Data                               struct {
				Spec struct{ Replicas json.Number }
			}
		}
		require.NoError(t, decoder.Decode(&e))
		assert.True(t, e.Specversion == "1.0" && e.Resourceversion == want && e.Data.Spec.Replicas.String() == want,
			"got %+v, want version and replicas %s", e, want)
	}
	// A reader that goes away ends the tail with its error.
	_ = r.CloseWithError(io.ErrClosedPipe)
	b.publish(event.Updated, "web", 3, 3)
	must.Happen(t, "the end", func() bool { ended, _ := s.End(); return ended })
	assert.ErrorIs(t, must.Err(s.End()), io.ErrClosedPipe, "it ended with the error of its reader")
}

func TestTail_is_interrupted_promptly_while_the_broker_is_away(t *testing.T) {
	must.Prompt(t, "the end", 4*time.Second, func() time.Duration { return interrupting(t) }) // an answer is given 5 s
}

func interrupting(t *testing.T) time.Duration {
	t.Helper()
	b := newBroker(t).start().stream()
	s, stop := b.tail(tail.Config{Span: event.Span{Follow: true}})
	must.Happen(t, "a consumer", b.hasConsumer)
	b.stop()
	must.Happen(t, "a notice", func() bool { return strings.Contains(s.Said(), "no connection") })
	begin := time.Now()
	stop()
	return time.Since(begin)
}
