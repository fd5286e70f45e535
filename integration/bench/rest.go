// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// atRest is one run of d: the live heap of a bridge that has published everything, with objects and without.
func (b *bench) atRest(ctx context.Context, run int) error {
	return try.Run(func(*try.Scope) {
		empty := b.restingHeap(ctx, run, 0)
		for _, objects := range []int{b.objects, 5 * b.objects} {
			full := b.restingHeap(ctx, run, objects)
			b.add(run, row{"at rest", "live heap per object, " + thousands(objects) + " objects", "B"}, colBridge,
				(full-empty)/float64(objects))
		}
		b.add(run, row{"at rest", "live heap without objects", "MiB"}, colBridge, empty/(1<<20))
	})
}

// restingHeap starts a bridge, waits until it has published that many objects, and returns its live heap.
func (b *bench) restingHeap(ctx context.Context, run, objects int) (heap float64) {
	b.progress("run %d: memory at rest, %s objects", run, thousands(objects))
	ctx, cancel := deadline(ctx, 2*time.Minute+time.Duration(objects)*time.Millisecond)
	defer cancel()
	try.Do(try.Run(func(end *try.Scope) {
		r := b.newRig(ctx, end, objects)
		// Reading the metrics makes garbage; with so small a value it makes the bridge collect it soon.
		p := try.Get(b.startBridge(r, "pods", "", []string{"GOGC=5"}))
		end.Finally(p.stop)
		try.Get(r.await(ctx, objects+bridgeMarkers, p))
		try.Do(settle(ctx, p))
		heap = try.Get(r.lowestHeap(ctx))
	}))
	return heap
}

// lowestHeap reads the heap until several collections have run, and returns the smallest value: that of the end of a
// collection.
func (r *rig) lowestHeap(ctx context.Context) (float64, error) {
	const collections = 4 // pools give up their memory in the second
	lowest, before, seen := math.Inf(1), 0.0, 0
	err := poll(ctx, 5*time.Millisecond, func() (bool, error) {
		now, err := r.heap(ctx)
		if now < before {
			seen++
		}
		lowest, before = min(lowest, now), now
		return seen >= collections, err
	})
	if err != nil {
		return 0, fmt.Errorf("wait for garbage collections: %w", err)
	}
	return lowest, nil
}
