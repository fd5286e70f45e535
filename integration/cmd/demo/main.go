// SPDX-License-Identifier: Apache-2.0

// Command demo shows kube-eventbridge on a real API server: it builds and starts what it needs, changes things, shows
// the events as they arrive in the log, stops the bridge, changes and deletes more, starts it again, and checks that
// the log has everything once. With the argument replicate there are two clusters: one follows the other, stands in for
// it, and hands back. Nothing outside its own temporary directory and the repository's .cache is touched, and
// everything listens on free ports of 127.0.0.1.
//
// It exits with 0 only if every check holds. DEMO_KEEP=1 leaves everything running afterwards, until SIGINT or SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	what := "events"
	if len(os.Args) > 1 {
		what = os.Args[1]
	}
	if what != "events" && what != "replicate" || len(os.Args) > 2 {
		fmt.Fprintln(os.Stderr, "usage: demo [events | replicate]")
		os.Exit(2)
	}
	if !demo(ctx, newScreen(os.Stdout), what, os.Getenv("DEMO_KEEP") != "") {
		os.Exit(1)
	}
}

// show is a demo: what is started, what happens, and what has to hold then.
type show interface {
	// perform starts everything and lets it happen; it returns whether all checks hold.
	perform(ctx context.Context) (bool, error)
	// invite says how to look at what keeps running.
	invite()
	// close ends all processes that run.
	close() error
}

// demo returns whether all went well and all checks hold.
func demo(ctx context.Context, s *screen, what string, keep bool) bool {
	s.say("%s\n%s", s.bold("kube-eventbridge"), map[string]string{
		"events":    "Every change in a cluster, as a CloudEvent, once, in order, in your log.",
		"replicate": "A standby cluster, kept up to date from the log.",
	}[what])
	b, err := prepare(ctx, s)
	if err != nil {
		return failed(ctx, s, err)
	}
	var shown show = newPlay(&stage{base: b})
	if what == "replicate" {
		shown = newFailover(b)
	}
	good, err := shown.perform(ctx)
	if err != nil {
		good = failed(ctx, s, err)
	}
	if keep && err == nil {
		shown.invite()
		<-ctx.Done()
	}
	if err := errors.Join(shown.close(), b.closeFiles()); err != nil {
		good = failed(ctx, s, err)
	}
	if good || ctx.Err() != nil {
		_ = os.RemoveAll(b.dir) // what is left in a temporary directory does no harm
	} else {
		s.say("\nThe configuration and what the processes printed: %s", b.dir)
	}
	return good
}

// failed says why, and is never good.
func failed(ctx context.Context, s *screen, err error) bool {
	if ctx.Err() != nil {
		s.say("\ninterrupted")
	} else {
		s.say("\n%s %v", s.red("✗"), err)
	}
	return false
}

// until repeats check until it says true. The error says what it waited for.
func until(ctx context.Context, within time.Duration, what string, check func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("not within %s", within))
	defer cancel()
	var last error
	for {
		done, err := check(ctx)
		if done {
			return nil
		}
		if err != nil && ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last != nil {
				return fmt.Errorf("wait for %s: %w: %w", what, context.Cause(ctx), last)
			}
			return fmt.Errorf("wait for %s: %w", what, context.Cause(ctx))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
