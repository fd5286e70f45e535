// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// mappedFiles returns how much of files is in the address space, in KiB.
func mappedFiles(t *testing.T) (kib int) {
	t.Helper()
	status, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skipf("NOT RUN: needs /proc: %v", err)
	}
	defer func() { _ = status.Close() }()
	for lines := bufio.NewScanner(status); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "RssFile:"); ok {
			must.Get(fmt.Sscan(value, &kib))(t)
		}
	}
	return kib
}

// What runs goes on running.
func TestUnmapCode_leaves_less_of_the_program_in_memory(t *testing.T) {
	before := mappedFiles(t)
	unmapCode()
	assert.Less(t, mappedFiles(t), before, "KiB are mapped")
}
