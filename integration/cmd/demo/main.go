// SPDX-License-Identifier: Apache-2.0

// Command demo shows kube-eventbridge on a real API server: it builds and starts what it needs, changes things, shows
// the events as they arrive in the log, stops the bridge, changes and deletes more, starts it again, and checks that
// the log has everything once. Nothing outside its own temporary directory and the repository's .cache is touched, and
// everything listens on free ports of 127.0.0.1.
//
// It exits with 0 only if every check holds. DEMO_KEEP=1 leaves everything running afterwards, until SIGINT or SIGTERM.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := newScreen(os.Stdout)
	if !demo(ctx, s, os.Getenv("DEMO_KEEP") != "") {
		os.Exit(1)
	}
}

// demo returns whether all went well and all checks hold.
func demo(ctx context.Context, s *screen, keep bool) bool {
	s.say("%s\nEvery change in a cluster, as a CloudEvent, once, in order, in your log.", s.bold("kube-eventbridge"))
	st, err := newStage(ctx, s)
	if err != nil {
		return failed(ctx, s, err)
	}
	good, err := perform(ctx, st)
	if err != nil {
		good = failed(ctx, s, err)
	}
	if keep && err == nil {
		st.invite()
		<-ctx.Done()
	}
	if err := st.close(); err != nil {
		good = failed(ctx, s, err)
	}
	if good || ctx.Err() != nil {
		_ = os.RemoveAll(st.dir) // what is left in a temporary directory does no harm
	} else {
		s.say("\nThe configuration and what the processes printed: %s", st.dir)
	}
	return good
}

// perform starts everything and plays the play; it returns whether all checks hold.
func perform(ctx context.Context, st *stage) (bool, error) {
	began := time.Now()
	p := newPlay(st)
	err := try.Run(func(*try.Scope) {
		st.start(ctx)
		p.run(ctx)
	})
	return err == nil && p.summary(time.Since(began)), err
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
