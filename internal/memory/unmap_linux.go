// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"syscall"
)

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
		if from, to, ok := codeIn(lines.Text(), program); ok {
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, from, to-from, syscall.MADV_DONTNEED)
		}
	}
}

// codeIn returns the addresses that a line of /proc/self/maps is about, if they have code of a program.
func codeIn(line, program string) (from, to uintptr, ok bool) {
	f := strings.Fields(line)
	if len(f) < 6 || f[1] != "r-xp" || f[5] != program {
		return 0, 0, false
	}
	_, err := fmt.Sscanf(f[0], "%x-%x", &from, &to)
	return from, to, err == nil
}
