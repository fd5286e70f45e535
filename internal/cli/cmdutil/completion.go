// SPDX-License-Identifier: Apache-2.0

package cmdutil

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

// Complete makes a shell offer what values returns for a flag.
func Complete(cmd *cobra.Command, flag string, values func() []string) {
	_ = cmd.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]cobra.Completion,
		cobra.ShellCompDirective,
	) {
		return values(), cobra.ShellCompDirectiveNoFileComp
	})
}

// CompleteArgs makes a shell offer what values returns, but for what is on the command line already.
func CompleteArgs(cmd *cobra.Command, values func(begun string) []string) {
	cmd.ValidArgsFunction = func(_ *cobra.Command, args []string, begun string) ([]cobra.Completion,
		cobra.ShellCompDirective,
	) {
		left := slices.DeleteFunc(values(begun), func(v string) bool { return slices.Contains(args, v) })
		return left, cobra.ShellCompDirectiveNoFileComp
	}
}

// CompleteResources makes a shell offer resources as arguments, unless a file names them.
func CompleteResources(cmd *cobra.Command, file *string) {
	CompleteArgs(cmd, func(begun string) []string {
		if *file != "" {
			return nil
		}
		return Offered(begun)
	})
}

// Offered returns the resources that every cluster has; to who has begun a wildcard, those of its groups.
func Offered(begun string) []string {
	if !strings.HasPrefix(begun, "*") {
		return Builtins()
	}
	all := []string{"*"}
	for group := range builtin.Every() {
		if group != "" {
			all = append(all, "*."+group)
		}
	}
	slices.Sort(all)
	return all
}

// Builtins returns the resources that every cluster has, as they are named without doubt.
func Builtins() (names []string) {
	for group, plurals := range builtin.Every() {
		for _, plural := range plurals {
			if group != "" {
				plural += "." + group
			}
			names = append(names, plural)
		}
	}
	slices.Sort(names)
	return names
}

// PipelinesIn returns the names of the pipelines of a file; none where it cannot be read.
func PipelinesIn(file string) (names []string) {
	cfg, _, err := config.Load(file)
	if err != nil {
		return nil
	}
	for _, p := range cfg.Pipelines {
		names = append(names, p.Name)
	}
	return names
}

// ResourcesIn returns those of a file's pipelines, or of the one that is named.
func ResourcesIn(file, pipeline string) (names []string) {
	cfg, _, err := config.Load(file)
	if err != nil {
		return nil
	}
	for _, p := range cfg.Pipelines {
		for _, r := range p.Resources {
			if pipeline == "" || p.Name == pipeline {
				names = append(names, r.Resource.String())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ContextsIn returns those of a kubeconfig, or of the usual ones.
func ContextsIn(kubeconfig string) []string {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.WarnIfAllMissing = kubeconfig, false
	raw, err := rules.Load()
	if err != nil {
		return nil
	}
	return slices.Sorted(maps.Keys(raw.Contexts))
}
