// SPDX-License-Identifier: Apache-2.0

// Command faults-replicate runs a campaign of faults against a replica, on real parts, and judges what it has written.
// It exits with 1 if a promise was broken.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/replicas"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

func main() {
	o, only := replicas.Options{Log: os.Stdout}, ""
	flags := flag.NewFlagSet("faults-replicate", flag.ExitOnError) // without those of libraries
	flags.IntVar(&o.Faults, "faults", 60, "how many faults to inject at random")
	flags.IntVar(&o.PerRound, "per-round", 12, "how many of them in each round")
	flags.BoolVar(&o.Once, "once", false, "inject each fault once and by itself, before those at random")
	flags.Uint64Var(&o.Seed, "seed", 1, "what the campaign follows from; with the same directory it goes on where it was")
	flags.IntVar(&o.Limit, "limit", 0, "the limit of deletes in each round (default: some rounds have one)")
	flags.IntVar(&o.Replicators, "replicators", 0, "how many replicators there are, of which one leads (default: 1 or 2)")
	flags.StringVar(&o.Both, "both", "some", "rounds in which the clusters replicate into each other: none, some or all")
	flags.StringVar(&o.Broker, "broker", "nats", "what the bridge publishes to: nats or kafka")
	flags.StringVar(&o.Binary, "binary", "", "another program than that of this tree")
	flags.StringVar(&o.Replicator, "replicator", "", "another program that replicates; it is judged alike")
	flags.StringVar(&o.Dir, "dir", "faults-replicate-results", "directory of the results, and of rounds with violations")
	flags.StringVar(&only, "only", "", "inject only faults whose name matches this regular expression")
	flags.BoolVar(&o.Verbose, "v", false, "tell all that happens")
	flags.BoolVar(&o.Debug, "debug", false, "have the replicator log more")
	_ = flags.Parse(os.Args[1:]) // it exits where it fails
	if only != "" {
		o.Only = regexp.MustCompile(only)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	broken, err := run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || broken {
		os.Exit(1)
	}
}

func run(ctx context.Context, o replicas.Options) (broken bool, err error) {
	if o.Binary == "" {
		if o.Binary, err = rig.Program(ctx, o.Log); err != nil {
			return false, err
		}
	}
	results, err := replicas.Run(ctx, o)
	if len(results) > 0 {
		fmt.Printf("\n%s", replicas.Summary(results))
	}
	for i := range results {
		broken = broken || len(results[i].Violations) > 0 || results[i].Failed != ""
	}
	return broken, err
}
