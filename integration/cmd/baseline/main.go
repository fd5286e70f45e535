// SPDX-License-Identifier: Apache-2.0

// Command baseline is what the bridge is compared with, see package baseline, and what replicate is, see package
// applyloop. It is used as "baseline run --config FILE" and "baseline replicate --config FILE", with the files of
// those. The second one needs the program that the variable KUBECTL names, or kubectl.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/baseline"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/baseline/applyloop"
)

func main() {
	var run func(ctx context.Context, file string, log *slog.Logger) error
	if len(os.Args) > 1 {
		run = map[string]func(context.Context, string, *slog.Logger) error{
			"run":       baseline.Run,
			"replicate": replicate,
		}[os.Args[1]]
	}
	if run == nil {
		fmt.Fprintln(os.Stderr, "use: baseline run|replicate --config FILE")
		os.Exit(2)
	}
	flags := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	file := flags.String("config", "", "the configuration `file`")
	_ = flags.Parse(os.Args[2:]) // it exits where it fails
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *file, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func replicate(ctx context.Context, file string, log *slog.Logger) error {
	return applyloop.Run(ctx, file, cmp.Or(os.Getenv("KUBECTL"), "kubectl"), log)
}
