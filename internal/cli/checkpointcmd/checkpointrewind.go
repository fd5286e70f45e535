// SPDX-License-Identifier: Apache-2.0

package checkpointcmd

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/checkpoints"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
)

func newCheckpointRewind(s *cmdutil.Streams, f *checkpointFlags) *cobra.Command {
	var names []string
	var to string
	var yes bool
	cmd := &cobra.Command{
		Use:   "rewind PIPELINE --to RESOURCEVERSION [--stream STREAM]...",
		Short: "Move positions back, so that what came after a version is published again",
		Long: "Move the positions of a pipeline's streams back to a version. " + rewindCosts + "\n\n" +
			"A copy of a checkpoint file is kept beside it; of one in Kafka or NATS there is none. " + atBroker,
		Example: "  kube-eventbridge checkpoint rewind audit --config bridge.yaml --to 41200 --stream configmaps.v1",
		Args:    f.onePipeline("rewind"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := f.place(cmd, args[0])
			if err != nil {
				return err
			}
			if err := at.Running(); err != nil {
				return changeError(at, err)
			}
			now := time.Now().Unix()
			rewind := func(state *checkpoint.State) (*checkpoints.Change, error) {
				return checkpoints.Rewind(state, names, to, now)
			}
			change, err := previewed(cmd, at, rewind)
			if err != nil {
				return err
			}
			if len(change.Moves) == 0 {
				_, err := fmt.Fprintf(s.Text(), "nothing to do: no position is ahead of %s\n", to)
				return err
			}
			if err := printMoves(s, at, change); err != nil {
				return err
			}
			if yes, err = confirmed(s, yes); err != nil || !yes {
				return errors.Join(err, errUnconfirmed)
			}
			backup, err := at.Change(cmd.Context(), rewind)
			if err != nil {
				return changeError(at, err)
			}
			_, err = fmt.Fprintf(s.Text(), "done%s\n", copied(backup))
			return err
		},
	}
	f.selecting(cmd, &names)
	cmd.Flags().StringVar(&to, "to", "", "the `resourceVersion` to go back to, such as that of an object or of an event")
	_ = cmd.MarkFlagRequired("to")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do it; without it a terminal is asked, and elsewhere nothing is done")
	return cmd
}

const rewindCosts = "The next start watches from there\n" +
	"again, and publishes what it is shown once more, in the order in which it happened, with reason resync and ids of " +
	"its own: older states of an object then follow\nnewer ones in the log, up to where it was. An API server shows " +
	"some minutes, and nothing from before its own start. Where it has forgotten the version, nothing is " +
	"published\nagain: the next start lists, behind a gap. Where it forgets it in between, that list tells the present " +
	"state of each object of which the log has an older one last."

func printMoves(s *cmdutil.Streams, at place, c *checkpoints.Change) error {
	_, _ = fmt.Fprintf(s.Text(), "rewind of pipeline %s, %s:\n", at.pipeline, at)
	for _, m := range c.Moves {
		_, _ = fmt.Fprintf(s.Text(), "  %s: position %s, was %s\n", m.Stream, m.To, m.From)
	}
	return printCosts(s, at, rewindCosts)
}
