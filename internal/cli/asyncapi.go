// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/asyncapi"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/endpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// asyncapiFlags are what the command line of asyncapi says.
type asyncapiFlags struct {
	file, output, kubeconfig, context string
}

func newAsyncAPICommand(s *cmdutil.Streams) *cobra.Command {
	var f asyncapiFlags
	cmd := &cobra.Command{
		Use:   "asyncapi --config FILE",
		Short: "Print an AsyncAPI document of what a configuration file publishes",
		Long: "Print an AsyncAPI 3.0 document of what the pipelines of a configuration file publish: servers, subjects or " +
			"topics, and for each resource the\nevents and markers with their attributes and data, as YAML. It has no " +
			"secrets, and is the same whenever the file is.\n\nWithout a cluster it takes plurals of built-in resources, and " +
			"plural.group of custom ones. Short names, kinds and plurals of custom\nresources alone have to be looked up: " +
			"name a cluster with --kubeconfig or --context. A cluster that the file does not name is a parameter,\nand so is " +
			"the version of a resource that is not looked up. Wildcards such as \"*.example.com\" are refused: what they name " +
			"differs between clusters,\nand changes, and a document says what there is.",
		Example: "  kube-eventbridge asyncapi --config bridge.yaml > asyncapi.yaml",
		Args:    cmdutil.NoArgs("kube-eventbridge asyncapi --config {}"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return printAsyncAPI(s, &f)
		},
	}
	cmdutil.AddOutputFlag(cmd, &f.output)
	cmd.Flags().Lookup("output").Usage = "print json or yaml (default yaml)"
	cmd.Flags().StringVarP(&f.file, "config", "c", "", "the configuration file")
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "", "look names up in the cluster of this kubeconfig")
	cmd.Flags().StringVar(&f.context, "context", "", "look names up in the cluster of this context of the kubeconfig")
	_ = cmd.MarkFlagRequired("config")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	cmdutil.Complete(cmd, "context", func() []string { return cmdutil.ContextsIn(f.kubeconfig) })
	return cmd
}

func printAsyncAPI(s *cmdutil.Streams, f *asyncapiFlags) error {
	cfg, warnings, err := config.Load(f.file)
	if err != nil {
		return cmdutil.Reported(err, warnings)
	}
	look, err := f.look(s, cfg)
	if err != nil {
		return err
	}
	d := asyncapi.Config{Cluster: cfg.Cluster}
	for i := range cfg.Pipelines {
		p := &cfg.Pipelines[i]
		if p.Sink.Stdout != nil {
			_, _ = fmt.Fprintf(s.Err, "pipeline %s prints to standard output, where there is no channel: it is left out\n",
				p.Name)
			continue
		}
		if unknown := unknownOffline(i, p); unknown != nil && f.kubeconfig == "" && f.context == "" {
			return cmdutil.Reported(config.Place(f.file, unknown), nil)
		}
		described, err := publishes(p, look)
		if err != nil {
			return fmt.Errorf("pipeline %s: %w", p.Name, err)
		}
		d.Pipelines = append(d.Pipelines, described)
	}
	if len(d.Pipelines) == 0 {
		return &exit.InputError{Err: fmt.Errorf(
			"no pipeline of %s publishes to NATS or Kafka, so there is nothing to describe", f.file)}
	}
	return cmdutil.PrintAs(s.Out, cmp.Or(f.output, "yaml"), asyncapi.Document(&d), nil)
}

// look returns what finds resources: in a cluster, if one is named.
func (f *asyncapiFlags) look(
	s *cmdutil.Streams, cfg *config.Config,
) (func(value.ResourceName) (source.Resource, error), error) {
	if f.kubeconfig == "" && f.context == "" {
		return offline, nil
	}
	at, err := s.RestConfig(config.Kubernetes{
		Kubeconfig: cmp.Or(f.kubeconfig, cfg.Kubernetes.Kubeconfig), Context: cmp.Or(f.context, cfg.Kubernetes.Context),
	})
	if err != nil {
		return nil, err
	}
	discovery, err := catalog.NewDiscovery(at)
	return func(name value.ResourceName) (source.Resource, error) { return lookUp(discovery, name) }, err
}

