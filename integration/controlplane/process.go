// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// process is one running child. On Linux it dies with this process.
type process struct {
	name  string
	cmd   *exec.Cmd
	tail  *tail
	ended chan struct{} // closed at its end; then err is set
	err   error
}

// startProcess starts a program whose output goes to log and, for errors, into a tail.
func startProcess(path string, args []string, log io.Writer) (*process, error) {
	t := &tail{}
	p := &process{name: path, cmd: exec.Command(path, args...), tail: t, ended: make(chan struct{})}
	out := io.MultiWriter(t, log)
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.SysProcAttr = childAttr()
	p.cmd.WaitDelay = 5 * time.Second
	started := make(chan error, 1)
	go func() {
		// The kernel sends the death signal when the thread that started the child ends, not the process: this keeps that thread.
		runtime.LockOSThread()
		defer close(p.ended)
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		<-p.ended
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// running is false before the start and after the end, whatever ended it.
func (p *process) running() bool {
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

// joinKill kills a process that is of no use because of err.
func joinKill(err error, p *process) error {
	return errors.Join(err, p.kill())
}

// ready polls until check returns nil. It is an error if the process ends before, ctx does, or startTimeout is over.
func (p *process) ready(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		tryCtx, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := check(tryCtx)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-p.ended:
			return fmt.Errorf("%s ended before it was ready: %w\n%s", p.name, errors.Join(p.err, err), p.tail.bytes())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w\n%s", p.name, context.Cause(ctx), err, p.tail.bytes())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// kill ends the process with SIGKILL and waits for its end. Killing what has ended is no error.
func (p *process) kill() error {
	if p == nil {
		return nil
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.ended
	return nil
}

// stop ends the process with SIGTERM and waits for its end; if ctx ends first the process is killed, and that is the error.
func (p *process) stop(ctx context.Context) error {
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
		return errors.Join(fmt.Errorf("stop %s: killed: %w", p.name, context.Cause(ctx)), p.kill())
	}
}

// tail keeps the end of what is written to it.
type tail struct {
	mu  sync.Mutex
	buf []byte
}

const tailSize = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if n := len(t.buf) - tailSize; n > tailSize { // cut rarely, not on every line
		t.buf = append([]byte(nil), t.buf[n:]...)
	}
	return len(b), nil
}

func (t *tail) bytes() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]byte(nil), t.buf[max(0, len(t.buf)-tailSize):]...)
}

// lockedWriter lets several processes write to one log.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}
