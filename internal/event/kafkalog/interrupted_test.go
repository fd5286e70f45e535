// SPDX-License-Identifier: Apache-2.0

package kafkalog

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail/tailtest"
)

// following is a tail that goes on at the end of the log.
func (f *fake) following(t *testing.T, topic string, start event.Start) *tailtest.Screen {
	t.Helper()
	s, _ := f.tail(t, topic, tail.Config{Span: event.Span{Follow: true, Start: start}})
	wait(t, time.Second)
	return s
}

var errAway = fmt.Errorf("ask for topics: connect to b:9092: %w",
	&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED})

func TestTail_goes_on_after_the_brokers_were_away_and_says_so_once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 12)
		f.put("t", 0, change(event.Added, "web", 1, 1, 1))
		s := f.following(t, "t", beginning)
		want := []string{"added web@1 created by kubectl"}
		said := []string{"reading topic t at b:9092 from its beginning on; ^C ends it"}
		for i := range 3 {
			f.change(func() { f.away = io.ErrUnexpectedEOF }) // as connections end
			wait(t, 300*time.Millisecond)
			f.change(func() { f.away = errAway })
			wait(t, time.Minute)
			f.change(func() { f.away = nil })
			f.put("t", 0, change(event.Updated, "web", i+2, i+2, i+2))
			wait(t, 5*time.Second)
			want = append(want, fmt.Sprintf("updated web@%d spec.replicas %d→%d", i+2, i+1, i+2))
			expect(t, s, want...)
			said = append(said, "no connection to b:9092, trying again until there is one", "reading topic t at b:9092 again")
		}
		expectSaid(t, s, said...)
	})
}

func TestTail_that_follows_waits_for_brokers_and_for_the_topic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake()
		f.away = errAway
		s := f.following(t, "t", event.Start{})
		wait(t, time.Minute)
		f.change(func() { f.away = nil })
		wait(t, time.Minute)
		f.topic("t", "1", 2).put("t", 1, change(event.Added, "web", 1, 1, 1))
		wait(t, 5*time.Second)
		expect(t, s, "added web@1 created by kubectl")
		expectSaid(t, s, "no connection to b:9092, trying again until there is one; is Kafka running there?",
			`there is no topic "t" yet, or it may not be seen; waiting for it`,
			"reading topic t at b:9092 from its beginning on; ^C ends it")
	})
}

func TestTail_that_does_not_follow_ends_where_there_is_nothing_to_read_from(t *testing.T) {
	for want, f := range map[string]*fake{
		"connect to b:9092: dial tcp: connection refused; is Kafka running there?":                                         {away: errAway},
		`there is no topic "t" at b:9092, or it may not be seen; name another one with --topic, or follow until it exists`: newFake(),
		"read topic t at b:9092: fetch from t/0: " +
			kafkago.NotLeaderForPartition.Error(): unled(),
	} {
		synctest.Test(t, func(t *testing.T) {
			s, _ := f.tail(t, "t", tail.Config{Span: event.Span{Start: beginning}})
			wait(t, time.Minute)
			ended, err := s.End()
			assert.True(t, ended && err != nil && err.Error() == want, "got %v, want %s", err, want)
			expectSaid(t, s, "")
		})
	}
}

// unled is a cluster with a partition without a leader.
func unled() *fake {
	f := newFake().topic("t", "1", 1).put("t", 0, change(event.Added, "a", 1, 1, 1))
	f.broken[place{"t", 0}] = kafkago.NotLeaderForPartition
	return f
}

// What no waiting cures ends also who would wait, as long as nothing was read.
func TestTail_ends_with_what_brokers_refuse_until_it_has_begun(t *testing.T) {
	for want, cause := range map[string]error{
		"read topic t at b:9092: the broker refuses the credentials: error 58": kafka.Explain(kafkago.SASLAuthenticationFailed),
		"read topic t at b:9092: SASL is configured, and the broker has none":  kafka.Explain(kafkago.IllegalSASLState),
		"read topic t at b:9092: the broker expects TLS on this port, and none": kafka.Explain(fmt.Errorf(
			"%w: broker appears to be expecting TLS", io.ErrUnexpectedEOF)),
		"read topic t at b:9092: the broker's certificate is signed by": kafka.Explain(x509.UnknownAuthorityError{}),
		"read topic t at b:9092: remote error: tls: bad certificate": &net.OpError{
			Op:  "remote error",
			Err: errors.New("tls: bad certificate"),
		},
		"read topic t at b:9092: the broker refuses the token": errors.New(
			"the broker refuses the token: no"),
	} {
		synctest.Test(t, func(t *testing.T) {
			f := newFake().topic("t", "1", 1)
			f.away = cause
			s := f.following(t, "t", event.Start{})
			ended, err := s.End()
			assert.True(t, ended && err != nil && strings.HasPrefix(err.Error(), want), "got %v, want %s", err, want)
			f.away = nil
			s = f.following(t, "t", event.Start{})
			f.change(func() { f.away = cause })
			wait(t, time.Minute)
			f.change(func() { f.away = nil })
			f.put("t", 0, change(event.Added, "web", 1, 1, 1))
			wait(t, 5*time.Second)
			expect(t, s, "added web@1 created by kubectl")
			if said := s.Said(); strings.Count(said, "\n") != 2 ||
				!strings.Contains(said, "\nreading topic t failed, trying again: "+cause.Error()+"\n") {
				t.Errorf("it said %s", said)
			}
		})
	}
}

