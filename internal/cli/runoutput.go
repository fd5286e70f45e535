// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/tail"
	"github.com/kube-eventbridge/kube-eventbridge/sink/stdout"
)

// checkOutput refuses what -o cannot be, and what has no effect beside it.
func (f *runFlags) checkOutput() error {
	switch {
	case !slices.Contains(f.given, "output"):
		return nil
	case f.output != "json" && f.output != "wide":
		return exit.Usagef("-o %q is not an output format; use json or wide, or leave it out", f.output)
	case slices.Contains(f.given, "broker-listen"):
		return exit.Usagef(
			"-o and --broker-listen exclude each other: with -o events are printed, and there is no embedded server")
	default:
		return nil
	}
}

// prints refuses -o where no pipeline prints anything.
func (f *runFlags) prints(cfg *config.Config) error {
	if f.output == "" {
		return nil
	}
	var others []string
	for i := range cfg.Pipelines {
		p := &cfg.Pipelines[i]
		if p.Sink.Stdout != nil {
			return nil
		}
		others = append(others, fmt.Sprintf("%s publishes to %s", p.Name, sinkName(p)))
	}
	return exit.Usagef("-o says how the sink stdout prints, and no pipeline of %s has that: %s; leave -o out, and see "+
		"the events with: kube-eventbridge tail --config %s",
		f.file, strings.Join(others, ", "), f.file)
}

// sinkName is what the configuration calls the sink of p.
func sinkName(p *config.Pipeline) string {
	switch {
	case p.Sink.NATS != nil:
		return "nats"
	case p.Sink.Kafka != nil:
		return "kafka"
	case p.Sink.Embedded != nil:
		return "embedded"
	default:
		return "stdout"
	}
}

// format returns how events are printed; all pipelines that print share a table.
func (f *runFlags) format(s *cmdutil.Streams) stdout.Format {
	if f.output != "wide" {
		return stdout.JSONLines
	}
	return tail.NewLines(tail.TableConfig{
		Wide: true, Colour: colourful(s), Location: time.Local,
		Today: time.Now(),
	}).Append
}
