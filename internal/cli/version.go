// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
)

// lineOf returns a build for a person.
func lineOf(b app.Build) string {
	return fmt.Sprintf("kube-eventbridge %s, commit %s, %s, %s\n", b.Version, b.Commit, b.Go, b.Platform)
}

func newVersionCommand(s *cmdutil.Streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit, the Go release and the platform",
		Long: "version prints the version, the commit, the Go release and the platform on one line.\n" +
			"With -o, it prints them as an object, for scripts and bug reports.",
		Example: "  kube-eventbridge version\n" +
			"  kube-eventbridge version -o json",
		Args: cmdutil.NoArgs("kube-eventbridge version"),
		RunE: func(*cobra.Command, []string) error {
			b := s.Build
			return cmdutil.PrintAs(s.Out, output, b, func(w io.Writer) error {
				_, err := io.WriteString(w, lineOf(b))
				return err
			})
		},
	}
	cmdutil.AddOutputFlag(cmd, &output)
	return cmd
}
