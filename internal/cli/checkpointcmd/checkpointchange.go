// SPDX-License-Identifier: Apache-2.0

package checkpointcmd

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/checkpoints"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
)

// atBroker is what holds for checkpoints that are not locked.
const atBroker = "A bridge that uses a checkpoint in Kafka or NATS writes to it every few seconds, and nothing is " +
	"changed then.\nOne that stands still, and was not seen, cannot commit any more, and ends with exit code 1; it " +
	"loses nothing."

func newCheckpointReset(s *cmdutil.Streams, f *checkpointFlags) *cobra.Command {
	var names []string
	var yes bool
	cmd := &cobra.Command{
		Use:   "reset PIPELINE [--stream STREAM]...",
		Short: "Forget positions and objects, so that a snapshot follows",
		Long: "Forget the positions of a pipeline's streams, and what the log has of each object. " + resetCosts + "\n\n" +
			"A checkpoint that an older version of kube-eventbridge has written, in a format that this one does not\n" +
			"read, is reset as a whole. Its log cannot be continued: name a new JetStream stream or topic for the sink.\n\n" +
			"A copy of a checkpoint file is kept beside it; of one in Kafka or NATS there is none. " + atBroker,
		Args: f.onePipeline("reset"),
		RunE: func(cmd *cobra.Command, args []string) error {
			at, err := f.place(cmd, args[0])
			if err != nil {
				return err
			}
			if err := at.Running(); err != nil { // what cannot be done needs no confirmation
				return changeError(at, err)
			}
			outdated, err := preview(cmd, s, at, names)
			if err != nil {
				return err
			}
			if yes, err = confirmed(s, yes); err != nil || !yes {
				return errors.Join(err, errUnconfirmed)
			}
			backup, err := reset(cmd, at, names, outdated)
			if err != nil {
				return changeError(at, err)
			}
			_, err = fmt.Fprintf(s.Text(), "done%s\n", copied(backup))
			return err
		},
	}
	f.selecting(cmd, &names)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do it; without it a terminal is asked, and elsewhere nothing is done")
	return cmd
}

const resetCosts = "The next start lists what exists, as a snapshot,\n" +
	"and publishes it: events that the log has are in it twice, unless the broker shows that it has them, as NATS does " +
	"where each object has a\nsubject of its own. What is deleted until then, and is not told in the log yet, is never " +
	"told."

// errUnconfirmed: exit code 2, as the command line has to be written differently.
var errUnconfirmed = exit.Usagef("nothing was changed: give --yes to do it")

// reset forgets streams, or all of a checkpoint that an older version has written.
func reset(cmd *cobra.Command, at place, names []string, outdated bool) (backup string, err error) {
	if outdated {
		return at.Discard(cmd.Context())
	}
	return at.Change(cmd.Context(), func(state *checkpoint.State) (*checkpoints.Change, error) {
		return checkpoints.Reset(state, names)
	})
}

// preview prints what a reset would do, and reports whether the checkpoint is one that an older version has written.
func preview(cmd *cobra.Command, s *cmdutil.Streams, at place, names []string) (outdated bool, err error) {
	change, err := previewed(cmd, at, func(state *checkpoint.State) (*checkpoints.Change, error) {
		return checkpoints.Reset(state, names)
	})
	var other *checkpoint.FormatError
	if errors.As(err, &other) && other.Old() && len(names) == 0 {
		_, _ = fmt.Fprintf(s.Text(), "reset of pipeline %s, %s:\n"+
			"  forget everything, as an older version of kube-eventbridge has written it\n", at.pipeline, at)
		return true, printCosts(s, at, resetCosts)
	}
	if err != nil {
		return false, err
	}
	_, _ = fmt.Fprintf(s.Text(), "reset of pipeline %s, %s:\n", at.pipeline, at)
	for _, m := range change.Moves {
		forgets := "no position"
		if m.From != "" {
			forgets = "position " + m.From
		}
		_, _ = fmt.Fprintf(s.Text(), "  %s: forget %s and %s\n", m.Stream, forgets, cmdutil.Counted(m.Objects, "object"))
	}
	return false, printCosts(s, at, resetCosts)
}

// printCosts ends a preview.
func printCosts(s *cmdutil.Streams, at place, costs string) error {
	_, err := fmt.Fprintln(s.Text(), costs)
	if caution := at.Caution(); caution != "" && err == nil {
		_, err = fmt.Fprintln(s.Text(), caution)
	}
	return err
}

// previewed returns what a change would do.
func previewed(
	cmd *cobra.Command, at place, change func(*checkpoint.State) (*checkpoints.Change, error),
) (*checkpoints.Change, error) {
	found, err := at.Look(cmd.Context())
	if err != nil {
		return nil, changeError(at, err)
	}
	if found.State.Identity == (checkpoint.Identity{}) {
		return nil, changeError(at, &checkpoints.UnwrittenError{Where: at.String()})
	}
	c, err := change(found.State)
	if err != nil {
		return nil, changeError(at, err)
	}
	return c, nil
}

// confirmed asks a person at a terminal, where the command line does not say yes.
func confirmed(s *cmdutil.Streams, yes bool) (bool, error) {
	in, ok := s.In.(*os.File)
	if yes || !ok || !term.IsTerminal(int(in.Fd())) {
		return yes, nil
	}
	_, _ = fmt.Fprint(s.Err, "Do it? [y/N] ")
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}

func copied(backup string) string {
	if backup == "" {
		return ""
	}
	return "; what it was is in " + backup
}

// changeError says whose checkpoint it is; a wrong name or version is a wrong command line.
func changeError(at place, err error) error {
	var choice *checkpoints.ChoiceError
	err = fmt.Errorf("pipeline %s: %w", at.pipeline, err)
	if errors.As(err, &choice) {
		return &exit.InputError{Err: err}
	}
	return err
}
