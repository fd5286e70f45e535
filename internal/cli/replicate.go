// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/remote"
)

func newReplicateCommand(s *cmdutil.Streams) *cobra.Command {
	var file string
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "replicate --config FILE",
		Short: "Keep objects of a cluster in the state that the log of another one describes",
		Long: "Read the logs that the file's replicas name, and keep the objects that they select in the cluster of the " +
			"file as in the cluster\nthat the log is of.\n\n" +
			"With --dry-run print what would be created, changed and deleted, write nothing, and end with 1 if there is " +
			"anything.\nIt also ends with 1 if the log or the cluster cannot be read, or tells nothing for half a minute.\n\n" +
			"A changed file takes a restart: the log, /readyz, metrics and replicate status say so.\n\n" +
			"The first SIGINT or SIGTERM stops reading and waits for what is under way; the second ends the process at once.",
		Example: "  kube-eventbridge replicate --config replica.yaml\n" +
			"  kube-eventbridge replicate --config replica.yaml --dry-run\n" +
			"  kube-eventbridge replicate status\n  kube-eventbridge replicate resume shop",
		Args: cmdutil.NoArgs("kube-eventbridge replicate --config {}"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			o := app.Options{File: file, Out: s.Out, Err: s.Err, Klog: s.Klog, Build: s.Build}
			if !dryRun && s.Hangups != nil {
				hangups, stop := s.Hangups()
				defer stop()
				o.Hangups = hangups
			}
			if err := loadReplicas(s, &o); err != nil {
				return err
			}
			if dryRun {
				return compareReplicas(cmd.Context(), o, s.Text())
			}
			return app.Replicate(cmd.Context(), o)
		},
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration file")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "print what would be written, and write nothing")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	cmd.AddCommand(newReplicateStatusCommand(s), newReplicateResumeCommand(s))
	return cmd
}

// compareReplicas prints what replicas would write. The error is errDifferent if there is anything.
func compareReplicas(ctx context.Context, o app.Options, out io.Writer) error {
	different := false
	err := app.CompareReplicas(ctx, o, func(name string, d replica.Difference) error {
		different = true
		_, err := io.WriteString(out, lineOfDifference(name, &d))
		return err
	})
	if err == nil && different {
		return errDifferent
	}
	return err
}

var errDifferent = errors.New("the target differs from what the log says")

func lineOfDifference(name string, d *replica.Difference) string {
	object := d.Name
	if d.Namespace != "" {
		object = d.Namespace + "/" + d.Name
	}
	line := name + ": " + d.Do + " " + d.Resource + " " + object
	if d.Why != "" {
		line += " (" + d.Why + ")"
	}
	return line + "\n" + d.Diff
}

// loadReplicas loads the file of the options, which has to have replicas.
func loadReplicas(s *cmdutil.Streams, o *app.Options) (err error) {
	if o.File == "" {
		return exit.Usagef("nothing to replicate: give --config FILE")
	}
	if o.Data, err = config.Read(o.File); err != nil {
		return cmdutil.Reported(err, nil)
	}
	o.Parse = func(data []byte) (*config.Config, config.Problems, error) { return config.LoadRead(o.File, data) }
	var warnings config.Problems
	if o.Config, warnings, err = o.Parse(o.Data); err != nil {
		return cmdutil.Reported(err, warnings)
	}
	cmdutil.PrintWarnings(s.Err, warnings)
	if len(o.Config.Replicas) == 0 {
		return exit.Usagef("%s has no replicas: add replicas, or publish with: kube-eventbridge run --config %[1]s", o.File)
	}
	return nil
}

func newReplicateStatusCommand(s *cmdutil.Streams) *cobra.Command {
	f := bridgeFlags{}
	var output string
	cmd := &cobra.Command{
		Use:     "status [--config FILE | --server ADDRESS]",
		Short:   "Say how the replicas of a process that runs are, and which objects wait",
		Example: "  kube-eventbridge replicate status\n  kube-eventbridge replicate status -o json",
		Args:    cmdutil.NoArgs("kube-eventbridge replicate status --server {}"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.askReplicas(cmd.Context(), s, output, remote.Ask, printReplicas)
		},
	}
	f.add(cmd)
	cmdutil.AddOutputFlag(cmd, &output)
	return cmd
}