func TestTail_says_what_it_may_not_read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden := kafka.Explain(kafkago.TopicAuthorizationFailed)
		f := newFake().topic("k.a", "1", 1).topic("k.b", "2", 2)
		f.broken[place{"k.a", 0}] = forbidden
		s := f.following(t, "k.a", event.Start{})
		want := "read topic k.a at b:9092: fetch from k.a/0: " + forbidden.Error()
		ended, err := s.End()
		assert.True(t, ended && err != nil && err.Error() == want, "got %v, want %s", err, want)
		expectSaid(t, s, "")
		// Of several topics one may be left out.
		s = f.following(t, "k.{resource}", event.Start{})
		f.put("k.b", 1, change(event.Added, "web", 1, 1, 1))
		wait(t, 10*time.Second)
		expect(t, s, "added web@1 created by kubectl")
		expectSaid(t, s, "leaving topic k.a out: fetch from k.a/0: "+forbidden.Error(),
			"reading topics k.{resource} at b:9092 from now on; ^C ends it")
		f.change(func() { delete(f.topics, "k.b") })
		s = f.following(t, "k.{resource}", event.Start{})
		if ended, err := s.End(); !ended || err == nil ||
			!strings.Contains(err.Error(), "read topics k.{resource} at b:9092: fetch from k.a/0: ") {
			t.Errorf("got %v", err)
		}
	})
}

func TestTail_reads_topics_that_come_later(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("k.a", "1", 1).topic("other", "2", 1).topic("k.", "3", 1)
		f.put("k.a", 0, change(event.Added, "old", 1, 1, 1))
		s := f.following(t, "k.{resource}", event.Start{})
		f.topic("k.b", "4", 2).put("k.b", 1, change(event.Added, "b", 2, 1, 2)).put("other", 0,
			change(event.Added, "no", 3, 1, 3))
		f.put("k.", 0, change(event.Added, "no", 3, 1, 3))
		wait(t, 3*time.Second)
		f.put("k.a", 0, change(event.Added, "a", 4, 1, 4)).put("k.b", 0, change(event.Added, "b", 5, 1, 5))
		wait(t, time.Second)
		f.change(func() { f.topics["k.a"].partitions = append(f.topics["k.a"].partitions, &fakePartition{}) })
		f.put("k.a", 1, change(event.Added, "c", 6, 1, 6))
		wait(t, 3*time.Second)
		got := s.Text()
		for _, want := range []string{"added b@2", "added a@4", "added b@5", "added c@6"} {
			assert.Equal(t, 1, strings.Count(got, want), "%s is missing in\n%s", want, got)
		}
		assert.Equal(t, 3, strings.Count(got, "\n"), "got\n%s", got)
		f.change(func() { delete(f.topics, "k.b") })
		wait(t, 10*time.Second)
		expectSaid(t, s, "reading topics k.{resource} at b:9092 from now on; ^C ends it",
			"reading topic k.b too, which is new", `topic "k.b" is gone`)
	})
}

func TestTail_starts_again_with_a_topic_that_was_replaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "0", 2)
		f.put("t", 0, change(event.Added, "web", 1, 1, 1)).put("t", 0, change(event.Updated, "web", 2, 2, 2))
		s := f.following(t, "t", beginning)
		want := []string{"added web@1 created by kubectl", "updated web@2 spec.replicas 1→2"}
		for i := range 4 {
			f.change(func() { delete(f.topics, "t") })
			wait(t, time.Second)
			f.topic("t", fmt.Sprint(i+1), 2).put("t", i%2, change(event.Updated, "web", 10+i, 3, 10+i))
			wait(t, 10*time.Second)
			want = append(want, fmt.Sprintf("updated web@%d", 10+i))
			expect(t, s, want...)
		}
		n := strings.Count(s.Said(), `topic "t" was replaced by a new one, reading it from its beginning`)
		assert.Equal(t, 4, n, "of 4 times it said %d times so:\n%s", n, s.Said())
		f.change(func() { delete(f.topics, "t") })
		wait(t, time.Minute)
		f.topic("t", "9", 2).put("t", 0, change(event.Updated, "web", 20, 3, 20))
		wait(t, 10*time.Second)
		expect(t, s, append(want, "updated web@20")...)
		said := s.Said()
		assert.True(t, strings.Count(said, `there is no topic "t" yet, or it may not be seen; waiting for it`) == 1 &&
			strings.HasSuffix(said, "reading topic t at b:9092 again"), "of a topic that was away it said\n%s", said)
	})
}

