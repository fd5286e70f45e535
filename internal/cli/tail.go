// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// tailFlags are what the command line of tail says.
type tailFlags struct {
	logFlags
	subjects, namespaces, names, ops []string
	allNamespaces                    bool
	fromStart, follow                bool
	last                             int
	since                            cmdutil.Age
	sinceTime, until                 string
	output                           string
	utc, noHeaders                   bool
}

func newTailCommand(s *cmdutil.Streams) *cobra.Command {
	var f tailFlags
	cmd := &cobra.Command{
		Use:   "tail [RESOURCE[/NAME]...]",
		Short: "Read the log back: what happened to which object, who did it, and what changed",
		Long: "Read the log back for a person: what happened to which object, who did it, and what changed.\n" +
			"It begins with what is published from now on, and follows until a signal ends it; a broker, a stream or a topic " +
			"that is away is waited for.\nWhat an update changed is shown where the log still has the state before it.\n\n" +
			"Resources are named as for kubectl: pods, po, deployments.apps, *.example.com, pods/web-*; none: everything in " +
			"the log.\n\nThe log is a JetStream stream (--server, --stream), a topic of Kafka or several (--brokers, " +
			"--topic), or what --config names.",
		Example: "  kube-eventbridge tail\n" +
			"  kube-eventbridge tail deployments.apps -n shop --since 1h\n" +
			"  kube-eventbridge tail --op deleted --from-start --follow=false\n" +
			"  kube-eventbridge tail pods/web-0 --last 20 -o json | jq .data.status\n" +
			"  kube-eventbridge tail --brokers kafka-0:9092,kafka-1:9092 --topic kubernetes",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, s, args) },
	}
	f.selecting(cmd)
	f.connecting(cmd)
	return cmd
}

func (f *tailFlags) selecting(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringSliceVarP(&f.namespaces, "namespace", "n", nil, "only objects in these namespaces")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false,
		"objects in all namespaces, and in none (as without -n)")
	flags.StringSliceVar(&f.names, "name", nil, "only objects of these names; * and ? stand for any text and any letter")
	flags.StringSliceVar(&f.ops, "op", nil,
		"only these: added, updated, deleted, rejected, gap, snapshot, resync (gaps are always shown)")
	flags.StringSliceVar(&f.subjects, "subject", nil,
		"only these NATS subjects, with wildcards; the server sends no others")
	flags.BoolVarP(&f.follow, "follow", "f", true, "go on at the end of the log; --follow=false ends there")
	flags.BoolVar(&f.fromStart, "from-start", false, "begin with the oldest event")
	flags.IntVar(&f.last, "last", 0, "begin with the `N`-th last event that is shown")
	flags.Var(&f.since, "since", "begin with what was stored this long ago, such as 10m, 2h or 1d")
	flags.StringVar(&f.sinceTime, "since-time", "", "begin with what was stored at this `time`, such as 2026-11-17, yesterday or 2026-11-17T15:04:05Z")
	flags.StringVar(&f.until, "until", "", "end with what was stored before this `time`, written as for --since-time")
	flags.StringVarP(&f.output, "output", "o", "", "json (CloudEvents, one a line) or wide")
	flags.BoolVar(&f.utc, "utc", false, "print times in UTC instead of local time")
	flags.BoolVar(&f.noHeaders, "no-headers", false, "print no line with the columns' names")
	cmdutil.Complete(cmd, "output", func() []string { return []string{"json", "wide"} })
	cmdutil.Complete(cmd, "op", func() []string {
		return []string{"added", "updated", "deleted", "rejected", "gap", "snapshot", "resync"}
	})
	cmdutil.CompleteArgs(cmd, func(begun string) []string {
		if f.config == "" {
			return cmdutil.Offered(begun)
		}
		return cmdutil.ResourcesIn(f.config, f.pipeline)
	})
}

func (f *tailFlags) run(cmd *cobra.Command, s *cmdutil.Streams, args []string) error {
	if err := f.check(cmd.Flags().Changed); err != nil {
		return err
	}
	cfg, err := f.reading(args)
	if err != nil {
		return err
	}
	if cfg.Printer, err = f.printer(s); err != nil {
		return err
	}
	from, err := f.source(cmd.Flags().Changed)
	if err != nil {
		return err
	}
	var mu sync.Mutex
	cfg.Notice = func(line string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintln(s.Err, "tail: "+tail.Printable(line))
	}
	if err := f.readable(); err != nil {
		return err
	}
	l, err := wiring.OpenLog(from, wiring.Reading{Subjects: f.subjects, Wait: f.follow, Notice: cfg.Notice})
	if err != nil {
		return err
	}
	defer l.Close()
	if table, ok := cfg.Printer.(*tail.Table); ok && f.follow {
		if err := table.Begin(); err != nil {
			return err
		}
	}
	return tail.Run(cmd.Context(), l, cfg)
}

