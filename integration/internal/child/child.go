// SPDX-License-Identifier: Apache-2.0

// Package child runs programs as child processes. On Linux a child is killed when this process ends, however that ends.
package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// ErrNotRunning is returned by [Process.Signal] for a process that has ended or was never started.
var ErrNotRunning = errors.New("the process does not run")

// Process is a child that was started. A nil Process does not run, and Kill and Stop do nothing with it.
type Process struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed at its end
}

// Start starts a command, whose SysProcAttr it sets: the child has a process group of its own, so that a terminal's ^C
// does not reach it. Errors call the child by name.
func Start(name string, cmd *exec.Cmd) (*Process, error) {
	p := &Process{name: name, cmd: cmd, ended: make(chan struct{})}
	cmd.SysProcAttr = attributes()
	started := make(chan error, 1)
	go func() {
		// The kernel sends the death signal when the thread that started the child ends, not the process. This keeps
		// that thread.
		runtime.LockOSThread()
		defer close(p.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // State says how it ended
		}
	}()
	if err := <-started; err != nil {
		<-p.ended
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Ended returns a channel that is closed when the process has ended and its output has been read.
func (p *Process) Ended() <-chan struct{} { return p.ended }

// Running is false after the end of the process, whatever ended it.
func (p *Process) Running() bool {
	if p == nil {
		return false
	}
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// State says how the process ended. It is nil while the process runs.
func (p *Process) State() *os.ProcessState {
	if p.Running() {
		return nil
	}
	return p.cmd.ProcessState
}

// PID returns the id of the process, which another process may have after the end of this one.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Signal sends a signal to a process that runs.
func (p *Process) Signal(s os.Signal) error {
	if !p.Running() {
		return ErrNotRunning
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %s to %s: %w", s, p.name, err)
	}
	return nil
}

// Kill ends the process with SIGKILL and waits for its end. It is no error if the process has ended already.
func (p *Process) Kill() error {
	if p == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// Stop ends the process with SIGTERM and waits for its end. If ctx ends first, the process is killed, and that is an
// error.
func (p *Process) Stop(ctx context.Context) error {
	if p == nil {
		return nil
	}
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", p.name, err)
	}
	select {
	case <-p.ended:
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop %s: killed: %w", p.name, context.Cause(ctx)), p.Kill())
	}
}

// Tail is a writer that keeps the end of what several processes write to it. The zero value is ready for use.
type Tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 8 << 10

// Write implements [io.Writer]. It never fails.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - tailSize; n > tailSize { // cut rarely, not on every line
		t.buf = append([]byte(nil), t.buf[n:]...)
	}
	return len(b), nil
}

// Bytes returns the last 8 KiB.
func (t *Tail) Bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte(nil), t.buf[max(0, len(t.buf)-tailSize):]...)
}
