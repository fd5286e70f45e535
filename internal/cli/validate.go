// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/preflight"
)

// verdict is what validate says of a file.
type verdict struct {
	File      string          `json:"file"`
	Valid     bool            `json:"valid"`
	Pipelines int             `json:"pipelines"`
	Resources int             `json:"resources"`
	Replicas  int             `json:"replicas,omitempty"`
	Problems  config.Problems `json:"problems"`
	Warnings  config.Problems `json:"warnings"`
	// Unreached are those of whom it is not known, with --cluster.
	Unreached config.Problems `json:"unreached,omitempty"`
	// Wildcards say what those of the file match, with --cluster.
	Wildcards []preflight.Match `json:"wildcards,omitempty"`
}

// validateFlags are what the command line of validate says.
type validateFlags struct {
	file, output, kubeconfig, context string
	cluster                           bool
}

func newValidateCommand(s *cmdutil.Streams) *cobra.Command {
	var f validateFlags
	cmd := &cobra.Command{
		Use:   "validate --config FILE",
		Short: "Check a configuration file, alone or against its cluster and its brokers",
		Long: "Check a configuration file without a cluster or a broker. Every problem is one line on stderr:\n" +
			"FILE:LINE:COLUMN: path: what is wrong; what is valid. Files with secrets need not exist here.\n" +
			"Short names of custom resources are not known. Only --cluster finds that two names of a pipeline are one such\n" +
			"resource, which run refuses.\n\n" +
			"With --cluster it asks the API server whether the resources exist, and whether the user of the kubeconfig may " +
			"list and\nwatch them, and write those of replicas. It asks brokers whether they take the credentials, and " +
			"whether the stream or\nthe topics have sound settings. Nothing is made or changed, so permissions to publish " +
			"are not tried. The exit code is 1\nif only somebody could not be asked.",
		Args: cmdutil.NoArgs("kube-eventbridge validate --config {}"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !f.cluster && (f.kubeconfig != "" || f.context != "") {
				return exit.Usagef("--kubeconfig and --context name a cluster, and none is asked: give --cluster too")
			}
			return validate(cmd.Context(), s, &f)
		},
	}
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "the configuration file")
	cmd.Flags().BoolVar(&f.cluster, "cluster", false, "ask the API server and the brokers too")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "",
		"path of the kubeconfig, with --cluster (default: that of the file, in-cluster, $KUBECONFIG, ~/.kube/config)")
	cmd.Flags().StringVar(&f.context, "context", "", "context of the kubeconfig, with --cluster")
	_ = cmd.MarkFlagRequired("config")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	cmdutil.AddOutputFlag(cmd, &f.output)
	cmdutil.Complete(cmd, "context", func() []string { return cmdutil.ContextsIn(f.kubeconfig) })
	return cmd
}

// validate returns the problems of the file as its error, and warns of what is allowed and costs a promise.
func validate(ctx context.Context, s *cmdutil.Streams, f *validateFlags) error {
	cfg, warnings, err := config.Load(f.file)
	var problems, unreached config.Problems
	if err != nil && !errors.As(err, &problems) {
		return err
	}
	v := verdict{File: f.file, Valid: err == nil}
	if cfg != nil {
		v.Pipelines = len(cfg.Pipelines)
		for _, p := range cfg.Pipelines {
			v.Resources += len(p.Resources)
		}
		v.Replicas = len(cfg.Replicas)
		for _, r := range cfg.Replicas {
			v.Resources += len(r.Resources)
		}
	}
	if f.cluster && v.Valid {
		cfg.Kubernetes.Kubeconfig = cmp.Or(f.kubeconfig, cfg.Kubernetes.Kubeconfig)
		cfg.Kubernetes.Context = cmp.Or(f.context, cfg.Kubernetes.Context)
		found, unasked := preflight.Check(ctx, cfg, s.Build.UserAgent())
		if unasked != nil {
			return unasked
		}
		problems, unreached = config.Place(f.file, found.Problems), config.Place(f.file, found.Unreached)
		warnings = append(warnings, config.Place(f.file, found.Warnings)...)
		v.Valid, v.Wildcards = len(problems) == 0, found.Wildcards
		if len(problems)+len(unreached) > 0 {
			err = &cmdutil.Report{Problems: problems, Unreached: unreached}
		}
	}
	v.Problems, v.Warnings, v.Unreached = list(problems), list(warnings), unreached
	printed := cmdutil.PrintAs(s.Out, f.output, v, func(w io.Writer) error {
		if err != nil {
			err = &cmdutil.Report{Problems: problems, Warnings: warnings, Unreached: unreached}
			return nil
		}
		cmdutil.PrintWarnings(s.Err, warnings)
		_, err := fmt.Fprintf(w, "%s: ok (%s)\n", f.file, v.counts())
		for _, m := range v.Wildcards {
			_, _ = fmt.Fprintf(w, "%s: %s matches %s now\n", m.Path, m.Resource, cmdutil.Counted(m.Count, "resource"))
		}
		return err
	})
	return errors.Join(printed, err)
}

// counts says how much there is of what the file has.
func (v *verdict) counts() string {
	var all []string
	if v.Pipelines > 0 {
		all = append(all, cmdutil.Counted(v.Pipelines, "pipeline"))
	}
	if v.Replicas > 0 {
		all = append(all, cmdutil.Counted(v.Replicas, "replica"))
	}
	return strings.Join(append(all, cmdutil.Counted(v.Resources, "resource")), ", ")
}

// list returns p, and where there is none an empty one instead of nothing.
func list(p config.Problems) config.Problems { return append(config.Problems{}, p...) }
