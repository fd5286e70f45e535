// SPDX-License-Identifier: Apache-2.0

package sinktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func testArrives(t *testing.T, h *Harness) {
	start(t, h)
	const n = 200
	want := map[string]*sink.Message{}
	results := make(chan result, n)
	for i := range n {
		key := fmt.Sprintf("key-%d", i)
		var more []sink.Attribute
		if i%2 == 0 {
			more = []sink.Attribute{{Name: "namespace", Value: "default"}, {Name: "sampledrate", Value: "3"}}
		}
		m := h.message(key, i, more...)
		m.Data = fmt.Appendf(nil, `{"pad":"%s"}`, bytes.Repeat([]byte("x"), i*20))
		want[m.ID] = m
		h.Sink.Publish(t.Context(), m, func(rc sink.Receipt, err error) { results <- result{rc, err} })
	}
	places := map[string]bool{}
	for range n {
		r := <-results
		if r.err != nil {
			t.Fatal(r.err)
		}
		if r.receipt.Duplicate {
			t.Error("a new message is said to be a duplicate")
		}
		places[fmt.Sprint(r.receipt.Partition, r.receipt.Sequence)] = true
	}
	if len(places) != n {
		t.Errorf("%d messages are in %d places", n, len(places))
	}
	log := h.Log(t)
	if len(log) != n {
		t.Errorf("the log has %d messages, want %d", len(log), n)
	}
	for _, st := range log {
		m, ok := want[st.ID]
		if !ok {
			t.Fatalf("the log has %s twice, or it was not published", st.ID)
		}
		delete(want, st.ID)
		h.compare(t, st, m)
	}
}

func testHostile(t *testing.T, h *Harness) {
	start(t, h)
	values := []string{
		"a b", ` lead and trail `, `"quoted"`, "100%", "%41", "%", "äöü €", "日本", "\U0001F600", "/:+,;=?&#", "\x01", "\ttab",
		"line\r\nfeed", `back\slash`,
		"~}!", "\x7f",
	}
	var want []*sink.Message
	for i, v := range values {
		m := h.message("key", i, sink.Attribute{Name: "subject", Value: v}, sink.Attribute{Name: "name", Value: "plain"})
		m.Data = fmt.Appendf(nil, `{"v":"%d \u0000 é \" \\ 日本"}`, i)
		want = append(want, m)
		mustPublish(t, h.Sink, m)
	}
	log := h.Log(t)
	if len(log) != len(want) {
		t.Fatalf("the log has %d messages, want %d", len(log), len(want))
	}
	for i, st := range log {
		h.compare(t, st, want[i])
	}
}

func testStructured(t *testing.T, h *Harness) {
	start(t, h)
	m := h.message("key", 1)
	m.Attributes = nil
	m.ContentType = "application/cloudevents+json"
	m.Data = []byte(`{"specversion":"1.0","id":"key.1","source":"/x","type":"t","data":{"a":1}}`)
	mustPublish(t, h.Sink, m)
	binary := h.message("key", 2)
	mustPublish(t, h.Sink, binary)
	log := h.Log(t)
	if len(log) != 2 {
		t.Fatalf("the log has %d messages", len(log))
	}
	h.compare(t, log[0], m)
	h.compare(t, log[1], binary)
}

func testDoneOnce(t *testing.T, h *Harness) {
	stop := start(t, h)
	const publishers, each = 8, 400
	var calls [publishers * each]atomic.Int32
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				n := p*each + i
				h.Sink.Publish(t.Context(), h.message(fmt.Sprintf("key-%d", n), n), func(sink.Receipt, error) { calls[n].Add(1) })
				if n == publishers*each/2 {
					go stop()
				}
			}
		})
	}
	wg.Wait()
	stop()
	once := func() error {
		for n := range calls {
			if c := calls[n].Load(); c != 1 {
				return fmt.Errorf("done of message %d was called %d times", n, c)
			}
		}
		return nil
	}
	if err := once(); err != nil {
		t.Error(err)
	}
}

