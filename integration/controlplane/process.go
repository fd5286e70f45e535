// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
)

// server is kube-apiserver or etcd while it starts.
type server struct {
	*child.Process
	path string
	tail *child.Tail
}

// startServer starts a program. Its output goes to log, and its end into the error of ready.
func startServer(path string, args []string, log io.Writer) (*server, error) {
	s := &server{path: path, tail: &child.Tail{}}
	cmd := exec.Command(path, args...)
	out := io.MultiWriter(s.tail, log)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, 5*time.Second
	var err error
	s.Process, err = child.Start(path, cmd)
	return s, err
}

// ready polls until check returns nil. It is an error if the process ends before that, ctx ends, or startTimeout is
// over.
func (s *server) ready(ctx context.Context, check func(context.Context) error) error {
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
		case <-s.Ended():
			return fmt.Errorf("%s ended before it was ready: %s: %w\n%s", s.path, s.State(), err, s.tail.Bytes())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w: %w\n%s", s.path, context.Cause(ctx), err, s.tail.Bytes())
		case <-time.After(50 * time.Millisecond):
		}
	}
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
