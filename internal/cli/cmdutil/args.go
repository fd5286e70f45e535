// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
)

// NoArgs refuses arguments, and says what to write instead.
func NoArgs(instead string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return exit.Usagef("%s takes no arguments such as %q; write: %s", cmd.CommandPath(), args[0],
			strings.ReplaceAll(instead, "{}", args[0]))
	}
}

// NoSuchCommand refuses a subcommand that there is not, and names those that there are.
func NoSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() {
			names = append(names, sub.Name())
		}
	}
	cmd.SuggestionsMinimumDistance = 2
	meant := ""
	if like := cmd.SuggestionsFor(args[0]); len(like) > 0 {
		meant = ", did you mean " + strings.Join(like, " or ") + "?"
	}
	return exit.Usagef("unknown command %q for %q%s; valid: %s", args[0], cmd.CommandPath(), meant,
		strings.Join(names, ", "))
}

// Counted returns how many there are of something, in words.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// Given returns the names of the flags on the command line, in their order there.
func Given(cmd *cobra.Command) []string {
	flags := cmd.Flags()
	sorted := flags.SortFlags
	defer func() { flags.SortFlags = sorted }()
	flags.SortFlags = false
	var names []string
	flags.Visit(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}
