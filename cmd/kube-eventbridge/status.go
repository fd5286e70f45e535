// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
)

// lookEvery is how often status --watch asks.
const lookEvery = 2 * time.Second

type statusFlags struct {
	file, server, output string
	watch                bool
}

func newStatusCommand(s *streams) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [--config FILE | --server ADDRESS]",
		Short: "Show how a bridge that runs is doing, and what to do where it is not well",
		Long: "Ask a bridge that runs how it is doing: what is wrong and what to do, its pipelines, and its streams with state, objects, events per second, the age of\n" +
			"the oldest change that is not in the log, position, last gap and last error. -o wide says more, -o json and -o yaml are what /api/status serves.\n\n" +
			"The exit code is 0 if the bridge is ready, as /readyz says, and 1 if it is not, or does not answer; so it serves as a probe where there is no curl.",
		Example: "  kube-eventbridge status\n  kube-eventbridge status --config bridge.yaml -w\n" +
			"  kubectl exec deploy/kube-eventbridge -- kube-eventbridge status",
		Args: noArgs("kube-eventbridge status"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "the bridge's configuration file, which says where it listens on this machine")
	cmd.Flags().StringVar(&f.server, "server", "", "`address` of the bridge's HTTP server (its server.listen; default http://127.0.0.1:8080)")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "show it again every two seconds, until Ctrl-C")
	addOutputFlag(cmd, &f.output, "wide")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// address returns where the bridge is, and what says so. What is wrong with a file that says so nevertheless goes to a
// writer.
func (f *statusFlags) address(to io.Writer) (server, flag string, err error) {
	switch {
	case f.file != "" && f.server != "":
		return "", "", usagef("--config and --server exclude each other: leave one out")
	case f.file == "":
		return cmp.Or(f.server, "http://127.0.0.1:8080"), "--server", nil
	}
	cfg, warnings, err := config.Load(f.file)
	if err == nil {
		return endpoint.Local(cfg.Server.Listen), "server.listen", nil
	}
	listen, known := config.Listen(f.file)
	if !known {
		return "", "", reported(err, warnings)
	}
	_, _ = fmt.Fprintf(to, "%v\nThe bridge goes by what it has read before.\n", err)
	return endpoint.Local(listen), "server.listen", nil
}

func (f *statusFlags) run(ctx context.Context, s *streams) error {
	server, flag, err := f.address(inert.NewWriter(s.Err))
	if err != nil {
		return err
	}
	client, err := status.NewClient(server)
	if err != nil {
		return usagef("%s: %w", flag, err)
	}
	defer client.Close()
	for {
		err := f.ask(ctx, s, client, server)
		if !f.watch {
			return err
		}
		var notReady *notReadyError
		if err != nil && !errors.As(err, &notReady) && ctx.Err() == nil { // it may come back
			_, _ = fmt.Fprintf(s.Err, "error: %v\n", err)
		}
		if pause.For(ctx, lookEvery) != nil {
			return nil
		}
	}
}

// ask shows how the bridge is doing once.
func (f *statusFlags) ask(ctx context.Context, s *streams, client *status.Client, server string) error {
	r, err := client.Report(ctx)
	if err != nil {
		return fmt.Errorf("ask for the status: %w; does a bridge run with server.listen at %s? --server says where it is", err, server)
	}
	if err := f.show(s, &r); err != nil {
		return err
	}
	if !r.Ready {
		return &notReadyError{r.Summary}
	}
	return nil
}

// notReadyError says that a bridge has answered, and is not ready.
type notReadyError struct{ summary string }

func (e *notReadyError) Error() string { return "the bridge is not ready: " + e.summary }

// show prints a report, in the place of the one before where it is watched on a terminal.
func (f *statusFlags) show(s *streams, r *status.Report) error {
	if f.watch && f.output != "json" && f.output != "yaml" {
		if redraws(s) {
			_, _ = io.WriteString(s.Out, "\x1b[H\x1b[2J")
		} else {
			_, _ = fmt.Fprintf(s.Out, "--- %s\n", r.Time.Format(time.RFC3339))
		}
	}
	as := f.output
	if as == "wide" {
		as = ""
	}
	return printAs(s.Out, as, r, func(w io.Writer) error { return r.Text(w, f.output == "wide") })
}

// redraws reports whether what is shown again may take the place of what was shown before.
func redraws(s *streams) bool {
	out, ok := s.Out.(*os.File)
	return ok && term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
}
