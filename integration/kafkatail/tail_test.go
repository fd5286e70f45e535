// SPDX-License-Identifier: Apache-2.0

package kafkatail

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/kafkalog"
	internal "github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
)

// whole makes a message a structured one.
func whole(t *testing.T, m *sink.Message) *sink.Message {
	t.Helper()
	e := map[string]any{"data": json.RawMessage(m.Data)}
	for _, a := range m.Attributes {
		e[a.Name] = a.Value
	}
	data := must.Get(json.Marshal(e))(t)
	m.Attributes, m.ContentType, m.Data = nil, "application/cloudevents+json", data
	return m
}

// written are messages by their ids.
type written map[string]*sink.Message

const (
	objects  = 40
	versions = 25
)

// write publishes versions of objects between two markers: one message of each object at a time, those of all objects
// at once.
func (r *testTopic) write(t *testing.T, structured bool) written {
	t.Helper()
	s, _ := r.sink(t, r.topic, func(c *kafka.Config) {
		c.Tombstones, c.Structured, c.Compression = true, structured, batch.Zstd
	})
	first, last := marker(r.topic, event.SnapshotStarted, 0), marker(r.topic, event.SnapshotCompleted, versions)
	all := written{first.ID: first, last.ID: last}
	publish(t, s, send(t, structured, first))
	for v := range versions {
		var waiting []chan error
		for o := range objects {
			op := event.Updated
			if v == versions-1 && o%2 == 0 {
				op = event.Deleted
			}
			m := change(r.topic, op, fmt.Sprint("web-", o), v, v)
			all[m.ID] = m
			done := make(chan error, 1)
			waiting = append(waiting, done)
			s.Publish(t.Context(), send(t, structured, m), func(_ sink.Receipt, err error) { done <- err })
		}
		for _, done := range waiting {
			require.NoError(t, <-done)
		}
	}
	publish(t, s, send(t, structured, last))
	return all
}

// judge compares events with what was written: each is there once, whole, and behind the ones before it of its object.
func (w written) judge(t *testing.T, events []*event.Event) {
	t.Helper()
	next := map[string]int{}
	for _, e := range events {
		m := w[e.Attr("id")]
		require.NotNil(t, m, "it shows %s, which was not written, or twice", e.Attr("id"))
		delete(w, e.Attr("id"))
		for _, a := range m.Attributes {
			assert.Equal(t, a.Value, e.Attr(a.Name), "%s of %s", a.Name, m.ID)
		}
		assert.Equal(t, m.Data, e.Data, "data of %s", m.ID)
		if e.Op.Marker() {
			continue
		}
		assert.Equal(t, fmt.Sprint(next[e.Attr("name")]), e.Attr("resourceversion"),
			"of %s comes instead of %d", e.Attr("name"), next[e.Attr("name")])
		next[e.Attr("name")]++
	}
	assert.Empty(t, w, "not shown")
}

func TestTail_shows_what_the_sink_wrote(t *testing.T) {
	t.Parallel()
	for _, structured := range []bool{false, true} {
		r := newTopic(t, shared.ForTest(t), 5, nil)
		all := r.write(t, structured)
		got := r.read(t, event.Span{Start: beginning})
		all.judge(t, got.Events())
		if !slices.IsSortedFunc(got.Events(), func(a, b *event.Event) int { return a.Stored.Time.Compare(b.Stored.Time) }) {
			t.Error("they are not in the order of time")
		}
		if first := got.Events()[0].Op; first != event.SnapshotStarted || got.Said() != "" {
			t.Errorf("it begins with %s, and said %s", first, got.Said())
		}
	}
}

// send returns what is published of a message: the original is what is compared with.
func send(t *testing.T, structured bool, m *sink.Message) *sink.Message {
	c := *m
	if structured {
		return whole(t, &c)
	}
	return &c
}

func TestTail_begins_and_ends_where_it_is_told(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 3, nil)
	s, _ := r.sink(t, r.topic, nil)
	const all, middle = 3000, 2000
	var at time.Time
	for n := range all {
		switch n { // whose times must not be those of the ones before
		case middle:
			require.NoError(t, pause.For(t.Context(), 20*time.Millisecond))
			at = time.Now()
		case all - 77, middle - 10:
			require.NoError(t, pause.For(t.Context(), 20*time.Millisecond))
		}
		publish(t, s, change(r.topic, event.Updated, fmt.Sprint("web-", n%20), n, n))
	}
	for _, c := range []struct {
		span        event.Span
		first, last int
	}{
		{event.Span{Start: beginning}, 0, all - 1},
		{event.Span{Start: event.Start{Time: at}}, middle, all - 1},
		{event.Span{Start: beginning, Until: at}, 0, middle - 1},
		{event.Span{Start: event.Start{Last: 77}}, all - 77, all - 1},
		{event.Span{Start: event.Start{Last: 10}, Until: at}, middle - 10, middle - 1},
		{event.Span{Start: event.Start{Time: time.Now().Add(time.Hour)}}, 0, -1},
		{event.Span{}, 0, -1},
	} {
		var versions []string
		got := r.read(t, c.span)
		for _, e := range got.Events() {
			versions = append(versions, e.Attr("resourceversion"))
		}
		slices.SortFunc(versions, func(a, b string) int { return len(a)*1000 - len(b)*1000 + strings.Compare(a, b) })
		var want []string
		for n := c.first; n <= c.last; n++ {
			want = append(want, fmt.Sprint(n))
		}
		assert.Equal(t, want, versions, "%+v: got %d from %v, want %d to %d", c.span, len(versions),
			versions[:min(3, len(versions))], c.first, c.last)
	}
}

