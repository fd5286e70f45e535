// SPDX-License-Identifier: Apache-2.0

package natslog_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// replica reads a log as a replicator does, until the test ends it.
type replica struct {
	t   *testing.T
	log *natslog.Log

	mu sync.Mutex
	// read has what was given, as <name>@<version> or the last word of a marker's subject, and the words caught-up and
	// replaced where the reader said so.
	read []string
	last map[string]event.Message
	// hold stops Each at a message, until the channel is closed.
	hold    string
	release chan struct{}
	held    chan struct{}
	err     error
	ended   bool
}

// markers are the subjects of markers.
var markers = []string{"k8s.*.*.*._._gap", "k8s.*.*.*._._resync"}

func (b *broker) replica(start event.Start, change ...func(*natslog.Config)) *replica {
	b.t.Helper()
	return b.replicaHeld(start, "", change...)
}

// replicaHeld is a replica that stops at a message, once.
func (b *broker) replicaHeld(start event.Start, hold string, change ...func(*natslog.Config)) *replica {
	b.t.Helper()
	cfg := natslog.Config{
		Servers: []string{b.url()}, Stream: "KUBERNETES", Subjects: b.subjects, Wait: true, Pause: 10 * time.Millisecond,
		SubjectPerObject: true, Whole: markers, Durable: "replica",
	}
	for _, c := range change {
		c(&cfg)
	}
	r := &replica{t: b.t, log: must.Get(natslog.Connect(cfg))(b.t), last: map[string]event.Message{}, hold: hold}
	r.release, r.held = make(chan struct{}), make(chan struct{}, 1)
	ctx, cancel := context.WithCancel(b.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		err := r.log.Read(ctx, event.Reading{
			Span: event.Span{Start: start, Follow: true}, Each: r.each, Counts: func(event.Message) bool { return true },
			Replaced: func() { r.note("replaced") }, CaughtUp: func() { r.note("caught-up") },
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		r.err, r.ended = err, true
	})
	b.t.Cleanup(func() { cancel(); running.Wait(); r.log.Close() })
	return r
}

func (r *replica) each(ctx context.Context, m event.Message) error {
	word := m.Subject[strings.LastIndex(m.Subject, ".")+1:]
	if !strings.HasPrefix(word, "_") {
		word += "@" + must.Get(event.Decode(m))(r.t).Attr("resourceversion")
	}
	r.mu.Lock()
	hold := r.hold == word
	if hold {
		r.hold = ""
	}
	r.mu.Unlock()
	if hold {
		r.held <- struct{}{}
		select {
		case <-r.release:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = append(r.read, word)
	r.last[word] = m
	return nil
}

func (r *replica) note(word string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.read = append(r.read, word)
}

func (r *replica) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.read, " ")
}

func (r *replica) count(word string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, w := range r.read {
		if w == word {
			n++
		}
	}
	return n
}

func (r *replica) message(word string) event.Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last[word]
}

func (r *replica) expect(want string) {
	r.t.Helper()
	defer func() {
		if r.t.Failed() {
			r.t.Logf("got  %s\nwant %s", r.text(), want)
		}
	}()
	must.Happen(r.t, want, func() bool { return r.text() == want })
}

func (r *replica) waitFor(word string) {
	r.t.Helper()
	must.Happen(r.t, word, func() bool { return r.count(word) > 0 })
}

func (b *broker) marker(name string) {
	b.t.Helper()
	b.store("k8s.east.apps.deployments._."+name, event.Gap, `{}`, map[string]string{"id": "gap." + name})
}

var newest = event.Start{Newest: true}

func TestRead_begins_with_all_markers_and_the_newest_of_each_subject(t *testing.T) {
	b := newBroker(t).start().stream()
	b.marker("_gap")
	b.publish(event.Added, "a", 1, 1)
	b.publish(event.Added, "b", 2, 1)
	b.publish(event.Updated, "a", 3, 2)
	b.marker("_resync")
	b.marker("_gap")
	b.publish(event.Updated, "b", 4, 2)
	b.publish(event.Updated, "b", 5, 3)
	r := b.replica(newest)
	r.expect("_gap _resync _gap a@3 _resync _gap b@5 caught-up")
	b.publish(event.Updated, "a", 6, 3)
	b.publish(event.Updated, "a", 7, 4)
	r.expect("_gap _resync _gap a@3 _resync _gap b@5 caught-up a@6 a@7")
	m := r.message("b@5")
	assert.Equal(t, m.Sequence, m.Position)
}

