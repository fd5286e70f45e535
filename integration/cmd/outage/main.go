// SPDX-License-Identifier: Apache-2.0

// Command outage takes the broker away from a bridge for a long time while objects change, on real parts, and judges
// its log: see docs/faults.md. It prints the result in Markdown, and exits with 1 if a promise was broken.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/outage"
)

func main() {
	cfg := outage.Config{Log: os.Stderr}
	flags := flag.NewFlagSet("outage", flag.ExitOnError) // without those of libraries
	flags.DurationVar(&cfg.Away, "for", time.Hour, "how long the broker is away")
	flags.Float64Var(&cfg.Rate, "rate", 200, "how many changes are made in a second")
	flags.Uint64Var(&cfg.Seed, "seed", 0, "what the changes follow from (default: a random one)")
	flags.IntVar(&cfg.Objects, "objects", 0, "how many objects of each kind are changed (default 200)")
	flags.Int64Var(&cfg.Buffer, "buffer", 0, "how many bytes the bridge may hold (default: the bridge's own)")
	flags.StringVar(&cfg.Dir, "dir", "",
		"directory, which exists, to leave everything in (default: a temporary one that is removed)")
	flags.StringVar(&cfg.Binary, "bridge", "", "the bridge's program (default: built from the tree)")
	_ = flags.Parse(os.Args[1:]) // it exits where it fails
	if cfg.Seed == 0 {
		cfg.Seed = rand.Uint64() >> 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	result, err := outage.Run(ctx, cfg)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(result)
	if len(result.Broken()) > 0 {
		os.Exit(1)
	}
}
