// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
)

// bridgeFlags say where a bridge that runs is asked. Admin is for what changes something.
type bridgeFlags struct {
	admin        bool
	file, server string
}

// add adds the flags.
func (f *bridgeFlags) add(cmd *cobra.Command) {
	keys := "server.listen"
	if f.admin {
		keys = "server.admin, or else server.listen"
	}
	cmd.Flags().StringVarP(&f.file, "config", "c", "",
		"the bridge's configuration `file`, which says where it listens on this machine")
	cmd.Flags().StringVar(&f.server, "server", "",
		"`address` of the bridge's HTTP server (its "+keys+"; default http://127.0.0.1:8080)")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
}

// address returns where the bridge is, and what says so. What is wrong with a file that says so nevertheless goes to a
// writer.
func (f *bridgeFlags) address(to io.Writer) (server, from string, err error) {
	switch {
	case f.file != "" && f.server != "":
		return "", "", exit.Usagef("--config and --server exclude each other: leave one out")
	case f.file == "":
		return cmp.Or(f.server, "http://127.0.0.1:8080"), "--server", nil
	}
	_, warnings, err := config.Load(f.file)
	at, known := config.LoadServer(f.file, f.admin)
	switch {
	case !known:
		_, _ = fmt.Fprintln(to, "Where the bridge is cannot be read from "+f.file+". --server says it, too.")
		return "", "", cmdutil.Reported(err, warnings)
	case err != nil:
		_, _ = fmt.Fprintf(to, "%v\nA bridge that runs goes by what it has read before.\n", err)
	}
	if f.admin && at.Admin != "" {
		return endpoint.Local(at.Admin), "server.admin", nil
	}
	return endpoint.Local(at.Listen), "server.listen", nil
}

// unreached says that no bridge answers at an address.
func unreached(what string, err error, server, from string) error {
	if from == "--server" {
		from = "server.listen"
	}
	return fmt.Errorf("%s: %w; does a bridge run with %s at %s? --server says where it is", what, err, from,
		endpoint.Shown(server))
}
