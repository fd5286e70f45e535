// SPDX-License-Identifier: Apache-2.0

package kafkabroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
)

// process is one running child. On Linux it dies with this process.
type process struct {
	name  string
	cmd   *exec.Cmd
	log   string        // file that its output is added to
	from  int64         // where in that file its output begins
	ended chan struct{} // closed at its end
}

// startProcess starts a program that adds its output to a file.
func startProcess(name string, cmd *exec.Cmd, log string) (*process, error) {
	f, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	defer f.Close() //nolint:errcheck // the child has its own; nothing is written here
	from, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	p := &process{name: name, cmd: cmd, log: log, from: from, ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = f, f, childAttr()
	started := make(chan error, 1)
	go func() {
		// The kernel sends the death signal when the thread that started the child ends, not the process: this keeps that thread.
		runtime.LockOSThread()
		defer close(p.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // cmd.ProcessState says how it ended
		}
	}()
	if err := <-started; err != nil {
		<-p.ended
		return nil, fmt.Errorf("start %s: %w", name, err)
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

// died returns an error that says what a process that should run complained about, and nil while it runs.
func (p *process) died() error {
	if p.running() {
		return nil
	}
	return fmt.Errorf("%s ended before it was ready: %s\n%s", p.name, p.cmd.ProcessState, complaints(p.log, p.from))
}

func (p *process) signal(s os.Signal) error {
	if !p.running() {
		return errNotRunning
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("send %s to %s: %w", s, p.name, err)
	}
	return nil
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

const logTail = 8 << 10

// logEnd returns the last lines of a log, of what is in it from an offset on.
func logEnd(path string, from int64) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	return lastLines(b[min(int(from), len(b)):])
}

// complaints returns the last lines that are not mere information: a broker that fails says why, and then at length how it shuts down.
func complaints(path string, from int64) []byte {
	b, err := os.ReadFile(path)
	if err != nil {
		return []byte(err.Error())
	}
	var kept []byte
	for line := range bytes.Lines(b[min(int(from), len(b)):]) {
		if !bytes.Contains(line, []byte("] INFO ")) && !bytes.HasPrefix(line, []byte("\t")) { // nor the rest of a stack trace
			kept = append(kept, line...)
		}
	}
	if len(kept) == 0 {
		return logEnd(path, from)
	}
	return lastLines(kept)
}

func lastLines(b []byte) []byte {
	if cut := len(b) - logTail; cut > 0 {
		b = b[cut:]
		b = b[bytes.IndexByte(b, '\n')+1:]
	}
	return b
}
