// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/rbac"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// rbacFlags are what the command line of rbac says.
type rbacFlags struct {
	runFlags
	names rbac.Names
	// values: for the Helm chart, and not for kubectl apply.
	values bool
}

func newRBACCommand(s *cmdutil.Streams) *cobra.Command {
	flags := rbacFlags{runFlags: runFlags{replicas: true}}
	cmd := &cobra.Command{
		Use:   "rbac [--config FILE | RESOURCE...]",
		Short: "Print the permissions that a bridge or a replica needs in its cluster, and no more",
		Long: "Print the smallest roles for a configuration file, or for resources as run takes them, as YAML for kubectl " +
			"apply: list and\nwatch of each resource, in all namespaces or in those that are named, and get of the namespace " +
			"kube-system. For \"*.GROUP\" and \"*\" they allow\nevery resource of the group, or of all groups, whatever is " +
			"excluded, and to watch what defines resources. With leaderElection they allow its lease.\nWith --service-account " +
			"they are bound to it. With --helm-values they are values of the Helm chart, which binds them, and adds the " +
			"lease, itself.\n\n" +
			"For replicas they are what is needed in the cluster that is written to: to read, create, change and delete the " +
			"resources, in the\nnamespaces of into.namespaces; to watch namespaces and what defines resources; and a " +
			"ConfigMap for what a person has released.\nThe status is allowed with status: true. Whoever may write roles and " +
			"bindings may give itself everything.\n\n" +
			"Without a cluster it takes plurals of built-in resources, and plural.group of custom ones. " +
			"Short names, kinds and plurals\nof custom resources alone have to be looked up: name a cluster with --kubeconfig " +
			"or --context.",
		Example: "  kube-eventbridge rbac --config bridge.yaml --service-account kube-eventbridge | kubectl apply -f -\n" +
			"  kube-eventbridge rbac --config bridge.yaml --helm-values > rbac.yaml && helm upgrade bridge ./kube-eventbridge " +
			"-f values.yaml -f rbac.yaml\n  kube-eventbridge rbac pods certificates.cert-manager.io -n web,shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			given := cmd.Flags().Changed
			if given("service-account-namespace") && flags.names.Account == "" {
				return exit.Usagef("--service-account-namespace says where the account of --service-account is: give that too")
			}
			if flags.values && (given("service-account") || given("name")) {
				return exit.Usagef(
					"--helm-values: the chart names and binds the roles itself: leave --name and --service-account out")
			}
			flags.given = cmdutil.Given(cmd)
			if err := flags.check(); err != nil {
				return err
			}
			if err := flags.checkNames(); err != nil {
				return err
			}
			return printRoles(s, &flags, args)
		},
	}
	cmd.Flags().StringVarP(&flags.file, "config", "c", "", "the configuration file")
	cmd.Flags().StringSliceVarP(&flags.namespaces, "namespace", "n", nil,
		"the resources named here are read in this namespace only; repeatable")
	cmd.Flags().StringVar(&flags.kubeconfig, "kubeconfig", "", "look names up in the cluster of this kubeconfig")
	cmd.Flags().StringVar(&flags.context, "context", "", "look names up in the cluster of this context of the kubeconfig")
	cmd.Flags().StringVar(&flags.names.Role, "name", "kube-eventbridge", "`name` of the roles and bindings")
	cmd.Flags().StringVar(&flags.names.Account, "service-account", "",
		"bind the roles to the service account of this `name`")
	cmd.Flags().StringVar(&flags.names.AccountNamespace, "service-account-namespace", "default",
		"the `namespace` of the service account")
	cmd.Flags().BoolVar(&flags.values, "helm-values", false,
		"print rbac.rules and rbac.namespacedRules for the values of the Helm chart")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	cmdutil.CompleteResources(cmd, &flags.file)
	cmdutil.Complete(cmd, "context", func() []string { return cmdutil.ContextsIn(flags.kubeconfig) })
	return cmd
}