// publishes says what a pipeline publishes, and where.
func publishes(
	p *config.Pipeline, look func(value.ResourceName) (source.Resource, error),
) (d asyncapi.Pipeline, err error) {
	d = asyncapi.Pipeline{Name: p.Name, Broker: asyncapi.NATS, Structured: p.Encoding.Mode == config.Structured}
	if d.Address, err = wiring.SubjectOf(p); err != nil {
		return d, err
	}
	if k := p.Sink.Kafka; k != nil {
		d.Broker, d.Servers, d.Tombstones = asyncapi.Kafka, kafkaServers(k), k.Tombstones
		if k.Create != nil {
			d.Partitions, d.Replicas = k.Create.Partitions, k.Create.Replicas
		}
	} else {
		d.Servers, d.Stream = natsServers(p), wiring.JetStream(p).Stream
	}
	d.Profile, d.Reduced = encode.Profile(p.Encoding.Profile), p.Oversize != config.OversizeReject
	for _, r := range p.Resources {
		if r.Resource.Wildcard() {
			return d,
				&exit.InputError{Err: fmt.Errorf("resource %q is whatever a cluster has at a time, and a document says what "+
					"there is: describe a copy of the file that names each resource", r.Resource)}
		}
		found, err := look(r.Resource)
		if err != nil {
			return d, err
		}
		var operations []string
		for _, op := range r.Operations {
			operations = append(operations, string(op))
		}
		d.Resources = append(d.Resources, asyncapi.Resource{
			Operations: operations,
			Group:      found.Group, Version: found.Version, Plural: found.Resource, Namespaced: found.Namespaced,
			Namespaces: r.Namespaces, Payload: string(r.Payload),
		})
	}
	return d, nil
}

func natsServers(p *config.Pipeline) (servers []asyncapi.Server) {
	n := p.Sink.NATS
	if n == nil {
		return []asyncapi.Server{{Host: endpoint.Local(p.Sink.Embedded.Listen), Protocol: "nats"}}
	}
	var ways []asyncapi.Security
	switch {
	case n.User != "":
		ways = append(ways, asyncapi.Security{Name: "nats-user", Type: "userPassword"})
	case n.TokenFile != "" || n.TokenEnv != "":
		ways = append(ways, asyncapi.Security{Name: "nats-token", Type: "apiKey", In: "user", Description: "A token."})
	case n.NKeyFile != "" || n.CredsFile != "":
		ways = append(ways, asyncapi.Security{
			Name: "nats-nkey", Type: "asymmetricEncryption",
			Description: "An NKey, with a JWT where the server wants one.",
		})
	}
	if n.TLS != nil && n.TLS.CertFile != "" {
		ways = append(ways, asyncapi.Security{Name: "certificate", Type: "X509"})
	}
	for _, at := range n.Servers {
		if !strings.Contains(at, "://") {
			at = "nats://" + at
		}
		u, err := url.Parse(at)
		if err != nil {
			panic("BUG: the configuration took the server " + at)
		}
		s := asyncapi.Server{
			Host: u.Host, Protocol: u.Scheme, Path: strings.TrimSuffix(u.Path, "/"),
			TLS: n.TLS != nil || u.Scheme == "tls", Security: ways,
		}
		if s.Protocol == "tls" {
			s.Protocol = "nats"
		}
		servers = append(servers, s)
	}
	return servers
}

func kafkaServers(k *config.Kafka) (servers []asyncapi.Server) {
	var ways []asyncapi.Security
	if s := k.SASL; s != nil {
		ways = append(ways, kafkaSecurity(s))
	}
	protocol := "kafka"
	if k.TLS != nil {
		protocol = "kafka-secure"
		if k.TLS.CertFile != "" {
			ways = append(ways, asyncapi.Security{Name: "certificate", Type: "X509"})
		}
	}
	for _, b := range k.Brokers {
		servers = append(servers, asyncapi.Server{Host: b, Protocol: protocol, Security: ways})
	}
	return servers
}

// kafkaSecurity is what AsyncAPI calls a mechanism.
func kafkaSecurity(s *config.SASL) asyncapi.Security {
	switch {
	case s.Mechanism == config.Plain:
		return asyncapi.Security{Name: "kafka-plain", Type: "plain"}
	case s.Mechanism == config.ScramSHA256:
		return asyncapi.Security{Name: "kafka-scram-sha-256", Type: "scramSha256"}
	case s.Mechanism == config.ScramSHA512:
		return asyncapi.Security{Name: "kafka-scram-sha-512", Type: "scramSha512"}
	case s.TokenURL != "":
		return asyncapi.Security{Name: "kafka-oauth", Type: "oauth2", TokenURL: s.TokenURL, Scopes: s.Scopes}
	default:
		return asyncapi.Security{
			Name: "kafka-token", Type: "http", Scheme: "bearer",
			Description: "A token by SASL OAUTHBEARER.",
		}
	}
}