func TestRead_begins_with_the_oldest_where_objects_share_subjects(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "a", 1, 1)
	b.publish(event.Updated, "a", 2, 2)
	b.replica(newest, func(c *natslog.Config) { c.SubjectPerObject = false }).expect("a@1 a@2 caught-up")
	b.replica(beginning).expect("a@1 a@2 caught-up")
}

func TestReplica_reads_a_mirror(t *testing.T) {
	b := newBroker(t).start().stream()
	b.marker("_gap")
	b.publish(event.Added, "a", 1, 1)
	b.publish(event.Updated, "a", 2, 2)
	b.use(func(js jetstream.JetStream) error {
		_, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
			Name: "MIRROR", Mirror: &jetstream.StreamSource{Name: "KUBERNETES"},
		})
		return err
	})
	b.use(func(js jetstream.JetStream) error {
		s, err := js.Stream(t.Context(), "MIRROR")
		if err == nil && s.CachedInfo().State.Msgs < 3 {
			err = errors.New("the mirror has not all messages")
		}
		return err
	})
	r := b.replica(newest, func(c *natslog.Config) { c.Stream = "MIRROR" })
	r.expect("_gap _gap a@2 caught-up")
	b.publish(event.Updated, "a", 3, 3)
	r.expect("_gap _gap a@2 caught-up a@3")
	assert.NoError(t, must.Err(r.log.At(t.Context(), r.message("a@3").Position)))
	assert.NoError(t, r.log.Acknowledge(t.Context(), event.Marks{0: r.message("a@3").Position}))
}

func TestRead_gives_markers_that_come_while_it_begins(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "a", 1, 1)
	late := must.Get(natslog.Connect(natslog.Config{
		Servers: []string{b.url()}, Stream: "KUBERNETES", SubjectPerObject: true, Whole: markers,
	}))(t)
	defer late.Close()
	late.BeforeConsumer(func() {
		for range 3 {
			b.marker("_gap")
		}
	})
	n := 0
	err := late.Read(t.Context(), event.Reading{
		Span: event.Span{Start: newest}, Replaced: func() {}, Counts: func(event.Message) bool { return true },
		Each: func(_ context.Context, m event.Message) error {
			if strings.HasSuffix(m.Subject, "_gap") {
				n++
			}
			return nil
		},
	})
	require.NoError(t, err)
	assert.Equal(t, 4, n, "three, and the newest once more")
}

func TestRead_has_caught_up_with_a_log_that_is_empty_or_has_nothing_that_matches(t *testing.T) {
	for _, start := range []event.Start{newest, beginning, {}, {Time: time.Now()}, {Last: 3}} {
		b := newBroker(t).start().stream()
		b.replica(start).expect("caught-up")
		b.store("k8s.none", event.Added, `{}`, nil)
		b.only("k8s.*.*.*.*.*").replica(start).expect("caught-up")
	}
}

func TestRead_has_caught_up_with_a_log_that_does_not_exist_and_begins_again_with_the_one_that_comes(t *testing.T) {
	for _, start := range []event.Start{newest, beginning} {
		b := newBroker(t).start()
		r := b.replica(start)
		r.expect("caught-up")
		b.stream()
		b.publish(event.Added, "a", 1, 1)
		r.waitFor("a@1")
		must.Happen(t, "the end", func() bool { return r.count("caught-up") == 2 })
		assert.Equal(t, 1, r.count("replaced"), r.text())
		assert.True(t, strings.HasPrefix(r.text(), "caught-up replaced "), r.text())
	}
}

