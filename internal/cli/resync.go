// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/internal/resync"
)

// progressEvery is how often it is told how far a resync is.
const progressEvery = 5 * time.Second

type resyncFlags struct {
	bridgeFlags
	pipeline, output string
	noWait           bool
}

func newResyncCommand(s *cmdutil.Streams) *cobra.Command {
	f := resyncFlags{bridgeFlags: bridgeFlags{admin: true}}
	cmd := &cobra.Command{
		Use:   "resync [RESOURCE...] [--config FILE | --server ADDRESS]",
		Short: "Have a bridge that runs publish again what exists now",
		Long: "Ask a bridge that runs to publish again everything that exists now, or only these resources, and wait until " +
			"its log has it. A resource is\nwritten as in the bridge's configuration, as plural[.version][.group], or by its " +
			"short name or kind; NAME/NAMESPACE is what is read in one\nnamespace alone.\n\n" +
			"Each object is an event of type updated with reason resync. What changes meanwhile is published as always. A " +
			"bridge publishes 200 objects a\nsecond of each stream again; one that is stopped forgets what it was asked for. " +
			"Ctrl-C ends the waiting and not the resync.",
		Example: "  kube-eventbridge resync\n  kube-eventbridge resync --pipeline audit deployments.apps secrets\n" +
			"  kubectl port-forward deploy/kube-eventbridge 8080 & kube-eventbridge resync",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), s, args) },
	}
	f.add(cmd)
	cmd.Flags().StringVar(&f.pipeline, "pipeline", "", "only this pipeline of the bridge")
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "end when the bridge has begun")
	cmdutil.AddOutputFlag(cmd, &f.output)
	cmdutil.Complete(cmd, "pipeline", func() []string { return cmdutil.PipelinesIn(f.file) })
	cmdutil.CompleteArgs(cmd, func(string) []string {
		if f.file != "" {
			return cmdutil.ResourcesIn(f.file, f.pipeline)
		}
		return cmdutil.Builtins()
	})
	return cmd
}

func (f *resyncFlags) run(ctx context.Context, s *cmdutil.Streams, resources []string) error {
	server, from, err := f.address(inert.NewWriter(s.Err))
	if err != nil {
		return err
	}
	client, err := resync.NewClient(server)
	if err != nil {
		return exit.Usagef("%s: %w", from, err)
	}
	defer client.Close()
	all, err := client.Start(ctx, f.pipeline, resources)
	var unknown *resync.UnknownError
	switch {
	case errors.As(err, &unknown):
		return &exit.InputError{Err: err}
	case err != nil:
		return unreached("ask for a resync", err, server, from)
	}
	told := resyncTeller{to: io.Discard, told: map[string]string{}}
	if f.output == "" {
		told.to = s.Text()
	}
	told.tell(all, time.Now())
	if !f.noWait {
		if all, err = client.Wait(ctx, all, func(now []resync.Stream) { told.tell(now, time.Now()) }); err != nil {
			return fmt.Errorf("wait for the resync: %w", err)
		}
	}
	print := func(io.Writer) error { return nil } // it is told already
	if err := cmdutil.PrintAs(s.Out, f.output, resync.Answer{Streams: all}, print); err != nil {
		return err
	}
	return resyncProblem(all)
}

// resyncTeller tells what is new.
type resyncTeller struct {
	to   io.Writer
	told map[string]string
	at   time.Time
}

func (t *resyncTeller) tell(all []resync.Stream, now time.Time) {
	progress := now.Sub(t.at) >= progressEvery
	if progress {
		t.at = now
	}
	for _, s := range all {
		name := "pipeline " + s.Pipeline + ": " + s.Stream
		text := resyncText(&s)
		// How far it is, is told from time to time; what becomes of it at once.
		if before, known := t.told[name]; text == before || known && s.State == bridge.ResyncRunning && !progress {
			continue
		}
		t.told[name] = text
		_, _ = fmt.Fprintf(t.to, "%s: %s\n", name, text)
	}
}

func resyncText(s *resync.Stream) string {
	switch s.State {
	case bridge.ResyncRunning:
		return fmt.Sprintf("%d of %s, %d published again", s.Listed, cmdutil.Counted(max(s.Objects, s.Listed), "object"),
			s.Published)
	case bridge.ResyncDone:
		return fmt.Sprintf("done, %s published again", cmdutil.Counted(s.Published, "object"))
	case bridge.ResyncQueued:
		return "asked for"
	case bridge.ResyncEmpty:
		return "nothing to do, it selects nothing now"
	default:
		return string(s.State) + ": " + s.Problem
	}
}

// resyncProblem is the error of a resync that is not complete.
func resyncProblem(all []resync.Stream) error {
	bad := 0
	for _, s := range all {
		if s.State == bridge.ResyncRefused || s.State == bridge.ResyncFailed {
			bad++
		}
	}
	if bad == 0 {
		return nil
	}
	return fmt.Errorf("%d of %s not published again; ask for that when /readyz of the bridge answers ok", bad,
		cmdutil.Counted(len(all), "stream"))
}
