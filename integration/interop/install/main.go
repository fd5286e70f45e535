// SPDX-License-Identifier: Apache-2.0

// Command install installs what the tests of package interop need from npm, PyPI and Maven Central. What is there
// already stays. It tries three times, because registries fail now and then. It exits with 1 if something could not be
// installed.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/interop/tools"
)

const (
	attempts = 3
	apart    = 10 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := 0
	for _, i := range tools.All() {
		if err := install(ctx, i); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	stop()
	os.Exit(code)
}

func install(ctx context.Context, i tools.Installation) error {
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(os.Stderr, format+"\n", args...) }
	for n := 1; ; n++ {
		dir, err := i.Install(ctx, say)
		if err == nil {
			say("%s: %s", i.Name, dir)
			return nil
		}
		if n == attempts || pause.For(ctx, apart) != nil {
			return err
		}
		say("attempt %d of %d: %v", n, attempts, err)
	}
}
