// SPDX-License-Identifier: Apache-2.0

package sinktest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func testPurged(t *testing.T, h *Harness) {
	if h.Purge == nil {
		t.Skip("NOT APPLICABLE: nothing removes messages of this log")
	}
	stop := start(t, h)
	_, places := h.fill(t, 20)
	h.Purge(t)
	if h.Stop != nil {
		h.Stop(t)
		h.Start(t)
		must.Succeed(t, "the sink is ready again", h.Sink.Ready)
	}
	if _, ok := h.Sink.(sink.Log); ok {
		for partition, last := range ends(places) {
			if b := h.bounds(t)[partition]; b.First != last+1 || b.Last != last {
				t.Errorf("partition %d is empty after %d, and has the bounds %+v", partition, last, b)
			}
		}
		if all := h.collect(t, sink.Query{}); len(all) != 0 {
			t.Errorf("%d messages", len(all))
		}
	}
	for i := range 3 {
		h.insist(t, h.message("key", i))
	}
	if n := len(h.Log(t)); n != 3 {
		t.Errorf("the log has %d messages, want 3", n)
	}
	stop()
}

func testRestored(t *testing.T, h *Harness) {
	if h.Restore == nil {
		t.Skip("NOT APPLICABLE: this sink has no broker whose store could be restored")
	}
	wait := run(t.Context(), t, h)
	h.fill(t, 10)
	h.Save(t)
	must.Succeed(t, "the sink is ready again", h.Sink.Ready)
	for i := range 10 {
		h.insist(t, h.message(fmt.Sprintf("key-%d", i), 100+i))
	}
	publishing := h.keepPublishing(t)
	h.Restore(t)
	rewound := mustRewind(t, wait())
	publishing()
	if n := len(h.Log(t)); n != 10 {
		t.Errorf("the log has %d messages, want only the 10 that came back with it", n)
	}
	if rewound.Acknowledged <= rewound.Last {
		t.Errorf("the error is %+v", rewound)
	}
}

func testDestroyed(t *testing.T, h *Harness) {
	if h.Destroy == nil {
		t.Skip("NOT APPLICABLE: this sink's log cannot be removed")
	}
	wait := run(t.Context(), t, h)
	h.fill(t, 10)
	publishing := h.keepPublishing(t)
	h.Destroy(t)
	rewound := mustRewind(t, wait())
	publishing()
	if rewound.Last != 0 || rewound.Acknowledged == 0 {
		t.Errorf("the error is %+v", rewound)
	}
	if n := len(h.Log(t)); n != 0 {
		t.Errorf("the log has %d messages: nothing may be published before the loss is known", n)
	}
}

// What this run publishes may bring the new log past the end of the old one before anybody looks.
func testRemade(t *testing.T, h *Harness) { h.testRemade(t, 0, 60) }

func testRemadeByOthers(t *testing.T, h *Harness) { h.testRemade(t, 60, 0) }

func (h *Harness) testRemade(t *testing.T, others, own int) {
	t.Helper()
	if h.Remake == nil {
		t.Skip("NOT APPLICABLE: this sink's log cannot be recreated")
	}
	wait := run(t.Context(), t, h)
	_, places := h.fill(t, 20)
	h.Remake(t, others)
	for i := range own {
		if r := publish(t, h.Sink, h.message("key", 100+i)); r.err != nil {
			break // it is known already
		}
	}
	// The sink may look while others still publish, so its error may name any end of the new log.
	rewound := mustRewind(t, wait())
	if acknowledged := slices.Min(slices.Collect(maps.Values(ends(places)))); rewound.Acknowledged < acknowledged {
		t.Errorf("the error is %+v, and %d was acknowledged", rewound, acknowledged)
	}
}

// testNothingPromised destroys a log before it has acknowledged anything to this run.
func testNothingPromised(t *testing.T, h *Harness) {
	if h.Destroy == nil {
		t.Skip("NOT APPLICABLE: this sink's log cannot be removed")
	}
	if h.Own != nil {
		t.Skip("NOT APPLICABLE: this sink writes to its log before anybody publishes")
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	wait := run(ctx, t, h)
	h.Destroy(t)
	must.Succeed(t, "published", func() error { return publish(t, h.Sink, h.message("key", 1)).err })
	cancel()
	if err := wait(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func mustRewind(t *testing.T, err error) *sink.RewoundError {
	t.Helper()
	var rewound *sink.RewoundError
	if !errors.As(err, &rewound) || rewound.Target == "" {
		t.Fatalf("Run: %v, want a RewoundError", err)
	}
	return rewound
}

// keepPublishing publishes, from many goroutines and without a pause, until stop is called. Each message must have its
// answer.
func (h *Harness) keepPublishing(t *testing.T) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for p := range 8 {
		work.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				answer := make(chan struct{})
				h.Sink.Publish(t.Context(), h.message(fmt.Sprintf("late-%d", p), i), func(sink.Receipt, error) { close(answer) })
				<-answer
			}
		})
	}
	return func() { cancel(); work.Wait() }
}