// check refuses flags that do not go together, and those that nothing can match; given says which are on the command
// line.
func (f *tailFlags) check(given func(string) bool) error {
	for _, group := range [][]string{
		{"from-start", "last", "since", "since-time"},
		{"creds", "nkey", "token-file", "user"},
		{"all-namespaces", "namespace"},
	} {
		var all []string
		for _, flag := range group {
			if given(flag) {
				all = append(all, "--"+flag)
			}
		}
		if len(all) > 1 {
			return exit.Usagef("%s exclude each other: keep one of them", strings.Join(all, " and "))
		}
	}
	for _, pair := range [][2]string{{"user", "password-file"}, {"tls-cert", "tls-key"}} {
		if given(pair[0]) != given(pair[1]) {
			return exit.Usagef("give --%s and --%s together", pair[0], pair[1])
		}
	}
	if given("namespace") && len(f.namespaces) == 0 {
		return exit.Usagef("--namespace is empty: give the name of a namespace, or leave the flag out for all")
	}
	for _, n := range f.namespaces {
		if len(validation.IsDNS1123Label(n)) > 0 {
			return exit.Usagef("--namespace: %q is not the name of a namespace; write it as it is, such as kube-system, or "+
				"leave the flag out for all", n)
		}
	}
	for _, subject := range f.subjects {
		if err := natslog.CheckSubject(subject); err != nil {
			return exit.Usagef("--subject: %w", err)
		}
	}
	return f.checkKafka(given)
}

// reading says which part of the log is read.
func (f *tailFlags) reading(args []string) (tail.Config, error) {
	cfg := tail.Config{
		Span:   event.Span{Start: event.Start{Beginning: f.fromStart, Last: f.last}, Follow: f.follow},
		Filter: tail.Filter{Namespaces: f.namespaces},
	}
	if f.pipeline != "" {
		cfg.Filter.Pipelines = []string{f.pipeline}
	}
	if f.last < 0 || f.since < 0 {
		return cfg, exit.Usagef("--last and --since count backwards from now: give them without a minus sign")
	}
	if f.since > 0 {
		cfg.Start.Time = time.Now().Add(-time.Duration(f.since))
	}
	for _, arg := range args {
		selector, err := tail.ParseSelector(arg)
		if err != nil {
			return cfg, exit.Usagef("%w", err)
		}
		cfg.Filter.Resources = append(cfg.Filter.Resources, selector)
	}
	var err error
	if cfg.Filter.Names, err = tail.ParseNames(f.names); err != nil {
		return cfg, exit.Usagef("--name: %w", err)
	}
	if cfg.Filter.Ops, err = tail.ParseOps(f.ops); err != nil {
		return cfg, exit.Usagef("--op: %w", err)
	}
	for _, t := range []struct {
		flag, text string
		to         *time.Time
	}{{"since-time", f.sinceTime, &cfg.Start.Time}, {"until", f.until, &cfg.Until}} {
		if t.text == "" {
			continue
		}
		now := time.Now()
		if f.utc {
			now = now.UTC()
		}
		if *t.to, err = cmdutil.ParseMoment(t.text, now); err != nil {
			return cfg, exit.Usagef("--%s: %w", t.flag, err)
		}
	}
	return cfg, nil
}

func (f *tailFlags) printer(s *cmdutil.Streams) (tail.Printer, error) {
	table := tail.TableConfig{Location: time.Local, Today: time.Now(), NoHeaders: f.noHeaders, Colour: colourful(s)}
	if f.utc {
		table.Location = time.UTC
	}
	switch f.output {
	case "json":
		return tail.JSON{W: s.Out}, nil
	case "wide":
		table.Wide = true
	case "":
	default:
		return nil, exit.Usagef("-o %q is not an output format; use json or wide, or leave it out", f.output)
	}
	return tail.NewTable(s.Out, table), nil
}

// colourful reports whether a person looks at the output who does not mind colours.
func colourful(s *cmdutil.Streams) bool {
	out, ok := s.Out.(*os.File)
	return ok && term.IsTerminal(int(out.Fd())) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}
