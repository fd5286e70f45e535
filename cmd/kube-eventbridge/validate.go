// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

// verdict is what validate says of a file.
type verdict struct {
	File      string          `json:"file"`
	Valid     bool            `json:"valid"`
	Pipelines int             `json:"pipelines"`
	Resources int             `json:"resources"`
	Problems  config.Problems `json:"problems"`
	Warnings  config.Problems `json:"warnings"`
}

func newValidateCommand(s *streams) *cobra.Command {
	var file, output string
	cmd := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a configuration file without a cluster or a broker",
		Long: "Check a configuration file without a cluster or a broker. Every problem is one line on stderr:\n" +
			"FILE:LINE:COLUMN: path: what is wrong; what is valid. Files with secrets need not exist here.",
		Args: noArgs("kube-eventbridge validate --config {}"),
		RunE: func(*cobra.Command, []string) error { return validate(s, file, output) },
	}
	cmd.Flags().StringVarP(&file, "config", "c", "", "the configuration file")
	_ = cmd.MarkFlagRequired("config")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	addOutputFlag(cmd, &output)
	return cmd
}

// validate returns the problems of file as its error, and warns of what is allowed and costs a promise.
func validate(s *streams, file, output string) error {
	cfg, warnings, err := config.Load(file)
	var problems config.Problems
	if err != nil && !errors.As(err, &problems) {
		return err
	}
	v := verdict{File: file, Valid: err == nil, Problems: list(problems), Warnings: list(warnings)}
	if cfg != nil {
		v.Pipelines = len(cfg.Pipelines)
		for _, p := range cfg.Pipelines {
			v.Resources += len(p.Resources)
		}
	}
	printed := printAs(s.Out, output, v, func(w io.Writer) error {
		if !v.Valid {
			err = reported(err, warnings)
			return nil
		}
		printWarnings(s.Err, warnings)
		_, err := fmt.Fprintf(w, "%s: ok (%s, %s)\n", file, counted(v.Pipelines, "pipeline"), counted(v.Resources, "resource"))
		return err
	})
	return errors.Join(printed, err)
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// list returns p, and where there is none an empty one instead of nothing.
func list(p config.Problems) config.Problems { return append(config.Problems{}, p...) }
