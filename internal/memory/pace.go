// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

const (
	// leastGarbage is how much garbage there may be at least before it is collected, if that is less than is in use.
	leastGarbage = 64 << 20
	// paceEvery is between two looks at the heap.
	paceEvery = time.Second
)

// Pace has the garbage collector begin earlier where much of the heap has no pointers, as the rows of replicas. The
// collector passes over these, so that a collection costs as much as without them. By default there may be as much
// garbage as is in use, rows and the stacks of goroutines included: those of thousands of streams are as large as their
// heap. It returns when ctx ends, and at once where the environment says when the collector begins.
func Pace(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	used := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}, {Name: "/gc/scan/stack:bytes"},
	}
	for now := 100; pause.For(ctx, paceEvery) == nil; {
		metrics.Read(used)
		if next := percent(used[0].Value.Uint64(), used[1].Value.Uint64(), used[2].Value.Uint64()); next != now {
			debug.SetGCPercent(next)
			now = next
		}
	}
}

// percent returns how much garbage there may be, in percent of what is in use. Scanned is how much of the live heap the
// collector has to look at. Setting it stops the program for a moment, so it has few values.
func percent(live, scanned, stacks uint64) int {
	garbage, used := max(scanned, leastGarbage), live+stacks
	if garbage >= used {
		return 100
	}
	return int(10*garbage/used+1) * 10 //nolint:gosec // 10 to 100
}
