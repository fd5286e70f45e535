// SPDX-License-Identifier: Apache-2.0

// Command faults runs a campaign of faults against the bridge, on real parts, and judges its log: see docs/faults.md.
// It exits with 1 if a promise was broken, or if the campaign is no proof.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/campaign"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/clock"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

func main() {
	o := campaign.Options{Log: os.Stdout, Known: campaign.KnownViolations(), Strict: os.Getenv("CI") != ""}
	only, replicas, round, once, together, began := "", "any", -1, false, false, time.Now()
	flags := flag.NewFlagSet("faults", flag.ExitOnError) // without those of libraries
	flags.BoolVar(&once, "once", false, "inject each fault once and by itself, before those at random")
	flags.BoolVar(&together, "together", false,
		"inject what users do while the broker is away, and while etcd is restored, before those at random")
	flags.IntVar(&o.Faults, "faults", 60, "how many faults to inject at random")
	flags.IntVar(&o.PerRound, "per-round", 0, "how many of them in each round (default 12)")
	flags.IntVar(&o.Parallel, "parallel", 1, "how many rounds to play at a time")
	flags.StringVar(&o.Broker, "broker", world.NATS, "what the bridge publishes to: nats or kafka")
	flags.StringVar(&replicas, "replicas", replicas,
		"how many bridges run, of which one leads: 0 for one that needs no Lease, 2, 3, or any, which draws it for each")
	flags.Uint64Var(&o.Seed, "seed", 0,
		"what the campaign follows from (default: a random one); with the same directory it goes on where it was")
	flags.IntVar(&round, "round", round,
		"play only the round of this number, with -per-round faults, in a fresh directory inside -dir")
	flags.StringVar(&o.Dir, "dir", "faults-results",
		"directory of the results, and of rounds in which a promise was broken")
	flags.StringVar(&o.Binary, "bridge", "", "another program than the bridge of this tree; its clock does not jump")
	flags.BoolVar(&o.Race, "race", false, "build the bridge with the race detector")
	flags.Float64Var(&o.Late, "late", 10, "how many times later than promised a takeover may be; the median, half of it")
	flags.StringVar(&only, "only", "", "inject only faults whose name matches this regular expression")
	flags.DurationVar(&o.Longest, "longest", 0, "leave out faults that take longer")
	_ = flags.Parse(os.Args[1:]) // it exits where it fails
	if o.Broker != world.NATS && o.Broker != world.Kafka {
		fmt.Fprintln(os.Stderr, "-broker: it is nats or kafka")
		os.Exit(2)
	}
	counts := map[string]int{"any": campaign.AnyReplicas, "0": 0, "2": 2, "3": 3}
	var known bool
	if o.Replicas, known = counts[replicas]; !known {
		fmt.Fprintln(os.Stderr, "-replicas: it is 0, 2, 3 or any")
		os.Exit(2)
	}
	if o.Seed == 0 {
		o.Seed = rand.Uint64() >> 1
	}
	if only != "" {
		named, err := regexp.Compile(only)
		if err != nil {
			fmt.Fprintln(os.Stderr, "-only:", err)
			os.Exit(2)
		}
		o.Only = named
	}
	if once {
		o.Plan = campaign.EachOnce(o.Broker)
	}
	if together {
		o.Plan = append(o.Plan, campaign.Together(o.Broker)...)
	}
	if round >= 0 {
		o.Round = &round
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	good, err := run(ctx, o)
	fmt.Printf("\nthis session took %s\n", time.Since(began).Round(time.Second))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err != nil || !good {
		os.Exit(1)
	}
}

// run reports whether the campaign is a proof that no promise was broken.
func run(ctx context.Context, o campaign.Options) (good bool, err error) {
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return false, err
	}
	fmt.Printf("seed %d, results in %s\n", o.Seed, o.Dir)
	if o.Binary == "" {
		if o.Binary, err = (rig.Build{Race: o.Race}).Program(ctx, o.Log); err != nil {
			return false, err
		}
		if o.ClockBinary, err = clock.Program(ctx, o.Race, o.Log); err != nil {
			return false, err
		}
	}
	results, err := campaign.Run(ctx, o)
	summary := campaign.Summarize(results)
	if len(results) > 0 {
		fmt.Printf("\n%s", summary)
	}
	objections := summary.Objections(o)
	for _, objection := range objections {
		fmt.Println(objection)
	}
	return summary.Broken()+len(objections) == 0, err
}
