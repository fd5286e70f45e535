// SPDX-License-Identifier: Apache-2.0

package child

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sleeper runs until it is killed, and ends after a SIGTERM if it heeds it. The pipe is closed at its end.
func sleeper(t *testing.T, heeds bool) *Process {
	t.Helper()
	trap := ""
	if !heeds {
		trap = "trap '' TERM; "
	}
	cmd := exec.Command("sh", "-c", trap+"echo ready; exec tail -f /dev/null")
	out := must.Get(cmd.StdoutPipe())(t)
	p := must.Get(Start("sleeper", cmd))(t)
	t.Cleanup(func() { _ = p.Kill() })
	require.NoError(t, must.Err(out.Read(make([]byte, 8))))
	return p
}

func TestProcess_ends_by_Stop_or_else_by_Kill(t *testing.T) {
	heeds, heedless := sleeper(t, true), sleeper(t, false)
	assert.True(t, heeds.Running() && heeds.State() == nil && heeds.PID() != 0,
		"a process that runs: running %v, %v", heeds.Running(), heeds.State())
	assert.NoError(t, heeds.Stop(t.Context()))
	ctx := must.Within(t, 100*time.Millisecond)
	assert.ErrorIs(t, heedless.Stop(ctx), context.DeadlineExceeded, "a process that ignores SIGTERM")
	for _, p := range []*Process{heeds, heedless, nil} {
		assert.NoError(t, errors.Join(p.Kill(), p.Stop(t.Context())), "ended twice")
		if err := p.Signal(os.Interrupt); !errors.Is(err, ErrNotRunning) || p.Running() {
			t.Errorf("a process that has ended: running %v, %v", p.Running(), err)
		}
	}
	assert.Equal(t, "signal: terminated", heeds.State().String(), "ended")
	if _, err := Start("absent", exec.Command("/nonexistent")); err == nil ||
		!strings.HasPrefix(err.Error(), "start absent: ") {
		t.Errorf("a program that does not exist: %v", err)
	}
}

// asParent makes this test's program the parent of a child, whose id it prints.
const asParent = "KUBE_EVENTBRIDGE_TEST_PARENT"

func TestProcess_ends_with_a_killed_parent(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT RUN: needs Linux, which alone ends a child with its parent")
	}
	if os.Getenv(asParent) != "" {
		cmd := exec.Command("tail", "-f", "/dev/null")
		cmd.Stdout = os.Stdout
		p, err := Start("tail", cmd)
		_, _ = fmt.Fprintln(os.Stdout, p.PID(), err)
		select {}
	}
	parent := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	parent.Env = append(os.Environ(), asParent+"=1")
	out := must.Get(parent.StdoutPipe())(t)
	require.NoError(t, parent.Start())
	var pid int
	_, scanned := fmt.Fscan(out, &pid)
	killed := parent.Process.Kill()
	// The child holds the pipe too, so it ends when the child does.
	rest := new(bytes.Buffer)
	ended := make(chan error, 1)
	go func() { _, err := rest.ReadFrom(out); ended <- err }()
	select {
	case err := <-ended:
		assert.NoError(t, errors.Join(scanned, killed, err))
	case <-time.After(time.Minute):
		t.Errorf("process %d outlives its parent", pid)
		_ = out.Close()
	}
	_ = parent.Wait() // it was killed
}

func TestTail_keeps_the_end(t *testing.T) {
	var tail Tail
	for i := range 10_000 {
		_, _ = fmt.Fprintf(&tail, "line %d\n", i)
	}
	if got := tail.Bytes(); len(got) != tailSize || !bytes.HasSuffix(got, []byte("line 9998\nline 9999\n")) {
		t.Errorf("%d bytes are kept, which end with %q", len(got), got[max(0, len(got)-20):])
	}
}
