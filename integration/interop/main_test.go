// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// programs is where Go's programs are built for all tests.
var programs string

// inPrograms runs tests with such a directory.
type inPrograms struct{ m *testing.M }

func (r inPrograms) Run() int {
	dir, err := os.MkdirTemp("", "kube-eventbridge-interop")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	defer os.RemoveAll(dir) //nolint:errcheck // what is left in a temporary directory hurts nobody
	return r.m.Run()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(inPrograms{m}) }

var bridgeBinary = sync.OnceValues(func() (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	return build(root, "kube-eventbridge", "./cmd/kube-eventbridge")
})

// build compiles a package of the module in dir.
func build(dir, name, pkg string) (string, error) {
	bin := filepath.Join(programs, name)
	cmd := exec.Command("go", "build", "-o", bin, pkg)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, out)
	}
	return bin, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// poll fails the test when check returns something else than nil for too long.
func poll(t *testing.T, what string, check func() error) {
	t.Helper()
	deadline := time.After(90 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: waited in vain: %v", what, err)
		}
	}
}