func TestRead_misses_nothing_when_the_broker_stops_before_it_has_caught_up(t *testing.T) {
	b := newBroker(t).start().stream()
	for i := range 200 { // more than are asked for at a time
		b.publish(event.Added, fmt.Sprint("o", i), 1, 1)
	}
	b.marker("_gap")
	r := b.replicaHeld(newest, "o1@1")
	<-r.held
	b.stop()
	b.start()
	b.publish(event.Updated, "o150", 2, 2)
	b.publish(event.Updated, "o0", 3, 2)
	close(r.release)
	r.waitFor("caught-up")
	before, _, _ := strings.Cut(r.text(), "caught-up")
	for _, want := range []string{"_gap", "o1@1", "o150@2", "o199@1", "o0@3"} {
		assert.Contains(t, before, want+" ")
	}
	b.publish(event.Updated, "o1", 4, 2)
	r.waitFor("o1@4")
	assert.Equal(t, 1, r.count("caught-up"), r.text())
	assert.Equal(t, 0, r.count("replaced"), r.text())
}

func TestRead_goes_on_where_it_was_when_it_had_caught_up(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "a", 1, 1)
	b.publish(event.Updated, "a", 2, 2)
	r := b.replica(newest)
	r.expect("a@2 caught-up")
	b.stop()
	b.start()
	b.publish(event.Updated, "a", 3, 3)
	r.expect("a@2 caught-up a@3")
	b.stop()
	b.start()
	b.publish(event.Updated, "a", 4, 3)
	r.expect("a@2 caught-up a@3 a@4")
}

func TestRead_begins_again_with_the_newest_when_the_stream_is_replaced(t *testing.T) {
	b := newBroker(t).start().stream()
	b.publish(event.Added, "a", 1, 1)
	r := b.replica(newest)
	r.expect("a@1 caught-up")
	b.use(func(js jetstream.JetStream) error {
		return errors.Join(js.DeleteStream(t.Context(), "KUBERNETES"), createStream(t.Context(), js))
	})
	b.publish(event.Added, "a", 10, 1)
	b.publish(event.Updated, "a", 11, 2)
	r.waitFor("a@11")
	must.Happen(t, "caught up", func() bool { return r.count("caught-up") == 1+r.count("replaced") })
	assert.GreaterOrEqual(t, r.count("replaced"), 1, r.text())
}

func TestRead_catches_up_with_a_log_that_is_purged_while_it_is_read(t *testing.T) {
	b := newBroker(t).start().stream()
	for i := range 200 { // more than are asked for at a time
		b.publish(event.Added, fmt.Sprint("a", i), 1, 1)
	}
	for _, start := range []event.Start{newest, beginning} {
		r := b.replicaHeld(start, "a1@1")
		<-r.held
		b.use(func(js jetstream.JetStream) error {
			stream, err := js.Stream(t.Context(), "KUBERNETES")
			if err != nil {
				return err
			}
			return stream.Purge(t.Context(), jetstream.WithPurgeKeep(1))
		})
		close(r.release)
		r.waitFor("caught-up")
		b.publish(event.Updated, "a0", 2, 2)
		r.waitFor("a0@2")
		for i := range 200 {
			b.publish(event.Added, fmt.Sprint("a", i), 1, 1)
		}
	}
}

func TestRead_and_At_with_five_thousand_subjects(t *testing.T) {
	const n = 5000
	b := newBroker(t).start().stream()
	b.use(func(js jetstream.JetStream) error {
		for version := range 2 {
			for i := range n {
				name := fmt.Sprint("o", i)
				if _, err := js.PublishMsgAsync(asMessage("k8s.east.apps.deployments.shop."+name, event.Updated, `{"a":1}`,
					map[string]string{"name": name, "resourceversion": fmt.Sprint(version)}),
					jetstream.WithStallWait(time.Minute)); err != nil {
					return err
				}
			}
		}
		<-js.PublishAsyncComplete()
		return nil
	})
	r := b.replica(newest)
	r.waitFor("caught-up")
	r.mu.Lock()
	var positions []uint64
	for _, m := range r.last {
		positions = append(positions, m.Position)
	}
	read := len(r.read)
	r.mu.Unlock()
	assert.Equal(t, n+1, read)
	slices.Sort(positions)
	begin := time.Now()
	for _, p := range positions {
		m, err := r.log.At(t.Context(), p)
		require.NoError(t, err)
		require.True(t, m != nil && m.Position == p && string(m.Data) == `{"a":1}`, "got %+v of %d", m, p)
	}
	t.Logf("%d bodies one after the other in %v", n, time.Since(begin))
}