// checkNames refuses names that the API server would.
func (f *rbacFlags) checkNames() error {
	for _, n := range []struct {
		flag, value string
		wrong       func(string) []string
	}{
		{"name", f.names.Role, validation.IsDNS1123Subdomain},
		{"service-account", f.names.Account, validation.IsDNS1123Subdomain},
		{"service-account-namespace", f.names.AccountNamespace, validation.IsDNS1123Label},
	} {
		if n.value == "" && n.flag == "service-account" {
			continue
		}
		if wrong := n.wrong(n.value); len(wrong) > 0 {
			return exit.Usagef("--%s: %q is no name: %s; the namespace of the account is for --service-account-namespace",
				n.flag, n.value, wrong[0])
		}
	}
	return nil
}

// printRoles prints what the configuration needs.
func printRoles(s *cmdutil.Streams, f *rbacFlags, args []string) error {
	if f.file == "" && len(args) == 0 {
		return exit.Usagef("nothing to read: give resources (rbac pods deployments.apps) or --config FILE")
	}
	online := f.kubeconfig != "" || f.context != ""
	cfg, err := f.load(s, args)
	if err != nil {
		return err
	}
	look := offline
	if !online && f.file != "" {
		var unknown config.Problems
		for i := range cfg.Pipelines {
			unknown = append(unknown, unknownOffline(i, &cfg.Pipelines[i])...)
		}
		if unknown != nil {
			return cmdutil.Reported(config.Place(f.file, unknown), nil)
		}
	}
	if online {
		at, err := s.RestConfig(cfg.Kubernetes)
		if err != nil {
			return err
		}
		discovery, err := catalog.NewDiscovery(at)
		if err != nil {
			return err
		}
		look = func(name value.ResourceName) (source.Resource, error) { return lookUp(discovery, name) }
	}
	needed, err := neededBy(cfg, look)
	if err != nil {
		return err
	}
	if f.values {
		text, err := yaml.MarshalWithOptions(rbac.ValuesOf(rbac.Least(needed, f.names)), yaml.IndentSequence(true))
		if err != nil {
			return err
		}
		_, err = s.Out.Write(text)
		return err
	}
	own, err := ownAccess(cfg, f)
	if err != nil {
		return err
	}
	return printManifests(s.Out, rbac.Least(append(needed, own...), f.names))
}

// ownAccess returns what processes with a configuration do with objects of their own. These are in the bridge's
// namespace, where the file does not say another.
func ownAccess(cfg *config.Config, f *rbacFlags) ([]rbac.Access, error) {
	e := cfg.LeaderElection
	var has string
	switch {
	case e != nil && e.ResourceNamespace != "":
		return wiring.OwnAccess(cfg, e.ResourceNamespace), nil
	case f.names.Account != "":
		return wiring.OwnAccess(cfg, f.names.AccountNamespace), nil
	case e != nil:
		has = "leaderElection has its lease"
	case len(cfg.Replicas) > 0:
		has = "a replica has its ConfigMap"
	default:
		return nil, nil
	}
	problem := has + " in the namespace of the bridge, which %s does not say: give --service-account and " +
		"--service-account-namespace"
	if e != nil {
		problem += ", or write leaderElection.resourceNamespace"
	}
	return nil, exit.Usagef(problem, f.file)
}