func TestTail_follows_across_restarts_and_says_what_changed(t *testing.T) {
	c := shared.ForTest(t)
	r := newTopic(t, c, 4, nil)
	s, _ := r.sink(t, r.topic, nil)
	publish(t, s, change(r.topic, event.Added, "web", 1, 1), change(r.topic, event.Added, "db", 2, 1))
	got := r.follow(t, event.Start{}, kafkalog.Config{})
	publish(t, s, change(r.topic, event.Updated, "web", 3, 3))
	want := []string{"updated web@3 spec.replicas 1→3"}
	got.expect(t, want...)
	for i := range 2 {
		if i == 0 {
			require.NoError(t, c.Kill(0))
		} else {
			require.NoError(t, c.Stop(t.Context(), 0))
		}
		rig.Poll(t, "a notice", func() (bool, string) {
			return strings.Count(got.Said(), "no connection to") == i+1, got.Said()
		})
		require.NoError(t, c.Restart(t.Context(), 0))
		publish(t, s, change(r.topic, event.Updated, "web", 4+i, 4+i))
		want = append(want, fmt.Sprintf("updated web@%d spec.replicas %d→%d", 4+i, 3+i, 4+i))
		got.expect(t, want...)
		rig.Poll(t, "a notice", func() (bool, string) {
			return strings.Count(got.Said(), " again") == 2*(i+1), got.Said()
		})
	}
	brokers := strings.Join(r.AddressesOf(plain), ",")
	again := "\nno connection to " + brokers + ", trying again until there is one\nreading topic " + r.topic + " at " +
		brokers + " again"
	assert.Equal(t, "reading topic "+r.topic+" at "+brokers+" from now on; ^C ends it"+again+again,
		got.Said())
}

func TestTail_reads_topics_that_come_later(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	r := newTopic(t, c, 1, nil)
	pods, nodes := r.topic+".pods", r.topic+".nodes"
	got := r.tail(t, tail.Config{Span: event.Span{Follow: true}}, kafkalog.Config{Topic: r.topic + ".{resource}"})
	got.awaitNotice(t, "there is no topic that fits")
	for i, topic := range []string{pods, nodes} {
		require.NoError(t, c.CreateTopic(t.Context(), topic, 2, 0, nil))
		s, stop := r.sink(t, topic, nil)
		publish(t, s, change(topic, event.Added, "a", i, 1), change(topic, event.Added, "b", i, 1))
		stop()
		rig.Poll(t, "the events", func() (bool, string) {
			return strings.Count(got.Text(), "added") == 2*(i+1), got.Text()
		})
	}
	assert.True(t, strings.HasSuffix(got.Said(), "\nreading topic "+nodes+" too, which is new"),
		"it said %s", got.Said())
}

func TestTail_goes_on_with_a_topic_that_was_made_anew_and_says_what_was_removed(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	r := newTopic(t, c, 1, nil)
	s, stop := r.sink(t, r.topic, nil)
	for n := range 5 {
		publish(t, s, change(r.topic, event.Added, "web", n, 1))
	}
	stop()
	got := r.follow(t, event.Start{}, kafkalog.Config{})
	r.DeleteTopic(t, r.topic)
	got.awaitNotice(t, "there is no topic")
	require.NoError(t, c.CreateTopic(t.Context(), r.topic, 1, 0, nil))
	s, stop = r.sink(t, r.topic, nil)
	publish(t, s, change(r.topic, event.Added, "new", 1, 1))
	got.expect(t, "added new@1 created by "+`50% "of" ä`)
	assert.Contains(t, got.Said(),
		fmt.Sprintf("topic %q was replaced by a new one, reading it from its beginning", r.topic))
	for n := range 5 {
		publish(t, s, change(r.topic, event.Added, "web", n, 1))
	}
	stop()
	// The log begins at 4 now, while no reader is connected.
	file := filepath.Join(t.TempDir(), "offsets.json")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil,
		`{"version":1,"partitions":[{"topic":%q,"partition":0,"offset":4}]}`, r.topic), 0o600))
	_, err := r.Tool(t.Context(), "org.apache.kafka.tools.DeleteRecordsCommand", "--bootstrap-server", r.Bootstrap(),
		"--offset-json-file", file)
	require.NoError(t, err)
	if all := r.read(t, event.Span{Start: beginning}); all.Events()[0].Sequence != 5 || all.Events()[0].Place != "0/4" {
		t.Errorf("it begins with %d, %s", all.Events()[0].Sequence, all.Events()[0].Place)
	}
}