func testImpatient(t *testing.T, h *Harness) {
	start(t, h)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	// With a context that has ended a message may still be taken over, but it must not be waited for: many fill any
	// window.
	const n = 5000
	results := make(chan error, n)
	for i := range n {
		h.Sink.Publish(ctx, h.message(fmt.Sprintf("key-%d", i), i), func(_ sink.Receipt, err error) { results <- err })
	}
	for range n {
		if err := <-results; err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
}

func testNotRunning(t *testing.T, h *Harness) {
	if err := h.Sink.Ready(); err == nil {
		t.Error("ready before Run")
	}
	before := publish(t, h.Sink, h.message("key", 1))
	stop := start(t, h)
	mustPublish(t, h.Sink, h.message("key", 2))
	log := h.Log(t)
	stop()
	after := publish(t, h.Sink, h.message("key", 3))
	for _, r := range []result{before, after} {
		if r.err == nil || sink.IsPermanent(r.err) {
			t.Errorf("without Run: %v", r.err)
		}
	}
	if len(log) != 1 {
		t.Errorf("the log has %d messages", len(log))
	}
}

func testDuplicate(t *testing.T, h *Harness) {
	if !h.Remembers {
		t.Skip("NOT APPLICABLE: this sink has no memory for ids")
	}
	start(t, h)
	first := mustPublish(t, h.Sink, h.message("key", 1))
	mustPublish(t, h.Sink, h.message("other", 1))
	again := mustPublish(t, h.Sink, h.message("key", 1))
	if first.Duplicate || !again.Duplicate || first.Sequence != again.Sequence || first.Sequence == 0 {
		t.Errorf("first %+v, again %+v", first, again)
	}
	if n := len(h.Log(t)); n != 2 {
		t.Errorf("the log has %d messages, want 2", n)
	}
}

// testOvertaken publishes a message again when another one of its key stands behind it. An acknowledgement says that
// the message is the key's last. A broker that recognises the id does not store it again, so that this is a conflict.
// Any other broker stores it again: Kafka's recognises only the batch that its producer sent last, never an id.
func testOvertaken(t *testing.T, h *Harness) {
	if h.Remembers && h.Shared {
		t.Skip("NOT APPLICABLE: keys share a subject, so that the broker does not know which message is the last of one")
	}
	start(t, h)
	first := mustPublish(t, h.Sink, h.message("key", 1))
	second := h.message("key", 2)
	last := mustPublish(t, h.Sink, second)
	mustPublish(t, h.Sink, h.message("other", 1))
	for _, verify := range []bool{false, true} {
		again := h.message("key", 1)
		again.Verify, again.Previous = verify, last.Sequence
		r := publish(t, h.Sink, again)
		var c *sink.ConflictError
		switch {
		case !h.Remembers:
			h.endsWith(t, again, r)
			return
		case !errors.As(r.err, &c) || c.Last == nil:
			t.Fatalf("verify %v: published again, and another one is the last: %+v", verify, r)
		case c.Last.Sequence != last.Sequence || c.Duplicate != first.Sequence:
			t.Errorf("verify %v: conflict of %d with %d, want of %d with %d",
				verify, c.Duplicate, c.Last.Sequence, first.Sequence, last.Sequence)
		}
		h.compare(t, *c.Last, second)
	}
	if n := len(h.Log(t)); n != 3 {
		t.Errorf("the log has %d messages, want 3", n)
	}
}

// endsWith checks that m, which was published again, was stored again as the last of its key.
func (h *Harness) endsWith(t *testing.T, m *sink.Message, r result) {
	t.Helper()
	if r.err != nil || r.receipt.Duplicate {
		t.Fatalf("published again: %+v", r)
	}
	var ids []string
	for _, st := range h.Log(t) {
		if id, _, _ := strings.Cut(st.ID, "."); id == m.Key {
			ids = append(ids, st.ID)
		}
	}
	if want := []string{"key.1", "key.2", "key.1"}; !slices.Equal(ids, want) {
		t.Errorf("the log has %v of the key, want %v", ids, want)
	}
}

// testMarkedAgain publishes a marker again. Markers of several streams may have one subject, so that the id is enough.
func testMarkedAgain(t *testing.T, h *Harness) {
	if !h.Remembers {
		t.Skip("NOT APPLICABLE: this sink has no memory for ids")
	}
	start(t, h)
	publishMarker := func(n int) sink.Receipt {
		t.Helper()
		m := h.message("marker", n)
		m.Everywhere = true
		return mustPublish(t, h.Sink, m)
	}
	first := publishMarker(1)
	publishMarker(2)
	if again := publishMarker(1); !again.Duplicate || again.Sequence != first.Sequence {
		t.Errorf("first %+v, again %+v", first, again)
	}
}

func testConflict(t *testing.T, h *Harness) {
	if !h.Verifies {
		t.Skip("NOT APPLICABLE: this sink cannot check the last message of a key")
	}
	start(t, h)
	first := h.message("key", 1, sink.Attribute{Name: "subject", Value: "50% of a b"})
	first.Verify = true
	rc := mustPublish(t, h.Sink, first)
	conflict := func(previous uint64, n int) *sink.ConflictError {
		t.Helper()
		m := h.message("key", n)
		m.Verify, m.Previous = true, previous
		r := publish(t, h.Sink, m)
		var c *sink.ConflictError
		if !errors.As(r.err, &c) {
			t.Fatalf("previous %d: %+v", previous, r)
		}
		return c
	}
	for _, previous := range []uint64{0, rc.Sequence + 7} {
		c := conflict(previous, 2)
		if c.Last == nil || c.Last.Sequence != rc.Sequence || c.Last.Time.IsZero() {
			t.Fatalf("conflict with %+v", c.Last)
		}
		h.compare(t, *c.Last, first)
	}
	m := h.message("new", 1)
	m.Verify, m.Previous = true, rc.Sequence
	var c *sink.ConflictError
	if r := publish(t, h.Sink, m); !errors.As(r.err, &c) || c.Last != nil {
		t.Errorf("a key without messages: %+v", r)
	}
	next := h.message("key", 2)
	next.Verify, next.Previous = true, rc.Sequence
	mustPublish(t, h.Sink, next)
	shared := h.message("key", 3)
	shared.Verify, shared.Shared = true, true
	mustPublish(t, h.Sink, shared)
}

func testOwn(t *testing.T, h *Harness) {
	if !h.Verifies {
		t.Skip("NOT APPLICABLE: this sink cannot check the last message of a key")
	}
	start(t, h)
	rc := mustPublish(t, h.Sink, h.message("key", 1))
	again := h.message("key", 1)
	again.Verify = true
	if got := mustPublish(t, h.Sink, again); got.Sequence != rc.Sequence || !got.Duplicate {
		t.Errorf("published at %+v, again %+v", rc, got)
	}
}

func testTooLarge(t *testing.T, h *Harness) {
	if h.Limit == 0 {
		t.Skip("NOT APPLICABLE: this sink takes messages of any size")
	}
	start(t, h)
	m := h.message("key", 1)
	m.Data = []byte(`{"a":"`)
	for r := rand.New(rand.NewPCG(1, 2)); len(m.Data) < h.Limit; { // nothing that could be compressed
		m.Data = fmt.Appendf(m.Data, "%x", r.Uint64())
	}
	m.Data = append(m.Data, `"}`...)
	if r := publish(t, h.Sink, m); !sink.IsPermanent(r.err) {
		t.Errorf("%d bytes: %v", len(m.Data), r.err)
	}
	mustPublish(t, h.Sink, h.message("key", 2))
	if n := len(h.Log(t)); n != 1 {
		t.Errorf("the log has %d messages, want 1", n)
	}
}

func testAway(t *testing.T, h *Harness) {
	if h.Stop == nil {
		t.Skip("NOT APPLICABLE: this sink has no broker that could be away")
	}
	start(t, h)
	mustPublish(t, h.Sink, h.message("key", 1))
	h.Stop(t)
	answer := send(t, h.Sink, h.message("key", 2))
	if !h.Insists {
		r := answer()
		var conflict *sink.ConflictError
		if r.err == nil || sink.IsPermanent(r.err) || errors.As(r.err, &conflict) {
			t.Errorf("without a broker: %v", r.err)
		}
	}
	must.Succeed(t, "the sink knows that the broker is away", func() error {
		if h.Sink.Ready() == nil {
			return errors.New("ready")
		}
		return nil
	})
	h.Start(t)
	must.Succeed(t, "the sink is ready again", h.Sink.Ready)
	if !h.Insists {
		mustPublish(t, h.Sink, h.message("key", 2))
	} else if r := answer(); r.err != nil {
		t.Errorf("when the broker is back: %v", r.err)
	}
	if n := len(h.Log(t)); n != 2 {
		t.Errorf("the log has %d messages, want 2", n)
	}
}
