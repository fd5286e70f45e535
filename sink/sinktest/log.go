// SPDX-License-Identifier: Apache-2.0

package sinktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// log returns the sink as a log.
func (h *Harness) log(t *testing.T) sink.Log {
	t.Helper()
	l, ok := h.Sink.(sink.Log)
	if !ok {
		t.Skip("NOT APPLICABLE: this sink's messages cannot be read back")
	}
	return l
}

// collect reads what q asks for. Nothing may take longer than anything may.
func (h *Harness) collect(t *testing.T, q sink.Query) (all []sink.Stored) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := h.log(t).Read(ctx, q, func(st *sink.Stored) error {
		if !h.own(st) {
			all = append(all, *st)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	inOrder(t, all)
	return all
}

// inOrder checks that each partition's messages come in their order, each once.
func inOrder(t *testing.T, all []sink.Stored) {
	t.Helper()
	last := map[int32]uint64{}
	for _, st := range all {
		if st.Sequence <= last[st.Partition] {
			t.Errorf("%s at %d/%d comes after %d", st.ID, st.Partition, st.Sequence, last[st.Partition])
		}
		last[st.Partition] = st.Sequence
	}
}

// identity returns the log's ID.
func (h *Harness) identity(t *testing.T) string { return h.expect(t, nil).ID }

func (h *Harness) bounds(t *testing.T) map[int32]sink.Bounds { return h.expect(t, nil).Partitions }

// expect returns the bounds of a log that is expected to have something.
func (h *Harness) expect(t *testing.T, expected map[int32]uint64) sink.LogBounds {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b, err := h.log(t).Bounds(ctx, expected)
	if err != nil {
		t.Fatalf("bounds: %v", err)
	}
	return b
}

// at returns what is at a place of the log.
func (h *Harness) at(t *testing.T, partition int32, sequence uint64) *sink.Stored {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	st, err := h.log(t).At(ctx, partition, sequence)
	if err != nil {
		t.Fatalf("at %d/%d: %v", partition, sequence, err)
	}
	if st != nil && h.own(st) {
		return nil
	}
	return st
}

// fill publishes n messages of seven keys, and returns where each is.
func (h *Harness) fill(t *testing.T, n int) (published []*sink.Message, places []sink.Receipt) {
	t.Helper()
	return h.fillKeys(t, n, 7)
}

func (h *Harness) fillKeys(t *testing.T, n, keys int) (published []*sink.Message, places []sink.Receipt) {
	t.Helper()
	for i := range n {
		m := h.message(fmt.Sprintf("key-%d", i%keys), i, sink.Attribute{Name: "subject", Value: `50% of "a b" €`})
		published = append(published, m)
		places = append(places, mustPublish(t, h.Sink, m))
	}
	return published, places
}

// ends returns the last sequence of each partition.
func ends(places []sink.Receipt) map[int32]uint64 {
	last := map[int32]uint64{}
	for _, p := range places {
		last[p.Partition] = max(last[p.Partition], p.Sequence)
	}
	return last
}

func testEmptyLog(t *testing.T, h *Harness) {
	h.log(t)
	start(t, h)
	b := h.bounds(t)
	if len(b) == 0 {
		t.Error("no partitions")
	}
	for partition, has := range b {
		if has.First != has.Last+1 && h.Own == nil {
			t.Errorf("partition %d is empty, and has the bounds %+v", partition, has)
		}
	}
	for _, q := range []sink.Query{{}, {LastOfKey: true, Data: true}, {After: map[int32]uint64{0: 17}}} {
		if all := h.collect(t, q); len(all) != 0 {
			t.Errorf("%+v: %d messages", q, len(all))
		}
	}
}

func testReadBack(t *testing.T, h *Harness) {
	h.log(t)
	start(t, h)
	before := h.bounds(t)
	published, places := h.fill(t, 100)
	h.have(t, h.collect(t, sink.Query{Data: true}), published, places)
	for partition, last := range ends(places) {
		if b := h.bounds(t)[partition]; b.Last < last || b.First != before[partition].First {
			t.Errorf("partition %d has the bounds %+v, and %d was acknowledged; before it were %+v", partition, b, last,
				before[partition])
		}
	}
	middle := ends(places[:60])
	var later []*sink.Message
	var there []sink.Receipt
	for i, p := range places {
		if p.Sequence > middle[p.Partition] {
			later, there = append(later, published[i]), append(there, p)
		}
	}
	h.have(t, h.collect(t, sink.Query{After: middle, Data: true}), later, there)
	if all := h.collect(t, sink.Query{After: ends(places)}); len(all) != 0 {
		t.Errorf("%d messages after the end", len(all))
	}
}

// have checks that what was read is what was published.
func (h *Harness) have(t *testing.T, all []sink.Stored, published []*sink.Message, places []sink.Receipt) {
	t.Helper()
	if len(all) != len(published) {
		t.Fatalf("%d messages, want %d", len(all), len(published))
	}
	for _, st := range all {
		i := slices.IndexFunc(published, func(m *sink.Message) bool { return m.ID == st.ID })
		if i < 0 {
			t.Fatalf("%s was not published", st.ID)
		}
		h.compare(t, st, published[i])
		if p := places[i]; st.Sequence != p.Sequence || st.Partition != p.Partition {
			t.Errorf("%s is at %d/%d, and was acknowledged at %+v", st.ID, st.Partition, st.Sequence, p)
		}
		if age := time.Since(st.Time); age < -time.Minute || age > time.Hour {
			t.Errorf("%s is %v old", st.ID, age)
		}
	}
}

func testLastOfKey(t *testing.T, h *Harness) {
	h.log(t)
	start(t, h)
	published, places := h.fill(t, 100)
	want := map[string]string{}
	for _, m := range published {
		want[m.Key] = m.ID
	}
	for name, q := range map[string]sink.Query{
		"all":           {LastOfKey: true},
		"with data":     {LastOfKey: true, Data: true},
		"after a while": {LastOfKey: true, After: ends(places[:50])},
	} {
		got, all := map[string]string{}, h.collect(t, q)
		if h.expect(t, nil).Indexed && len(all) != len(want) {
			t.Errorf("%s: %d messages of %d keys", name, len(all), len(want))
		}
		for _, st := range all {
			got[value(st, "partitionkey")] = st.ID
			if q.Data && len(st.Data) == 0 {
				t.Errorf("%s: %s without data", name, st.ID)
			}
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
	if all := h.collect(t, sink.Query{LastOfKey: true, After: ends(places)}); len(all) != 0 {
		t.Errorf("%d messages after the end", len(all))
	}
}

func value(st sink.Stored, name string) string {
	for _, a := range st.Attributes {
		if a.Name == name {
			return a.Value
		}
	}
	return ""
}

func testHeaders(t *testing.T, h *Harness) {
	h.log(t)
	start(t, h)
	var want []*sink.Message
	for i := range 30 {
		m := h.message(fmt.Sprintf("key-%d", i), i)
		if i > 10 && i%3 == 0 {
			m.Attributes, m.ContentType = nil, "application/cloudevents+json"
			m.Data = fmt.Appendf(nil, `{"specversion":"1.0","id":%q,"source":"/x","type":"t"}`, m.ID)
		}
		want = append(want, m)
		mustPublish(t, h.Sink, m)
	}
	for _, lastOfKey := range []bool{false, true} {
		all := h.collect(t, sink.Query{LastOfKey: lastOfKey})
		if len(all) != len(want) {
			t.Errorf("%d messages, want %d", len(all), len(want))
		}
		for _, st := range all {
			i := slices.IndexFunc(want, func(m *sink.Message) bool { return m.ID == st.ID })
			if len(want[i].Attributes) > 0 && len(st.Data) == 0 {
				st.Data = want[i].Data
			}
			h.compare(t, st, want[i])
		}
	}
}

func testReadEnds(t *testing.T, h *Harness) {
	l := h.log(t)
	stop := start(t, h)
	h.fill(t, 30)
	enough, calls := errors.New("enough"), 0
	if err := l.Read(t.Context(), sink.Query{}, func(*sink.Stored) error {
		if calls++; calls == 5 {
			return enough
		}
		return nil
	}); !errors.Is(err, enough) || calls != 5 {
		t.Errorf("%d calls, then %v", calls, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := l.Read(ctx, sink.Query{}, func(*sink.Stored) error { cancel(); return nil })
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("its context ended: %v", err)
	}
	if err := l.Read(ctx, sink.Query{}, func(*sink.Stored) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("its context had ended: %v", err)
	}
	if h.Stop != nil {
		h.Stop(t)
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		if _, err := l.Bounds(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("bounds without a broker: %v", err)
		}
		if _, err := l.At(ctx, 0, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("at without a broker: %v", err)
		}
		if err := l.Read(ctx, sink.Query{}, func(*sink.Stored) error { return nil }); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("read without a broker: %v", err)
		}
		h.Start(t)
		if all := h.collect(t, sink.Query{}); len(all) != 30 {
			t.Errorf("%d messages after it came back", len(all))
		}
	}
	stop()
}

func testReadCuts(t *testing.T, h *Harness) {
	h.log(t)
	if h.Cut == nil {
		t.Skip("NOT APPLICABLE: this sink has no connections")
	}
	start(t, h)
	const keys = 100
	published, _ := h.fillKeys(t, 2*keys, keys)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, lastOfKey := range []bool{false, true} {
		for _, data := range []bool{false, true} {
			var all []sink.Stored
			last, cuts := map[string]string{}, 0
			err := h.log(t).Read(ctx, sink.Query{LastOfKey: lastOfKey, Data: data}, func(st *sink.Stored) error {
				if h.own(st) {
					return nil
				}
				all = append(all, *st)
				last[value(*st, "partitionkey")] = st.ID
				if len(all)%3 == 0 && cuts < 5 {
					cuts++
					h.Cut()
				}
				return nil
			})
			inOrder(t, all)
			if err != nil || !lastOfKey && len(all) != len(published) || len(last) != keys || cuts < 2 {
				t.Errorf("%d messages of %d keys, %d cuts (%v)", len(all), len(last), cuts, err)
			}
			for _, m := range published[keys:] {
				if last[m.Key] != m.ID {
					t.Errorf("the last of %s is %s, want %s", m.Key, last[m.Key], m.ID)
				}
			}
		}
	}
}

// testReadBusy reads while one key after the other gets a newer message: no key may be passed over because its message
// has just been replaced.
func testReadBusy(t *testing.T, h *Harness) {
	h.log(t)
	start(t, h)
	h.fill(t, 70)
	for _, lastOfKey := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := 1000; ctx.Err() == nil; i++ {
				answer := make(chan struct{})
				h.Sink.Publish(t.Context(), h.message(fmt.Sprintf("key-%d", i%7), i), func(sink.Receipt, error) { close(answer) })
				<-answer
			}
		}()
		for range 10 {
			keys := map[string]bool{}
			for _, st := range h.collect(t, sink.Query{LastOfKey: lastOfKey}) {
				keys[value(st, "partitionkey")] = true
			}
			if len(keys) != 7 {
				t.Errorf("%d keys, want 7", len(keys))
			}
		}
		cancel()
		<-ended
	}
}