// Of a compacted topic what is left is read, to its end, and found by time where offsets are missing.
func TestTail_reads_a_compacted_topic(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 1, map[string]string{
		"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "100",
		"delete.retention.ms": "0",
	})
	const rounds, keys = 5, 50
	var since time.Time
	for round := range rounds {
		if round == rounds-1 {
			since = time.Now()
		}
		s, stop := r.sink(t, r.topic, func(c *kafka.Config) { c.Pipeline = fmt.Sprint(r.topic, round) })
		for n := range 20 * keys {
			publish(t, s, change(r.topic, event.Updated, fmt.Sprint("web-", n%keys), round*1000+n, n))
		}
		stop()
		require.NoError(t, pause.For(t.Context(), 150*time.Millisecond)) // the next one begins a segment
	}
	rig.Poll(t, "the topic to be compacted", func() (bool, string) {
		left := len(r.read(t, event.Span{Start: beginning}).Events())
		return left < rounds*keys*15, fmt.Sprintf("%d events are left", left)
	})
	for _, start := range []event.Start{beginning, {Time: since}, {Last: keys}} {
		newest := map[string]string{}
		for _, e := range r.read(t, event.Span{Start: start}).Events() {
			newest[e.Attr("name")] = e.Attr("resourceversion")
		}
		for n := range keys {
			got, want := newest[fmt.Sprint("web-", n)], fmt.Sprint((rounds-1)*1000+19*keys+n)
			assert.Equal(t, want, got, "%+v: web-%d", start, n)
		}
	}
}

// Another attempt would be told the same: whoever follows is told at once, not left waiting.
func TestTail_that_follows_ends_where_its_configuration_is_proved_wrong(t *testing.T) {
	t.Parallel()
	c := shared.ForTest(t)
	r := newTopic(t, c, 1, nil)
	following := tail.Config{Span: event.Span{Follow: true}}
	for name, m := range map[string]struct {
		listener string
		cfg      kafkalog.Config
		want     string
	}{
		"plaintext to TLS": {guarded, kafkalog.Config{}, "expects TLS on this port, and none is configured"},
		"SASL to none": {
			plain,
			kafkalog.Config{Auth: scram("wonderland")},
			"SASL is configured, and the broker has none on this port",
		},
		"wrong password": {
			guarded,
			kafkalog.Config{TLS: kafka.TLS{CAFile: c.CAFile()}, Auth: scram("wrong")},
			"the broker refuses the credentials",
		},
		"unknown CA": {
			guarded,
			kafkalog.Config{TLS: kafka.TLS{Enabled: true}, Auth: scram("wonderland")},
			"the broker's certificate is signed by an unknown CA",
		},
		"a name that it hasn't": {guarded, kafkalog.Config{
			TLS:  kafka.TLS{CAFile: c.CAFile(), ServerName: "other.test"},
			Auth: scram("wonderland"),
		}, "the broker's certificate is for another name"},
	} {
		t.Run(name, func(t *testing.T) {
			m.cfg.Brokers = c.AddressesOf(m.listener)
			s := r.tail(t, following, m.cfg)
			s.endsSaying(t, m.want)
		})
	}
}

func TestClient_finds_the_first_record_of_a_time(t *testing.T) {
	t.Parallel()
	r := newTopic(t, shared.ForTest(t), 2, nil)
	s, _ := r.sink(t, r.topic, nil)
	for n := range 200 {
		publish(t, s, change(r.topic, event.Updated, fmt.Sprint("web-", n%20), n, n))
	}
	client := must.Get(internal.NewClient(internal.Config{Brokers: r.AddressesOf(plain)}))(t)
	defer client.Close()
	since := func(p int32, at time.Time) int64 {
		return must.Get(client.Since(t.Context(), r.topic, p, at))(t)
	}
	for p := range int32(2) {
		firsts, last := map[int64]int64{}, time.Time{}
		_, _, err := client.Fetch(t.Context(), r.topic, p, 0, func(rec *internal.Record) error {
			if _, known := firsts[rec.Time.UnixMilli()]; !known {
				firsts[rec.Time.UnixMilli()] = rec.Offset
			}
			last = rec.Time
			return nil
		})
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(firsts), 10, "partition %d has records of %d times", p, len(firsts))
		for at, want := range firsts {
			assert.Equal(t, want, since(p, time.UnixMilli(at)), "partition %d since %d", p, at)
		}
		for at, want := range map[time.Time]int64{
			{}: 0, time.Unix(0, 0).Add(-time.Millisecond): 0,
			last.Add(time.Millisecond): -1,
		} {
			assert.Equal(t, want, since(p, at), "partition %d since %v", p, at)
		}
	}
}
