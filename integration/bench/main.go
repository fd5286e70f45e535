// SPDX-License-Identifier: Apache-2.0

// Command bench measures the whole bridge as a process, beside what the broker alone takes and what a common exporter
// costs.
//
// Everything runs on this machine over loopback: a load server that speaks list and watch of pods, nats-server, and one
// after the other the bridge, a bare publisher of messages of the same size to the same subjects, and a baseline made
// of dynamic informers and json.Marshal. Each is a process of its own, so that processor time and memory are known of
// each; each has a broker of its own with an empty store. Figures are medians over runs, ratios medians of each run's
// ratio.
//
// The figures go to stdout as a Markdown table, every single value with -json to a file. Exit codes: 0 done, 1 failed,
// 2 usage. What it starts ends with it, and its temporary files are removed.
//
// In i, j and k it is a replica that is measured. The bare publisher is a client there that applies the same objects to
// the same API server, prepared and with as many requests at a time; which of them is first changes with each run.
//
// In e the bare publisher is a plain watch that waits for the acknowledgement of each event.
//
// Into Kafka the bare publisher is franz-go. Both have one real broker, which is warm, and a topic each; which of them
// is first changes with each run.
//
// The processes it measures against can be had alone: "bench apiserver", "bench broker", "bench publisher", "bench
// franz", "bench watcher" and "bench baseline"; each has -h, and ends with a signal.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/baseline"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, flag.ErrHelp):
	case errors.As(err, new(*usageError)):
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run is a role if the first argument names one, else the driver.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	roles := map[string]func(context.Context, []string, io.Reader, io.Writer) error{
		"apiserver": apiServerRole, "broker": brokerRole, "publisher": publisherRole, "baseline": baselineRole,
		"franz": franzRole, "watcher": watcherRole,
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		role, ok := roles[args[0]]
		if !ok {
			return &usageError{fmt.Sprintf(
				"%q is no role of this program; there are apiserver, broker, publisher, baseline, franz and watcher", args[0])}
		}
		return role(ctx, args[1:], stdin, stdout)
	}
	s, err := parse(args)
	if err != nil {
		return err
	}
	return drive(ctx, s, stdout, stderr)
}

