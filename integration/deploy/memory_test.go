// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// groups are where control groups are made, version 1 before 2, and their file with the limit of memory.
var groups = []struct{ root, file string }{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}}

// within returns a command that runs in a control group with a limit of memory, as a container's processes do; false, and the command itself, where none can be made.
func within(t *testing.T, limit int64, command []string) ([]string, bool) {
	t.Helper()
	var dir string
	var err error
	for _, g := range groups {
		if dir, err = os.MkdirTemp(g.root, "kube-eventbridge-test-"); err != nil {
			continue
		}
		if err = write(filepath.Join(dir, g.file), limit); err == nil {
			break
		}
		_ = os.Remove(dir)
	}
	if err != nil {
		t.Logf("the bridge runs without a limit: %v", err)
		return command, false
	}
	t.Cleanup(func() { must(t, os.Remove(dir)) })
	return append([]string{"sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, dir}, command...), true
}

// write writes to a file that is there.
func write(path string, n int64) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(f, n)
	return errors.Join(err, f.Close())
}

// heeds checks that the bridge at address tells its garbage collector of a container's limit, and leaves the kernel its part.
func heeds(t *testing.T, address string, limit int64) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	must(t, err)
	res, err := http.DefaultClient.Do(req)
	must(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	for line := range strings.Lines(string(body)) {
		var told float64
		if n, _ := fmt.Sscanf(line, "go_gc_gomemlimit_bytes %g", &told); n == 1 {
			if told < 0.85*float64(limit) || told > 0.95*float64(limit) {
				t.Errorf("the garbage collector goes by %.0f bytes, where the container has %d", told, limit)
			}
			return
		}
	}
	t.Error("there is no metric of the garbage collector's limit")
}
