// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
)

// program is a kube-eventbridge process.
type program struct {
	*child.Process
	name string
}

// startProgram runs the bridge's program. Each line of its output goes to onLine, what it says on stderr to log.
func startProgram(name, path string, args []string, onLine func(string), log io.Writer) (*program, error) {
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = &lines{onLine: onLine}, log
	p, err := child.Start(name, cmd)
	return &program{p, name}, err
}

// lines hands on what is written to it, line by line.
type lines struct {
	onLine func(string)
	rest   []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(b), nil
		}
		l.onLine(string(line))
		l.rest = rest
	}
}

// alive returns an error if the process has ended.
func (p *program) alive() error {
	if p.Running() {
		return nil
	}
	return fmt.Errorf("%s ended unexpectedly: %s", p.name, p.State())
}

// stop ends the process with SIGTERM. It is an error if that takes more than 20 seconds or its exit code is not 0.
func (p *program) stop() error {
	if p == nil || p.Process == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := p.Stop(ctx)
	if err == nil && !p.State().Success() {
		err = fmt.Errorf("stop %s: %w", p.name, errors.New(p.State().String()))
	}
	return err
}