func newReplicateResumeCommand(s *cmdutil.Streams) *cobra.Command {
	f := bridgeFlags{admin: true}
	var output string
	cmd := &cobra.Command{
		Use:   "resume [REPLICA] [--config FILE | --server ADDRESS]",
		Short: "Let replicas go on that a guard has stopped",
		Long: "Let a replica make the deletes that it holds because they are more than its limit, and follow a source " +
			"whose etcd was restored or\nwhose cluster was rebuilt. What is released stays released when the process is " +
			"started again, unless more goes than the\nlimit allows before all of it is deleted. What comes later is " +
			"guarded as before.\nLook at replicate status first, and again afterwards.",
		Example: "  kube-eventbridge replicate resume shop",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return exit.Usagef("resume takes the name of one replica, or none for all: there are %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			resume := func(ctx context.Context, server string) (remote.Answer, error) {
				return remote.Resume(ctx, server, name)
			}
			return f.askReplicas(cmd.Context(), s, output, resume, func(w io.Writer, all *remote.Answer) error {
				return printResumed(w, all, name)
			})
		},
	}
	f.add(cmd)
	cmdutil.AddOutputFlag(cmd, &output)
	return cmd
}

func (f *bridgeFlags) askReplicas(
	ctx context.Context, s *cmdutil.Streams, output string,
	ask func(context.Context, string) (remote.Answer, error), text func(io.Writer, *remote.Answer) error,
) error {
	server, from, err := f.address(inert.NewWriter(s.Err))
	if err != nil {
		return err
	}
	all, err := ask(ctx, server)
	var refused *remote.RefusedError
	if errors.As(err, &refused) {
		return refused
	}
	if err != nil {
		return unreached("ask for replicas", err, server, from)
	}
	return cmdutil.PrintAs(s.Text(), output, all, func(w io.Writer) error { return text(w, &all) })
}

// printResumed names the replicas that go on: the one of a name, or all. How they are is not told: what was held is
// still being written.
func printResumed(w io.Writer, all *remote.Answer, name string) error {
	for i := range all.Replicas {
		if r := &all.Replicas[i]; name == "" || r.Name == name {
			if _, err := fmt.Fprintf(w, "replica %s resumed\n", r.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// printReplicas writes how replicas are, for a person.
func printReplicas(w io.Writer, all *remote.Answer) error {
	if all.Config != "" {
		if _, err := io.WriteString(w, inert.Line(all.Config)+"\n"); err != nil {
			return err
		}
	}
	for _, r := range all.Replicas {
		if _, err := io.WriteString(w, replicaLine(&r)+"\n"); err != nil {
			return err
		}
		for _, o := range r.Waiting {
			name := o.Name
			if o.Namespace != "" {
				name = o.Namespace + "/" + name
			}
			line := fmt.Sprintf("  %s %s: %s", o.Resource, name, o.Reason)
			if o.Detail != "" {
				line += " (" + o.Detail + ")"
			}
			if _, err := io.WriteString(w, line+"\n"); err != nil {
				return err
			}
		}
	}
	return nil
}

func replicaLine(r *remote.Replica) string {
	switch {
	case !r.Running && len(r.Problems) > 0:
		return r.Name + ": does not run" + problemLines(r)
	case !r.Running:
		return r.Name + ": does not run in this process" + problemLines(r)
	case !r.CaughtUp:
		return r.Name + ": reads the log up to its end" + problemLines(r)
	}
	line := r.Name + ": " + cmdutil.Counted(r.Objects, "object") + ", " + strconv.Itoa(r.Pending) + " pending"
	if r.Lag > 0 {
		line += ", " + r.Lag.Round(time.Second).String() + " behind"
	}
	for _, reason := range slices.Sorted(maps.Keys(r.Parked)) {
		line += ", " + strconv.Itoa(r.Parked[reason]) + " wait: " + string(reason)
	}
	if r.HeldDeletes {
		line += "; DELETES ARE HELD"
	}
	if r.HeldEpoch != 0 {
		line += "; STOPPED: the source's versions begin again"
	}
	return line + problemLines(r)
}

// problemLines says what cannot be reached, a line for each.
func problemLines(r *remote.Replica) (lines string) {
	for _, part := range slices.Sorted(maps.Keys(r.Problems)) {
		lines += "\n  " + part + ": " + r.Problems[part]
	}
	return lines
}
