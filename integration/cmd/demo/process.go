// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// buildBridge builds the bridge from the sources around it and returns the path of its program.
func buildBridge(ctx context.Context, s *screen) (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	cache, err := controlplane.CacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, "bin", "kube-eventbridge")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "./cmd/kube-eventbridge")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	s.say("  building kube-eventbridge (about a minute the first time) …")
	err = s.slowly("building kube-eventbridge", func() error {
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build kube-eventbridge: %w\n%s", err, out)
		}
		return nil
	})
	return path, err
}

// child is a kube-eventbridge process.
type child struct {
	name  string
	cmd   *exec.Cmd
	ended chan struct{} // closed at its end; then err is set
	err   error
}

// startChild runs the bridge's program. Each line of its output goes to onLine, what it says on stderr to log.
func startChild(name, path string, args []string, onLine func(string), log io.Writer) (*child, error) {
	c := &child{name: name, cmd: exec.Command(path, args...), ended: make(chan struct{})}
	c.cmd.Stderr = log
	// A ^C is for the demo, which ends its children in order.
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(c.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			onLine(lines.Text())
		}
		c.err = c.cmd.Wait()
	}()
	return c, nil
}

// alive returns an error if the process has ended.
func (c *child) alive() error {
	select {
	case <-c.ended:
		return fmt.Errorf("%s ended: %w", c.name, errors.Join(c.err, errors.New("nobody asked it to")))
	default:
		return nil
	}
}

// stop ends the process with SIGTERM. It is an error if that takes more than 20 seconds or its exit code is not 0.
func (c *child) stop() error {
	if c == nil {
		return nil
	}
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	select {
	case <-c.ended:
	case <-time.After(20 * time.Second):
		_ = c.cmd.Process.Kill()
		<-c.ended
		return fmt.Errorf("stop %s: it did not end within 20s and was killed", c.name)
	}
	if c.err != nil {
		return fmt.Errorf("stop %s: %w", c.name, c.err)
	}
	return nil
}