// baselineRole exports what the bridge's file says, until ctx ends.
func baselineRole(ctx context.Context, args []string, _ io.Reader, _ io.Writer) error {
	flags := flag.NewFlagSet("baseline", flag.ContinueOnError)
	file := flags.String("config", "", "the bridge's configuration `file`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	return baseline.Run(ctx, *file, slog.New(slog.DiscardHandler))
}

type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// settings are the driver's flags.
type settings struct {
	runs, runsLarge, runsRest, runsRate     int
	runsKafka, runsLost, runsIdle           int
	runsReplica, runsReplicaLog             int
	replicaObjects, replicaSeconds          int
	replicaKeys, replicaBacklog             int
	objects, objectsLarge, objectsMost      int
	objectsReal, runsReal, idleNamespaces   int
	runsMost                                int
	events, baselineEvents                  int
	rateSeconds, idleSeconds                int
	only, subjects                          string
	json, bridge                            string
	list, large, watch, rest, rate, kafka   bool
	lost, quiet, replica, replicaSize       bool
	replicaBehind, most, real               bool
	withBridge, withPublisher, withBaseline bool
}

func parse(args []string) (*settings, error) {
	s := &settings{}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.IntVar(&s.runs, "runs", 5, "number of runs of a and c")
	f.IntVar(&s.runsLarge, "runs-large", 5, "number of runs of b")
	f.IntVar(&s.runsRest, "runs-rest", 5, "number of runs of d")
	f.IntVar(&s.runsRate, "runs-rate", 5, "number of runs of e")
	f.IntVar(&s.runsKafka, "runs-kafka", 5, "number of runs of f")
	f.IntVar(&s.runsLost, "runs-lost", 5, "number of runs of g")
	f.IntVar(&s.runsIdle, "runs-idle", 3, "number of runs of h")
	f.IntVar(&s.runsMost, "runs-most", 1, "number of runs of l")
	f.IntVar(&s.runsReal, "runs-real", 1, "number of runs of m")
	f.IntVar(&s.runsReplica, "runs-replica", 3, "number of runs of i")
	f.IntVar(&s.runsReplicaLog, "runs-replica-log", 1, "number of runs of j and k")
	f.IntVar(&s.replicaObjects, "replica-objects", 5_000, "ConfigMaps in i; there are a fifth as many Deployments")
	f.IntVar(&s.replicaSeconds, "replica-seconds", 30, "seconds of changes in i")
	f.IntVar(&s.replicaKeys, "replica-keys", 1_000_000, "objects that are gone, in the log of j")
	f.IntVar(&s.replicaBacklog, "replica-backlog", 1_000_000,
		"events in the log of k, of a hundredth as many objects")
	f.IntVar(&s.objects, "objects", 20_000,
		"objects listed in a and f, and replicated in j; there are five times as many in g")
	f.IntVar(&s.objectsLarge, "objects-large", 200_000, "objects listed in b")
	f.IntVar(&s.objectsReal, "objects-real", 100_000, "ConfigMaps in m")
	f.IntVar(&s.objectsMost, "objects-most", 1_000_000, "pods, and then ConfigMaps, in l")
	f.IntVar(&s.events, "events", 100_000, "watch events in c, f and l")
	f.IntVar(&s.baselineEvents, "baseline-events", 10_000, "watch events of the baseline in c")
	f.IntVar(&s.rateSeconds, "rate-seconds", 60, "seconds of load in e")
	f.IntVar(&s.idleSeconds, "idle-seconds", 150, "seconds without load in h, and at rest in l")
	f.IntVar(&s.idleNamespaces, "idle-namespaces", 2_000, "namespaces with a stream each in h")
	f.StringVar(&s.only, "only", "a,b,c,d,e,f,g,h,i,j,k,l,m",
		"what to measure: a list, b large list, c watch, d memory at rest, e latency on a real API server, f watch into "+
			"Kafka, g a lost checkpoint, h an idle bridge with 20 streams, and with very many, i a replica beside a bare "+
			"client that applies the same objects, j memory of a replica, k a replica that is far behind, l a million objects, "+
			"m a list of a real API server beside the load server's")
	f.StringVar(&s.subjects, "subjects", "bridge,publisher,baseline",
		"what is measured in a, c, e and f; b, d, g, h, j, k, l and m are of the bridge alone, e and f know no baseline")
	f.StringVar(&s.json, "json", "", "write every single value to this `file`")
	f.StringVar(&s.bridge, "bridge", "", "measure this `program` instead of building the bridge")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil, err
		}
		return nil, &usageError{err.Error()}
	}
	if f.NArg() > 0 {
		return nil, &usageError{fmt.Sprintf("unexpected argument %q", f.Arg(0))}
	}
	if s.objects < 1 || s.objectsLarge < 1 || s.events < 1 || s.baselineEvents < 1 || s.rateSeconds < 1 ||
		s.idleSeconds < 1 || s.replicaObjects < 5 || s.replicaSeconds < 1 || s.replicaBacklog < 100 || s.objectsMost < 100 ||
		s.objectsReal < 1 {
		return nil, &usageError{"numbers of objects, events and seconds must be at least 1"}
	}
	err := errors.Join(
		choose("-only", s.only, map[string]*bool{
			"a": &s.list, "b": &s.large, "c": &s.watch, "d": &s.rest, "e": &s.rate,
			"f": &s.kafka, "g": &s.lost, "h": &s.quiet, "i": &s.replica, "j": &s.replicaSize, "k": &s.replicaBehind,
			"l": &s.most, "m": &s.real,
		}),
		choose("-subjects", s.subjects, map[string]*bool{
			"bridge": &s.withBridge, "publisher": &s.withPublisher,
			"baseline": &s.withBaseline,
		}),
	)
	return s, err
}

// choose sets what a comma-separated list names.
func choose(name, list string, valid map[string]*bool) error {
	for word := range strings.SplitSeq(list, ",") {
		target, ok := valid[strings.TrimSpace(word)]
		if !ok {
			names := slices.Sorted(maps.Keys(valid))
			return &usageError{fmt.Sprintf("%s: %q is unknown; valid are %s", name, word, strings.Join(names, ", "))}
		}
		*target = true
	}
	return nil
}
