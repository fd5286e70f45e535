// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line: a file for each command, flags, output and exit codes. It decides nothing.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/checkpointcmd"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
)

// newRoot returns the command with all its subcommands. Commands write to s only, end when their context does, and
// return errors instead of printing them.
func newRoot(s *cmdutil.Streams) *cobra.Command {
	var printVersion bool
	root := &cobra.Command{
		Use:   "kube-eventbridge",
		Short: "Every change in a Kubernetes cluster, as a CloudEvent, once, in order, in your log",
		Long: "kube-eventbridge watches Kubernetes resources and publishes every change as a CloudEvent.\n" +
			"Start with: kube-eventbridge run configmaps, and in a second terminal: kube-eventbridge tail",
		Args:              cmdutil.NoSuchCommand,
		SilenceUsage:      true,
		SilenceErrors:     true,
		DisableAutoGenTag: true,
	}
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if !printVersion {
			return cmd.Help()
		}
		_, err := io.WriteString(s.Out, lineOf(s.Build))
		return err
	}
	// Not cobra's own flag: its text would be a template, and with templates the linker keeps every exported method of
	// every type, a fifth of the program.
	root.Flags().BoolVarP(&printVersion, "version", "v", false, "version for kube-eventbridge")
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(newRunCommand(s), newTailCommand(s), newRBACCommand(s), checkpointcmd.New(s), newStatusCommand(s),
		newResyncCommand(s), newReplicateCommand(s), newAsyncAPICommand(s),
		newValidateCommand(s), newVersionCommand(s))
	refuseOtherShells(root)
	return root
}

// Main runs the command line of the process, and returns its exit code. Version and commit are what the linker was
// told.
func Main(version, commit string) int {
	ctx, stop := exit.NotifyContext(context.Background(), func(code int) {
		fmt.Fprintln(os.Stderr,
			"kube-eventbridge: a second signal ends it at once; what was under way is found out by the next start")
		os.Exit(code)
	})
	defer stop()
	signal.Ignore(syscall.SIGPIPE) // a write fails instead, and what was read is drained
	return execute(ctx, os.Args[1:], &cmdutil.Streams{
		In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Klog: klog.SetSlogLogger, Hangups: exit.Hangups,
		Build: app.NewBuild(version, commit),
	})
}

// execute runs the command line args and returns the exit code.
func execute(ctx context.Context, args []string, s *cmdutil.Streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	return executeCommand(ctx, root, s)
}

// executeCommand runs root with the arguments it has. Every error is printed here, and only here.
func executeCommand(ctx context.Context, root *cobra.Command, s *cmdutil.Streams) int {
	started := false
	onStart(root, func() { started = true })

	cmd, err := root.ExecuteContextC(ctx)
	var usage *exit.UsageError
	var problems config.Problems
	var checked *cmdutil.Report
	var spec *bridge.SpecError
	var input *exit.InputError
	to := inert.NewWriter(s.Err)
	switch {
	case err == nil, exit.ReaderGone(err) && cmd.Name() != "run":
		return exit.Done
	case errors.As(err, &checked):
		_, _ = fmt.Fprintln(to, checked)
		if len(checked.Problems) == 0 {
			return exit.Failed
		}
		return exit.Usage
	case errors.As(err, &problems):
		for _, p := range problems {
			_, _ = fmt.Fprintf(to, "%s%v\n", prefixOf(p), p)
		}
		return exit.Usage
	case errors.As(err, &usage) || !started:
		_, _ = fmt.Fprintf(to, "error: %v\nsee: %s --help\n", err, cmd.CommandPath())
		return exit.Usage
	case errors.As(err, &spec), errors.As(err, &input): // no help text: it is a name that is wrong, not a flag
		_, _ = fmt.Fprintf(to, "error: %v\n", err)
		return exit.Usage
	default:
		_, _ = fmt.Fprintf(to, "error: %v\n", err)
		return exit.Failed
	}
}

// prefixOf returns what precedes a problem: one of a file begins with the file's name, as editors expect it.
func prefixOf(p config.Problem) string {
	if p.File == "" {
		return "error: "
	}
	return ""
}

// refuseOtherShells has cobra's completion command refuse the name of a shell that it does not know. Cobra prints its
// help.
func refuseOtherShells(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if cmd.Name() == "completion" {
			cmd.Args = cmdutil.NoSuchCommand
			cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		}
	}
}

// onStart calls f before the code of any command at or below cmd: what fails earlier is the command line.
func onStart(cmd *cobra.Command, f func()) {
	if inner := cmd.RunE; inner != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			f()
			return inner(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		onStart(sub, f)
	}
}

// flagError says what a flag takes where its value is refused in words of Go.
func flagError(cmd *cobra.Command, err error) error {
	if before := cmd.Flags().Args(); cmd.HasSubCommands() && len(before) > 0 {
		return cmdutil.NoSuchCommand(cmd, before) // a flag of the command that was meant
	}
	var number *strconv.NumError
	if !errors.As(err, &number) {
		return err
	}
	takes := "write a whole number"
	if number.Func == "ParseBool" {
		takes = "write true or false"
	}
	return errors.New(strings.Replace(err.Error(), number.Error(), takes, 1))
}
