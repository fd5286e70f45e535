// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// Set by the linker: -X main.version=… -X main.commit=….
var version, commit string

// build describes this binary. What the linker was not told comes from the module's build information; "unknown" where
// that has nothing either.
func build() app.Build {
	b := app.Build{Version: version, Commit: commit, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		if b.Version == "" && info.Main.Version != "(devel)" {
			b.Version = info.Main.Version
		}
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" && b.Commit == "" {
				b.Commit = s.Value
			}
		}
	}
	for _, field := range []*string{&b.Version, &b.Commit} {
		if *field == "" {
			*field = "unknown"
		}
	}
	return b
}

// lineOf returns a build for a person.
func lineOf(b app.Build) string {
	return fmt.Sprintf("kube-eventbridge %s, commit %s, %s, %s\n", b.Version, b.Commit, b.Go, b.Platform)
}

// restConfig finds the API server as kubectl does.
func restConfig(k config.Kubernetes) (*rest.Config, error) {
	return wiring.RestConfig(k, build().UserAgent())
}

func newVersionCommand(s *streams) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit, the Go release and the platform",
		Args:  noArgs("kube-eventbridge version"),
		RunE: func(*cobra.Command, []string) error {
			b := build()
			return printAs(s.Out, output, b, func(w io.Writer) error {
				_, err := io.WriteString(w, lineOf(b))
				return err
			})
		},
	}
	addOutputFlag(cmd, &output)
	return cmd
}
