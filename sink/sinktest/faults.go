// SPDX-License-Identifier: Apache-2.0

package sinktest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

const (
	cutEvery   = 60 * time.Millisecond
	cutsWanted = 25
	keys       = 40
)

func testCuts(t *testing.T, h *Harness) {
	if h.Cut == nil {
		t.Skip("NOT APPLICABLE: this sink has no connections")
	}
	testOrder(t, h, cutEvery, cutsWanted, 3000, func() { h.Cut() })
}

func testRestarts(t *testing.T, h *Harness) {
	if h.Stop == nil {
		t.Skip("NOT APPLICABLE: this sink has no broker")
	}
	testOrder(t, h, 200*time.Millisecond, 4, 1000, func() { h.Stop(t); h.Start(t) })
}

// testOrder publishes in a chain per key, each message after the answer to the one before, while faults happen; then it
// looks for what is lost, doubled or out of order.
func testOrder(t *testing.T, h *Harness, every time.Duration, faults, least int, fault func()) {
	stop := start(t, h)
	var retries atomic.Int64
	r := sink.Retry(h.Sink, sink.Policy{
		Initial: 5 * time.Millisecond, Max: 100 * time.Millisecond, OnRetry: func(*sink.Message, error) { retries.Add(1) },
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var background, chains sync.WaitGroup
	defer background.Wait()
	defer cancel()
	background.Go(func() { _ = r.Run(ctx) })
	var enough atomic.Bool
	background.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for n := 0; ctx.Err() == nil && n < faults; n++ {
			<-tick.C
			fault()
		}
		enough.Store(true)
	})
	var published atomic.Int64
	var counts [keys]int
	for k := range keys {
		chains.Go(func() {
			counts[k] = h.chain(t, r, k, &published, func() bool { return enough.Load() && published.Load() >= int64(least) })
		})
	}
	chains.Wait()
	log := h.Log(t)
	cancel()
	background.Wait()
	stop()
	checkOrder(t, log, counts[:])
	t.Logf("%d messages, %d faults, %d retries", published.Load(), faults, retries.Load())
}

// chain publishes messages of one key one after the other until enough, and returns how many.
func (h *Harness) chain(t *testing.T, p sink.Publisher, k int, published *atomic.Int64, enough func() bool) int {
	var last uint64
	key := fmt.Sprintf("key-%d", k)
	answer := make(chan result, 8)
	for n := 1; ; n++ {
		if enough() {
			return n - 1
		}
		m := h.message(key, n)
		m.Previous = last
		p.Publish(t.Context(), m, func(rc sink.Receipt, err error) { answer <- result{rc, err} })
		select {
		case a := <-answer:
			if a.err != nil {
				t.Errorf("%s: %v", m.ID, a.err)
				return n - 1
			}
			last = a.receipt.Sequence
		case <-time.After(patience):
			t.Errorf("%s: no answer", m.ID)
			return n - 1
		}
		published.Add(1)
	}
}

func checkOrder(t *testing.T, log []sink.Stored, counts []int) {
	t.Helper()
	var lost, doubled, inverted int
	last := map[string]int{}
	for _, st := range log {
		key, number, _ := strings.Cut(st.ID, ".")
		n, err := strconv.Atoi(number)
		if err != nil {
			t.Fatalf("id %q", st.ID)
		}
		switch {
		case n == last[key]:
			doubled++
		case n < last[key]:
			inverted++
		default:
			lost += n - last[key] - 1
			last[key] = n
		}
	}
	for k, n := range counts {
		lost += n - last[fmt.Sprintf("key-%d", k)]
	}
	if lost != 0 || doubled != 0 || inverted != 0 {
		t.Errorf("%d lost, %d doubled, %d out of order, of %d in the log", lost, doubled, inverted, len(log))
	}
}
