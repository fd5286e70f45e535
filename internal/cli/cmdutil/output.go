// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/app"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
)

// Streams are the process's standard streams.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// Klog, if not nil, is told where what client-go logs goes. There is one such place in a process.
	Klog  func(*slog.Logger)
	Build app.Build
	// Hangups, if not nil, returns where each SIGHUP is told from then on, and what ends that.
	Hangups func() (<-chan os.Signal, func())
}

// Text returns where text for a person goes. No terminal obeys it.
func (s *Streams) Text() io.Writer { return inert.NewWriter(s.Out) }

// RestConfig finds the API server as kubectl does.
func (s *Streams) RestConfig(k config.Kubernetes) (*rest.Config, error) {
	return wiring.RestConfig(k, s.Build.UserAgent())
}

// AddOutputFlag gives cmd the flag that [printAs] reads, and refuses what is not one of its formats: json, yaml and
// those of the command.
func AddOutputFlag(cmd *cobra.Command, output *string, more ...string) {
	formats := append([]string{"json", "yaml"}, more...)
	choices := strings.Join(formats[:len(formats)-1], ", ") + " or " + formats[len(formats)-1]
	cmd.Flags().StringVarP(output, "output", "o", "", "print "+choices+" instead of text for a person")
	Complete(cmd, "output", func() []string { return formats })
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if *output != "" && !slices.Contains(formats, *output) {
			return exit.Usagef("-o %q is not an output format; use %s", *output, choices)
		}
		return nil
	}
}

// PrintAs writes v as -o json or -o yaml say, or calls text where output is empty.
func PrintAs(w io.Writer, output string, v any, text func(io.Writer) error) error {
	switch output {
	case "":
		return text(inert.NewWriter(w))
	case "json":
		return PrintJSON(w, v)
	case "yaml":
		return yaml.NewEncoder(w, yaml.UseJSONMarshaler(), yaml.CustomMarshaler(quoted)).Encode(v)
	default:
		panic("BUG: output format " + output)
	}
}

// PrintJSON writes v so that no terminal obeys it.
func PrintJSON(w io.Writer, v any) error {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(inert.AppendJSON(nil, text.Bytes()))
	return err
}

// quoted writes a text for YAML, which knows the escapes of JSON, if no terminal may obey it.
func quoted(s string) ([]byte, error) {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		text, err := json.Marshal(s)
		return inert.AppendJSON(nil, text), err
	}
	return yaml.Marshal(s)
}
