// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

const (
	// restEvery is between two looks at whether the process has come to rest.
	restEvery = 15 * time.Second
	// burst is how many collections of garbage show that there may be something to give back. An idle process has one
	// every two minutes.
	burst = 5
)

// GiveBack gives memory back whenever the process has come to rest after a burst of work, such as its start and the
// first lists: garbage, stacks, and pages of the program. Pages that are needed after all come back from the page
// cache. It returns when ctx ends.
func GiveBack(ctx context.Context) {
	cycles := []metrics.Sample{{Name: "/gc/cycles/automatic:gc-cycles"}}
	for w := (work{gives: true}); pause.For(ctx, restEvery) == nil; {
		metrics.Read(cycles)
		if w.rests(cycles[0].Value.Uint64()) {
			runtime.GC() // each collection halves stacks that are too large
			debug.FreeOSMemory()
			unmapCode()
		}
	}
}

// work is what the garbage collector shows of what the process does.
type work struct {
	// looked and gave are how often garbage had been collected at the last look, and when memory was given back last.
	looked, gave uint64
	// gives: memory is given back at the next rest, whatever was done.
	gives bool
}

// rests reports whether the process rests after a burst.
func (w *work) rests(cycles uint64) bool {
	busy := cycles != w.looked
	w.looked = cycles
	if busy || !w.gives && cycles-w.gave < burst {
		return false
	}
	w.gives, w.gave = false, cycles
	return true
}
