// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/status"
)

// lookEvery is how often status --watch asks.
const lookEvery = 2 * time.Second

type statusFlags struct {
	bridgeFlags
	output string
	watch  bool
}

func newStatusCommand(s *cmdutil.Streams) *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use:   "status [--config FILE | --server ADDRESS]",
		Short: "Show how a bridge that runs is doing, and what to do where it is not well",
		Long: "Ask a bridge that runs how it is doing: what is wrong and what to do, its pipelines, its streams with " +
			"state, objects, events per second, the age of\nthe oldest change that is not in the log, position, last gap and " +
			"last error, and its replicas. -o wide says more, -o json and -o yaml are what /api/status serves.\n\n" +
			"The exit code is 0 if the bridge is ready, as /readyz says, and 1 if it is not, or does not answer; so it serves " +
			"as a probe where there is no curl.",
		Example: "  kube-eventbridge status\n  kube-eventbridge status --config bridge.yaml -w\n" +
			"  kubectl exec deploy/kube-eventbridge -- kube-eventbridge status",
		Args: cmdutil.NoArgs("kube-eventbridge status"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), s) },
	}
	f.add(cmd)
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "show it again every two seconds, until Ctrl-C")
	cmdutil.AddOutputFlag(cmd, &f.output, "wide")
	return cmd
}

func (f *statusFlags) run(ctx context.Context, s *cmdutil.Streams) error {
	server, from, err := f.address(inert.NewWriter(s.Err))
	if err != nil {
		return err
	}
	client, err := status.NewClient(server)
	if err != nil {
		return exit.Usagef("%s: %w", from, err)
	}
	defer client.Close()
	for {
		err := f.ask(ctx, s, client, server, from)
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
func (f *statusFlags) ask(ctx context.Context, s *cmdutil.Streams, client *status.Client, server, from string) error {
	r, err := client.Report(ctx)
	if err != nil {
		return unreached("ask for the status", err, server, from)
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
func (f *statusFlags) show(s *cmdutil.Streams, r *status.Report) error {
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
	return cmdutil.PrintAs(s.Out, as, r, func(w io.Writer) error { return r.Text(w, f.output == "wide") })
}

// redraws reports whether what is shown again may take the place of what was shown before.
func redraws(s *cmdutil.Streams) bool {
	out, ok := s.Out.(*os.File)
	return ok && term.IsTerminal(int(out.Fd())) && os.Getenv("TERM") != "dumb"
}
