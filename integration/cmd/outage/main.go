// SPDX-License-Identifier: Apache-2.0

// Command outage takes the broker away from a bridge for a long time while objects change, on real parts, and judges its log: see docs/faults.md. It
// prints the result in Markdown, and exits with 1 if a promise was broken.
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
	flag.DurationVar(&cfg.Away, "for", time.Hour, "how long the broker is away")
	flag.Float64Var(&cfg.Rate, "rate", 200, "how many changes are made in a second")
	flag.Uint64Var(&cfg.Seed, "seed", 0, "what the changes follow from (default: a random one)")
	flag.IntVar(&cfg.Objects, "objects", 0, "how many objects of each kind are changed (default 200)")
	flag.Int64Var(&cfg.Buffer, "buffer", 0, "how many bytes the bridge may hold (default: the bridge's own)")
	flag.StringVar(&cfg.Dir, "dir", "", "directory, which exists, to leave everything in (default: a temporary one that is removed)")
	flag.StringVar(&cfg.Binary, "bridge", "", "the bridge's program (default: built from the tree)")
	flag.Parse()
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