func TestTail_that_does_not_follow_ends_with_its_topic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 1)
		for i := range 5000 {
			f.put("t", 0, change(event.Updated, "web", i, i, i))
		}
		n := 0
		f.onFetch = func(place) {
			if n++; n == 3 {
				f.change(func() { delete(f.topics, "t") })
			}
		}
		s, _ := f.tail(t, "t", tail.Config{Span: event.Span{Start: beginning}})
		wait(t, time.Minute)
		if ended, err := s.End(); !ended || err == nil || !strings.HasPrefix(err.Error(), `there is no topic "t" at b:9092`) {
			t.Errorf("ended %v with %v", ended, err)
		}
	})
}

func TestTail_says_once_what_was_removed_before_it_was_read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 2)
		f.put("t", 1, change(event.Added, "web", 1, 1, 1))
		s := f.following(t, "t", beginning)
		f.change(func() { f.away = errAway })
		wait(t, 10*time.Second)
		f.change(func() {
			p := f.topics["t"].partitions[1]
			p.first, p.next, p.records = 90, 90, nil
			f.away = nil
		})
		f.put("t", 1, change(event.Updated, "web", 5, 5, 5))
		wait(t, 10*time.Second)
		expect(t, s, "added web@1 created by kubectl", "updated web@5 spec.replicas 1→5")
		n := strings.Count(s.Said(), `records 1 to 89 of partition 1 of topic "t" were removed before they were read`)
		assert.Equal(t, 1, n, "it said so %d times:\n%s", n, s.Said())
	})
}

func TestTail_goes_on_where_a_partition_has_lost_what_was_read(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 2)
		for i := range 5 {
			f.put("t", 1, change(event.Updated, "web", i, i, i))
		}
		s := f.following(t, "t", event.Start{Last: 1})
		shorter := func(n int64) {
			f.change(func() {
				p := f.topics["t"].partitions[1]
				p.next, p.records = n, p.records[:n]
			})
		}
		full := f.topics["t"].partitions[1].records
		shorter(3) // for a moment only
		wait(t, time.Second)
		f.change(func() { f.topics["t"].partitions[1].next, f.topics["t"].partitions[1].records = 5, full })
		wait(t, 10*time.Second)
		shorter(3)
		wait(t, 10*time.Second)
		f.put("t", 1, change(event.Updated, "web", 9, 9, 9))
		wait(t, time.Second)
		expect(t, s, "updated web@4 spec.replicas 3→4", "updated web@9 spec.replicas 2→9")
		expectSaid(t, s, "reading topic t at b:9092 from the last event that matches; ^C ends it",
			`partition 1 of topic "t" has lost records 3 to 4, which were read`)
	})
}

func TestTail_does_not_wait_for_one_partition_for_ever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake().topic("t", "1", 2)
		f.put("t", 0, change(event.Added, "a", 1, 1, 1)).put("t", 1, change(event.Added, "b", 2, 1, 2)).put("t", 0,
			change(event.Updated, "a", 3, 2, 3))
		f.broken[place{"t", 1}] = kafkago.LeaderNotAvailable
		s := f.following(t, "t", beginning)
		expect(t, s) // its leader may come back, and then order is kept
		wait(t, 10*time.Second)
		first, second := "added a@1 created by kubectl", "updated a@3 spec.replicas 1→2"
		expect(t, s, first, second)
		f.change(func() { delete(f.broken, place{"t", 1}) })
		wait(t, 3*time.Second)
		expect(t, s, first, second, "added b@2 created by kubectl")
		late := "partition 1 of topic t cannot be read, trying again: fetch from t/1: " + kafkago.LeaderNotAvailable.Error()
		expectSaid(t, s, "reading topic t at b:9092 from its beginning on; ^C ends it", late,
			"reading topic t at b:9092 again")
		// A leader that moves is no news.
		f.change(func() { f.broken[place{"t", 1}] = kafkago.NotLeaderForPartition })
		wait(t, 2*time.Second)
		f.change(func() { delete(f.broken, place{"t", 1}) })
		wait(t, 10*time.Second)
		assert.Equal(t, 2, strings.Count(s.Said(), "\n"), "it said\n%s", s.Said())
	})
}
