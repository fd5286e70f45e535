// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
)

// addOutputFlag gives cmd the flag that [printAs] reads, and refuses what is none of its formats: json, yaml and those of the command.
func addOutputFlag(cmd *cobra.Command, output *string, more ...string) {
	formats := append([]string{"json", "yaml"}, more...)
	choices := strings.Join(formats[:len(formats)-1], ", ") + " or " + formats[len(formats)-1]
	cmd.Flags().StringVarP(output, "output", "o", "", "print "+choices+" instead of text for a person")
	complete(cmd, "output", func() []string { return formats })
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *output != "" && !slices.Contains(formats, *output) {
			return usagef("-o %q is not an output format; use %s", *output, choices)
		}
		return nil
	}
}

// printAs writes v as -o json or -o yaml say, or calls text where output is empty.
func printAs(w io.Writer, output string, v any, text func(io.Writer) error) error {
	switch output {
	case "":
		return text(inert.NewWriter(w))
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	case "yaml":
		return yaml.NewEncoder(w, yaml.UseJSONMarshaler()).Encode(v)
	default:
		panic("BUG: output format " + output)
	}
}
