// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
)

// Bridge is one process of the bridge in a test. Its methods that can fail the test are for the test's own goroutine.
type Bridge struct {
	*child.Process
	// Server is where the process serves HTTP, host and port; empty if it does not.
	Server string
	t      testing.TB
	args   []string
	log    string
}

// Args are those that the process was started with, the program first.
func (b *Bridge) Args() []string { return b.args }

// StartBridge starts a bridge that serves at server, and does not wait for anything. The process is killed when the
// test ends; if that fails, what the process printed to stderr is in the test's log. Programs other than the bridge can
// be run by it as well: nothing but [Bridge.Get] and what polls with it talks to the process.
func StartBridge(t testing.TB, server string, cmd *exec.Cmd) *Bridge {
	t.Helper()
	log, err := os.CreateTemp(t.TempDir(), "bridge-*.log")
	Must(t, err)
	cmd.Stderr = log
	p, err := child.Start(filepath.Base(cmd.Path), cmd)
	Must(t, errors.Join(err, log.Close()))
	b := &Bridge{Process: p, Server: server, t: t, args: cmd.Args, log: log.Name()}
	t.Cleanup(func() {
		_ = p.Kill() // it may have ended
		if t.Failed() {
			t.Logf("what %s %s printed:\n%s", filepath.Base(cmd.Path), strings.Join(cmd.Args[1:], " "), b.Stderr())
		}
	})
	return b
}

// Crash kills the process. Doing it again does nothing.
func (b *Bridge) Crash() {
	b.t.Helper()
	Must(b.t, b.Kill())
}

// Send sends the process a signal; one that has ended does not get it.
func (b *Bridge) Send(s os.Signal) {
	b.t.Helper()
	if err := b.Signal(s); !errors.Is(err, child.ErrNotRunning) {
		Must(b.t, err)
	}
}

// ExitsWith waits for the process to end by itself with a code.
func (b *Bridge) ExitsWith(code int) {
	b.t.Helper()
	select {
	case <-b.Ended():
		if got := b.State().ExitCode(); got != code {
			b.t.Errorf("the bridge ended with code %d, want %d", got, code)
		}
	case <-time.After(Patience()):
		b.t.Fatal("the bridge does not end")
	}
}

// Stops ends the process as an operator would, and wants it to succeed. A process that has a server is given the time
// to serve first: before that it may not listen to signals yet.
func (b *Bridge) Stops() {
	b.t.Helper()
	if b.Server != "" {
		Poll(b.t, "the bridge to serve", func() (bool, string) {
			code, text := b.Get("/livez")
			return code != 0 || !b.Running(), text
		})
	}
	b.Send(syscall.SIGTERM)
	b.ExitsWith(0)
}

// Stderr is what the process has printed so far.
func (b *Bridge) Stderr() string {
	b.t.Helper()
	text, err := os.ReadFile(b.log)
	if err != nil {
		b.t.Error(err)
	}
	return string(text)
}

// Get asks the process; the code is 0, and the error the text, where it does not answer.
func (b *Bridge) Get(path string) (code int, text string) {
	code, text, _, err := Get(context.WithoutCancel(b.t.Context()), b.Server, path)
	if err != nil {
		return 0, err.Error()
	}
	return code, text
}

// Metrics is what the process serves to Prometheus; empty where it does not answer.
func (b *Bridge) Metrics() string {
	code, text := b.Get("/metrics")
	if code != http.StatusOK {
		return ""
	}
	return text
}

// Metric returns the sum of the series of a metric that have all these labels, and whether there is one; see
// [Metrics.Sum].
func (b *Bridge) Metric(name string, labels ...string) (sum float64, found bool) {
	sum, series := ReadMetrics(b.Metrics()).Sum(name, labels...)
	return sum, series > 0
}

// Poll is [Poll] that also fails as soon as the process ends.
func (b *Bridge) Poll(what string, ok func() (holds bool, instead string)) {
	b.t.Helper()
	poll(b.t, b, what, ok)
}

// AwaitReady polls /readyz until it answers with a code and a text that has a part.
func (b *Bridge) AwaitReady(code int, part string) {
	b.t.Helper()
	b.Poll(fmt.Sprintf("/readyz to say %d and %q", code, part), func() (bool, string) {
		got, text := b.Get("/readyz")
		return got == code && strings.Contains(text, part), fmt.Sprintf("it says %d %q", got, text)
	})
}
