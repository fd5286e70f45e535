// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"io"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// addOutputFlag gives cmd the flag that [printAs] reads.
func addOutputFlag(cmd *cobra.Command, output *string) {
	cmd.Flags().StringVarP(output, "output", "o", "", "print json or yaml instead of text for a person")
	complete(cmd, "output", func() []string { return []string{"json", "yaml"} })
}

// printAs writes v as -o json or -o yaml say, or calls text where output is empty.
func printAs(w io.Writer, output string, v any, text func(io.Writer) error) error {
	switch output {
	case "":
		return text(w)
	case "json":
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	case "yaml":
		return yaml.NewEncoder(w, yaml.UseJSONMarshaler()).Encode(v)
	default:
		return usagef("-o %q is not an output format; use json or yaml", output)
	}
}
