// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

// startedAfter is when what only the start has needed, first lists included, is done with.
const startedAfter = time.Minute

// GiveBack waits until then, and gives back memory that only the start has needed: garbage, and pages of the program
// that are not run again. What is needed after all is mapped again from the page cache. It returns early when ctx ends.
func GiveBack(ctx context.Context) {
	if pause.For(ctx, startedAfter) == nil {
		debug.FreeOSMemory()
		unmapCode()
	}
}

// unmapCode takes the pages of the program's code out of the address space. They are never written, so nothing is lost.
// Where that cannot be done, all stays as it is.
func unmapCode() {
	program, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer func() { _ = maps.Close() }()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		f := strings.Fields(lines.Text())
		if len(f) < 6 || f[1] != "r-xp" || f[5] != program {
			continue
		}
		if _, err := fmt.Sscanf(f[0], "%x-%x", &from, &to); err == nil {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
		}
	}
}
