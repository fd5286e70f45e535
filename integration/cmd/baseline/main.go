// SPDX-License-Identifier: Apache-2.0

// Command baseline is the exporter that the bridge is compared with; see package baseline. It is used as
// "baseline run --config FILE", with the bridge's file.
package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/baseline"
)

func main() {
	flags := flag.NewFlagSet("run", flag.ExitOnError)
	file := flags.String("config", "", "the bridge's configuration `file`")
	if len(os.Args) < 2 || os.Args[1] != "run" {
		fmt.Fprintln(os.Stderr, "use: baseline run --config FILE")
		os.Exit(2)
	}
	_ = flags.Parse(os.Args[2:]) // it exits where it fails
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := baseline.Run(ctx, *file, slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