func printManifests(w io.Writer, objects []rbac.Object) error {
	for i, o := range objects {
		text, err := yaml.MarshalWithOptions(o, yaml.IndentSequence(true))
		if err != nil {
			return err
		}
		if i > 0 {
			text = append([]byte("---\n"), text...)
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}

// neededBy returns what all pipelines and replicas need, but for objects of their own. The names of the pipelines'
// resources are looked up.
func neededBy(
	cfg *config.Config, look func(value.ResourceName) (source.Resource, error),
) (all []rbac.Access, err error) {
	for i := range cfg.Pipelines {
		for j := range cfg.Pipelines[i].Resources {
			reads, err := readsOf(&cfg.Pipelines[i].Resources[j], look)
			if err != nil {
				return nil, err
			}
			all = append(all, reads...)
		}
	}
	if len(cfg.Pipelines) > 0 {
		all = append(all, rbac.Identify()...)
	}
	for i := range cfg.Replicas {
		r := &cfg.Replicas[i]
		for j := range r.Resources {
			writes, err := wiring.WriteAccess(r, &r.Resources[j])
			if err != nil {
				return nil, exit.Usagef("replica %s: %w", r.Name, err)
			}
			all = append(all, writes...)
		}
	}
	if len(cfg.Replicas) > 0 {
		all = append(all, rbac.Follows()...)
	}
	return all, nil
}

// readsOf returns what an entry of a pipeline needs.
func readsOf(
	r *config.Resource, look func(value.ResourceName) (source.Resource, error),
) (all []rbac.Access, err error) {
	found, err := lookAny(r.Resource, look)
	switch {
	case err != nil:
		return nil, err
	case found.Namespaced:
	case len(r.Namespaces) > 0:
		return nil,
			&exit.InputError{Err: fmt.Errorf("resource %s is cluster-scoped and cannot be read in namespace %q: remove its "+
				"namespaces", r.Resource, r.Namespaces[0])}
	case r.NamespaceSelector != "":
		return nil,
			&exit.InputError{Err: fmt.Errorf("resource %s is cluster-scoped and cannot be read in selected namespaces: "+
				"remove its namespaceSelector", r.Resource)}
	}
	if r.NamespaceSelector != "" {
		all = append(all, rbac.Reads("", "namespaces", "")...)
	}
	for _, ns := range wiring.ScopesOf(r) {
		all = append(all, rbac.Reads(found.Group, found.Resource, ns)...)
	}
	return all, nil
}

// lookAny is look, and leaves a wildcard what it is.
func lookAny(
	name value.ResourceName, look func(value.ResourceName) (source.Resource, error),
) (source.Resource, error) {
	if !name.Wildcard() {
		return look(name)
	}
	return source.Resource{Group: cmp.Or(name.Group, rbac.Any), Resource: rbac.Any, Namespaced: true}, nil
}

// offline finds a resource without a cluster: one that API servers have by themselves, or one that is named with a
// group that is not one of theirs, which is believed to be a plural and to be in namespaces.
func offline(name value.ResourceName) (source.Resource, error) {
	r := source.Resource{Group: name.Group, Version: name.Version, Resource: name.Plural}
	inGroup := name.Group != "" || name.Version != ""
	known, found := builtin.Find(name.Plural, name.Group, inGroup)
	switch {
	case found:
		r.Group, r.Namespaced = known.Group, known.Namespaced
		return r, nil
	case inGroup && builtin.Every()[name.Group] == nil:
		r.Namespaced = true
		return r, nil
	}
	switch plural := builtin.Plural(name.Plural, name.Group, inGroup); {
	case plural != "":
		meant := name
		meant.Plural = plural
		return r, &exit.InputError{Err: fmt.Errorf("resource %q is a short name or a singular; write %s, or let it be "+
			"looked up in a cluster with --kubeconfig", name, meant)}
	default:
		return r, &exit.InputError{Err: fmt.Errorf(
			"resource %q: no plural that every cluster has; write plural.group, such as certificates.cert-manager.io, "+
				"or let it be looked up in a cluster with --kubeconfig", name)}
	}
}

// unknownOffline returns what [offline] does not find of a pipeline, with the paths of the keys.
func unknownOffline(i int, p *config.Pipeline) (problems config.Problems) {
	for j := range p.Resources {
		r := &p.Resources[j]
		if _, err := lookAny(r.Resource, offline); err != nil {
			problems = append(problems, config.Problem{
				Path:    fmt.Sprintf("pipelines[%d].resources[%d].resource", i, j),
				Message: err.Error(),
			})
		}
	}
	return problems
}

// lookUp asks a cluster for a resource.
func lookUp(d *catalog.Discovery, name value.ResourceName) (source.Resource, error) {
	r, err := d.Resolve(name.Arg())
	if apimeta.IsNoMatchError(err) {
		return r, &exit.InputError{Err: fmt.Errorf("%w; the cluster has no such resource now", err)}
	}
	return r, err
}
