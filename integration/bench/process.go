// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
)

// report is one line of JSON that a role tells the driver.
type report struct {
	// Ready is the address a role serves at or uses: it can be used now.
	Ready string `json:"ready,omitempty"`
	// Published is the number of messages that a publisher was asked for and that are acknowledged.
	Published int `json:"published,omitempty"`
}

func say(w io.Writer, r report) error {
	if err := json.NewEncoder(w).Encode(r); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// process is a child of the driver. It dies with the driver.
type process struct {
	*child.Process
	name   string
	stdin  io.WriteCloser
	lines  chan string // what it writes to stdout, closed at its end
	stderr child.Tail
}

// start runs a program with the environment of the driver, less what would change the measurement, and env.
func start(name, path string, args, env []string) (*process, error) {
	p := &process{name: name, lines: make(chan string, 16)}
	cmd := exec.Command(path, args...)
	for _, v := range os.Environ() {
		variable, _, _ := strings.Cut(v, "=")
		if !slices.Contains([]string{"GOMEMLIMIT", "GOGC", "GOMAXPROCS", "GODEBUG"}, variable) {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(append(cmd.Env, "GOMEMLIMIT=off"), env...) // the bridge would take that of the driver's control group
	stdout, write := io.Pipe()
	cmd.Stdout, cmd.Stderr = write, &p.stderr
	var err error
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if p.Process, err = child.Start(name, cmd); err != nil {
		return nil, err
	}
	go func() {
		<-p.Ended()
		_ = write.Close()
	}()
	go func() {
		defer close(p.lines)
		for s := bufio.NewScanner(stdout); s.Scan(); {
			select {
			case p.lines <- s.Text():
			default: // nothing waits for what a bridge prints
			}
		}
	}()
	return p, nil
}

// startRole runs this program again, in one of its roles, and returns its address once it is ready.
func startRole(ctx context.Context, role string, args ...string) (*process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", fmt.Errorf("find this program: %w", err)
	}
	p, err := start(role, self, append([]string{role}, args...), nil)
	if err != nil {
		return nil, "", err
	}
	r, err := p.hear(ctx)
	if err != nil {
		return nil, "", errors.Join(err, p.stop())
	}
	return p, r.Ready, nil
}

// hear waits for the next report.
func (p *process) hear(ctx context.Context) (report, error) {
	var r report
	select {
	case <-ctx.Done():
		return r, fmt.Errorf("wait for %s: %w", p.name, context.Cause(ctx))
	case line, ok := <-p.lines:
		if !ok {
			<-p.Ended()
			return r, p.early()
		}
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			return r, fmt.Errorf("%s said %q: %w", p.name, line, err)
		}
		return r, nil
	}
}

// ask makes a publisher publish n messages, and returns when they are acknowledged.
func (p *process) ask(ctx context.Context, n int) error {
	if _, err := fmt.Fprintln(p.stdin, n); err != nil {
		return fmt.Errorf("ask %s for messages: %w", p.name, err)
	}
	_, err := p.hear(ctx)
	return err
}

// early returns the error of a process that ended when it should not have.
func (p *process) early() error {
	return fmt.Errorf("%s ended early: %s\n%s", p.name, p.State(), bytes.TrimSpace(p.stderr.Bytes()))
}

// alive returns an error if the process has ended.
func (p *process) alive() error {
	if !p.Running() {
		return p.early()
	}
	return nil
}

// stop ends the process and waits for it. A process that does not end within ten seconds is killed, which is an error.
func (p *process) stop() error {
	if p == nil {
		return nil
	}
	_ = p.stdin.Close()
	ctx, cancel := deadline(context.Background(), 10*time.Second) // it stops also what is interrupted
	defer cancel()
	return p.Stop(ctx)
}

// cpu returns the processor time, user and system, that the process has used until now.
func (p *process) cpu() (time.Duration, error) { return cpuOf(p.name, p.PID()) }

// cpuOf returns the processor time, user and system, that a process has used until now.
func cpuOf(name string, pid int) (time.Duration, error) {
	// The clock of another process: see clock_getcpuclockid(3).
	const wholeProcess = 2
	var t unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|wholeProcess), &t); err != nil {
		return 0, fmt.Errorf("processor time of %s: %w", name, err)
	}
	return time.Duration(t.Nano()), nil
}

// switches returns how often the process's threads that live have given up a processor, because they had nothing to do
// or their time was over.
func (p *process) switches() (int64, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("threads of %s: %w", p.name, err)
	}
	all := int64(0)
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			if name, number, _ := strings.Cut(line, ":"); strings.HasSuffix(name, "voluntary_ctxt_switches") {
				n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
				if err != nil {
					return 0, fmt.Errorf("threads of %s: %w", p.name, err)
				}
				all += n
			}
		}
	}
	return all, nil
}

// peak returns the largest resident memory the process has had, in bytes.
func (p *process) peak() (int64, error) { return p.memory("VmHWM:") }

// memory returns a value in bytes of the process's status, see proc_pid_status(5).
func (p *process) memory(field string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, fmt.Errorf("memory of %s: %w", p.name, err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == field {
			kib, err := strconv.ParseInt(f[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("memory of %s: %w", p.name, err)
			}
			return kib << 10, nil
		}
	}
	return 0, fmt.Errorf("memory of %s: no %s in its status", p.name, field)
}
