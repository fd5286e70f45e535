// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// sampleEvery is how often the bridge is measured.
const sampleEvery = 250 * time.Millisecond

// Sample is a measurement of the bridge, in bytes.
type Sample struct{ BufferedBytes, RSS int64 }

// peak measures how much memory the bridge takes.
type peak struct {
	stop    context.CancelFunc
	stopped sync.WaitGroup
	mu      sync.Mutex
	most    Sample
	times   int // that a bridge was measured
}

// newPeak measures until close, although ctx may end before.
func newPeak(ctx context.Context, w *World) *peak {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	p := &peak{stop: stop}
	p.stopped.Go(func() {
		for pause.For(ctx, sampleEvery) == nil {
			for _, b := range w.processes() {
				if b.Running() {
					p.add(b.sample(ctx))
				}
			}
		}
	})
	return p
}

func (b *Bridge) sample(ctx context.Context) (s Sample, whole bool) {
	s.RSS = b.RSS()
	first, second, err := b.metricsOfBoth(ctx)
	if err == nil { // while it starts there are none
		sum, _ := first.Sum("buffered_bytes")
		more, _ := second.Sum("buffered_bytes")
		s.BufferedBytes = int64(sum + more)
	}
	return s, err == nil && s.RSS > 0
}

func (p *peak) add(s Sample, whole bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if whole {
		p.times++
	}
	p.most.RSS = max(p.most.RSS, s.RSS)
	p.most.BufferedBytes = max(p.most.BufferedBytes, s.BufferedBytes)
}

func (p *peak) close() {
	if p != nil {
		p.stop()
		p.stopped.Wait()
	}
}

// Peak is the most that any run of the bridge was seen to take, of each by itself. It is measured four times a second;
// times is how often the bridge has said what it holds.
func (w *World) Peak() (most Sample, times int) {
	w.peak.mu.Lock()
	defer w.peak.mu.Unlock()
	return w.peak.most, w.peak.times
}
