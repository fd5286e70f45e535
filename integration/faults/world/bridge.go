// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/clock"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// Bridge is one process of the bridge.
type Bridge struct {
	*child.Process
	log    string
	server string
	// asked is the first signal that was sent, 0 before; mayEnd says that its end is no surprise.
	asked  atomic.Int32
	mayEnd atomic.Bool
}

var errRuns = errors.New("start the bridge: it runs already")

// StartBridge starts the bridge, and does not wait for anything: of replicas all that do not run, of which there has to
// be one. If the last process of one has ended although no fault wanted it to, that is the error, see [ErrEnded], and
// none is started in its place.
func (w *World) StartBridge() (errs error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	started := false
	for _, r := range w.replicas {
		if r.bridge.Running() {
			continue
		}
		started = true
		if err := w.startReplica(r); err != nil {
			errs = errors.Join(errs, fmt.Errorf("start the bridge: %w", err))
		}
	}
	if !started {
		return errRuns
	}
	return errs
}

// startReplica starts a process; the caller holds mu.
func (w *World) startReplica(r *replica) error {
	if r.bridge.endedByItself() {
		return fmt.Errorf("%w by itself before, with %v; %s", ErrEnded, r.bridge.State(), r.bridge.lastWords())
	}
	log, err := os.Create(filepath.Join(w.dir, fmt.Sprintf("bridge-%03d.log", len(w.runs)+1)))
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the child has a copy
	cmd := exec.Command(w.binary, "run", "--config", r.config)
	cmd.Stderr = log
	cmd.Env = append(os.Environ(), "GORACE=exitcode=0") // a race is read from what it prints
	if w.clock != "" {
		cmd.Env = append(cmd.Env, clock.Variable+"="+r.clockOf(w.clock))
	}
	p, err := child.Start("the bridge", cmd)
	if err != nil {
		return err
	}
	r.bridge = &Bridge{Process: p, log: log.Name(), server: r.server}
	w.runs = append(w.runs, log.Name())
	return nil
}

// Bridge returns the process that was started last, of replicas that of the one that leads, or did when that was looked
// at last; nil before the first.
func (w *World) Bridge() *Bridge {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.replicas[w.leads].bridge
}

// KillBridge ends the bridge, with all replicas, with SIGKILL and waits for its end. One that does not run is no error.
func (w *World) KillBridge() (errs error) {
	for _, b := range w.processes() {
		errs = errors.Join(errs, b.kill())
	}
	return errs
}

func (b *Bridge) kill() error {
	if err := b.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if b != nil {
		<-b.Ended()
	}
	return nil
}

// StopBridge ends the bridge with SIGTERM, as an operator does, and its replicas one after the other. It is an error if
// one does not end with code 0 before ctx ends.
func (w *World) StopBridge(ctx context.Context) (errs error) {
	for _, b := range w.processes() {
		errs = errors.Join(errs, b.stop(ctx))
	}
	return errs
}

// stop ends a process with SIGTERM. It is an error if that does not end with code 0 before ctx ends.
func (b *Bridge) stop(ctx context.Context) error {
	if err := b.awaitServing(ctx); err != nil {
		return err
	}
	if err := b.signal(syscall.SIGTERM); err != nil {
		return err
	}
	code, err := b.awaitExit(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("%w: it was asked to stop: %w; %s", ErrUnsettled, err, b.lastWords())
	}
	if err == nil && code != 0 {
		err = fmt.Errorf("%w with code %d when it was asked to stop; %s", ErrEnded, code, b.lastWords())
	}
	return err
}

// awaitServing waits until the bridge serves, or has ended: before that it may not listen to signals yet.
func (b *Bridge) awaitServing(ctx context.Context) error {
	err := poll(ctx, 30*time.Second, "the bridge to serve", func() bool {
		if !b.Running() {
			return true
		}
		_, _, _, err := rig.Get(ctx, b.server, "/livez")
		return err == nil
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w; %s", ErrUnsettled, err, b.lastWords())
	}
	return err
}

// AwaitExit waits until the bridge has ended, and returns its code: -1 if a signal ended it, or none was ever started.
func (w *World) AwaitExit(ctx context.Context) (code int, err error) {
	return w.Bridge().awaitExit(ctx)
}

func (b *Bridge) awaitExit(ctx context.Context) (code int, err error) {
	if b == nil {
		return -1, nil
	}
	select {
	case <-b.Ended():
		return b.State().ExitCode(), nil
	case <-ctx.Done():
		return -1, fmt.Errorf("wait for the bridge to end: %w", context.Cause(ctx))
	}
}

// setAside stops the process of the only bridge as a machine does that goes to sleep, and makes room for another one:
// the caller starts it, and wakes the first. It must not own anything that the other one needs.
func (w *World) setAside(ctx context.Context) (*Bridge, error) {
	b, r := w.Bridge(), w.replicas[0]
	if err := b.awaitServing(ctx); err != nil {
		return nil, err
	}
	if err := b.signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	b.mayEnd.Store(true)
	w.mu.Lock()
	r.bridge = nil
	w.aside = append(w.aside, b)
	w.mu.Unlock()
	return b, w.configure(r) // with another port
}

// wake lets a process that was set aside go on, which has to end then.
func (b *Bridge) wake(ctx context.Context) error {
	if err := b.signal(syscall.SIGCONT); err != nil {
		return err
	}
	if err := poll(ctx, time.Minute, "a bridge that was replaced to end",
		func() bool { return !b.Running() }); err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%w: %w; %s", ErrUnsettled, err, b.lastWords())
		}
		return err
	}
	return nil
}

// killAside ends what was set aside.
func (w *World) killAside() (errs error) {
	for _, b := range w.aside {
		errs = errors.Join(errs, b.kill())
	}
	return errs
}

// Running is false for nil, and after the end.
func (b *Bridge) Running() bool { return b != nil && b.Process.Running() }

// signal sends a signal; no process that has ended gets it.
func (b *Bridge) signal(s os.Signal) error {
	if b == nil {
		return nil
	}
	err := b.Signal(s)
	if err != nil && !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, child.ErrNotRunning) {
		return err
	}
	if number, is := s.(syscall.Signal); is && err == nil {
		b.asked.CompareAndSwap(0, int32(number)) //nolint:gosec // signals are small numbers
	}
	return nil
}

// endedByItself reports whether the process has ended, and nothing was done here that ends it.
func (b *Bridge) endedByItself() bool {
	if b == nil || b.Running() || b.mayEnd.Load() {
		return false
	}
	status, is := b.State().Sys().(syscall.WaitStatus)
	asked := syscall.Signal(b.asked.Load())
	return asked == 0 || asked == syscall.SIGKILL && is && !status.Signaled()
}

// Stderr returns what the process has printed so far.
func (b *Bridge) Stderr() (string, error) {
	out, err := os.ReadFile(b.log)
	return string(out), err
}

// RSS returns the memory that the process has now, in bytes; 0 if it has ended.
func (b *Bridge) RSS() int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.PID()))
	if err != nil || !b.Running() {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// StderrFiles are what each run of the bridge has printed, oldest first.
func (w *World) StderrFiles() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.runs)
}

// poll returns when ok does, or with an error that says what was waited for.
func poll(ctx context.Context, within time.Duration, what string, ok func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		}
	}
	return nil
}
