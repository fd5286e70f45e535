// SPDX-License-Identifier: Apache-2.0

package checkpointcmd

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/internal/checkpoints"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
)

// New returns the command with its subcommands, which write to s only.
func New(s *cmdutil.Streams) *cobra.Command {
	f := checkpointFlags{Streams: s}
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Show and change what bridges remember: positions, and what the log has of each object",
		Long: "Show and change what bridges remember: the version up to which everything of a stream is in the log, and " +
			"the last state that the\nlog has of each object. Checkpoints are those of the pipelines of a configuration file, " +
			"or, without one, the files in the data\ndirectory. list and show disturb no process. reset and rewind want the " +
			"bridge to be stopped, and refuse while they see that one runs.",
		Args: cmdutil.NoSuchCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	flags := cmd.PersistentFlags()
	flags.StringVarP(&f.file, "config", "c", "", "the configuration `file`")
	flags.StringVar(&f.dataDir, "data-dir", "",
		"`directory` of checkpoints, without --config (default: kube-eventbridge in $XDG_STATE_HOME or ~/.local/state)")
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"`path` of the kubeconfig; a cluster without a name in the file is asked for its uid, to find checkpoints in Kafka "+
			"or NATS")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig")
	_ = cmd.MarkPersistentFlagFilename("config", "yaml", "yml")
	_ = cmd.MarkPersistentFlagDirname("data-dir")
	cmdutil.Complete(cmd, "context", func() []string { return cmdutil.ContextsIn(f.kubeconfig) })
	cmd.AddCommand(newCheckpointList(s, &f), newCheckpointShow(s, &f), newCheckpointReset(s, &f),
		newCheckpointRewind(s, &f))
	return cmd
}

func newCheckpointList(s *cmdutil.Streams, f *checkpointFlags) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "A line for each pipeline: where its checkpoint is, and how much it holds",
		Args:  cmdutil.NoArgs("kube-eventbridge checkpoint show {}"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			places, err := f.places(cmd, "")
			if err != nil {
				return err
			}
			reports, unread := look(cmd.Context(), places)
			printed := cmdutil.PrintAs(s.Out, output, reports,
				func(w io.Writer) error { return checkpoints.PrintList(w, reports) })
			return errors.Join(printed, unread)
		},
	}
	cmdutil.AddOutputFlag(cmd, &output)
	return cmd
}

// look reads all checkpoints that can be read. The error is about the others.
func look(ctx context.Context, places []place) ([]*checkpoints.Report, error) {
	var unread error
	reports := []*checkpoints.Report{}
	for _, p := range places {
		found, err := p.Look(ctx)
		if err != nil {
			unread = errors.Join(unread, fmt.Errorf("pipeline %s: %w", p.pipeline, err))
			continue
		}
		reports = append(reports, checkpoints.Describe(p.pipeline, p.String(), found))
	}
	return reports, unread
}

func newCheckpointShow(s *cmdutil.Streams, f *checkpointFlags) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show PIPELINE",
		Short: "What one checkpoint holds: positions, objects, what a stream owes, and what is known of the log",
		Long: "Show what the checkpoint of a pipeline holds. POSITION is the version up to which everything of a stream is " +
			"in the log; it may\nbe behind the newest event by one, as a version is complete only when a later one, or a " +
			"bookmark, was seen. OWES is what a start does\nbefore it watches on, or beside that. -o wide adds deletions that " +
			"a watch from the position would show\nagain, the epoch of a stream's next change and the one since which its " +
			"versions compare, and the numbers\nthat were given out. -o json and -o yaml also have the newest sequence of " +
			"each stream.",
		Args: f.onePipeline("show"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := f.place(cmd, args[0])
			if err != nil {
				return err
			}
			found, err := at.Look(cmd.Context())
			if err != nil {
				return fmt.Errorf("pipeline %s: %w", at.pipeline, err)
			}
			r := checkpoints.Describe(at.pipeline, at.String(), found)
			if !r.Exists {
				return fmt.Errorf("pipeline %s: %w", at.pipeline, &checkpoints.UnwrittenError{Where: at.String()})
			}
			wide := output == "wide"
			if wide {
				output = ""
			}
			return cmdutil.PrintAs(s.Out, output, r, func(w io.Writer) error { return r.Print(w, wide) })
		},
	}
	cmdutil.AddOutputFlag(cmd, &output, "wide")
	f.completePipeline(cmd)
	return cmd
}
