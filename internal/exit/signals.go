// SPDX-License-Identifier: Apache-2.0

package exit

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
)

// NotifyContext returns a context that the process's first SIGINT or SIGTERM ends; the second one calls exit.
// The caller must call stop, which gives the signals back.
func NotifyContext(parent context.Context, exit func(int)) (ctx context.Context, stop func()) {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, ignore := cancelOnSignal(parent, signals, exit)
	return ctx, func() {
		signal.Stop(signals)
		ignore()
	}
}

// cancelOnSignal returns a context that the first signal ends, so that the work can be drained. The second signal calls
// exit with 128+n, as a shell reports a process that signal n has killed. When stop has returned, signals is read no
// more.
func cancelOnSignal(
	parent context.Context, signals <-chan os.Signal, exit func(int),
) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(parent)
	done := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		select {
		case s := <-signals:
			cancel(fmt.Errorf("received %v", s))
		case <-done:
			return
		}
		select {
		case s := <-signals:
			exit(exitCode(s))
		case <-done:
		}
	})
	return ctx, func() {
		close(done)
		reader.Wait()
		cancel(context.Canceled)
	}
}

// Hangups returns where each SIGHUP is told instead of ending the process, and what ends that. Two in a short time may
// be told as one.
func Hangups() (<-chan os.Signal, func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}

func exitCode(s os.Signal) int {
	if n, ok := s.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return Failed
}
