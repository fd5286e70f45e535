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
	// burst is how many collections of garbage between two looks show that there may be something to give back.
	burst = 2
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
	// looked is how often garbage had been collected at the last look.
	looked uint64
	// gives: memory is given back at the next rest.
	gives bool
}

// rests reports whether the process rests after a burst.
func (w *work) rests(cycles uint64) bool {
	lately := cycles - w.looked
	w.looked, w.gives = cycles, w.gives || lately >= burst
	if lately > 0 || !w.gives {
		return false
	}
	w.gives = false
	return true
}
