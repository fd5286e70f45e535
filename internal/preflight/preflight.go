// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	checkpointkafka "github.com/kube-eventbridge/kube-eventbridge/checkpoint/kafka"
	checkpointnats "github.com/kube-eventbridge/kube-eventbridge/checkpoint/nats"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/rbac"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	sinkkafka "github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

// granted is what helps who lacks a permission.
const granted = "kube-eventbridge rbac prints the roles that allow it"

// Findings are what was found. Each has the path of the key that it is about, and no place in a file.
type Findings struct {
	// Problems have to be mended. Unreached are those of whom it is not known. Warnings cost something.
	Problems, Unreached, Warnings config.Problems
	// Wildcards say of each how many resources it names.
	Wildcards []Match
}

// Check asks the API server and the brokers of a configuration about everything in it. It changes nothing. The user
// agent is what the API server's audit log has. The error says why nothing can be asked.
func Check(ctx context.Context, cfg *config.Config, userAgent string) (Findings, error) {
	c := checkup{cfg: cfg, userAgent: userAgent}
	err := c.check(ctx)
	return c.Findings, err
}

// checkup asks.
type checkup struct {
	cfg       *config.Config
	userAgent string
	// api is the API server, and uid the cluster's as far as it is told.
	api *rest.Config
	uid string
	Findings
}

func add(to *config.Problems, path, format string, args ...any) {
	*to = append(*to, config.Problem{Path: path, Message: strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")})
}

func (c *checkup) check(ctx context.Context) error {
	uid, err := c.checkAPI(ctx)
	if err != nil {
		return err
	}
	c.uid = uid
	for i := range c.cfg.Pipelines {
		p := &c.cfg.Pipelines[i]
		path := fmt.Sprintf("pipelines[%d]", i)
		// Without a cluster's name, and without a cluster, {cluster} stands for any.
		id := checkpoint.Identity{ClusterUID: uid, Cluster: cmp.Or(c.cfg.Cluster, uid, "{cluster}"), Pipeline: p.Name}
		if _, err := p.Encoding.Secrets.HashKey(); err != nil {
			add(&c.Problems, path+".encoding.secrets.hashes", "%v", err)
		}
		unreached := len(c.Unreached)
		switch {
		case p.Sink.NATS != nil:
			c.checkNATS(ctx, path, p)
		case p.Sink.Kafka != nil:
			c.checkKafka(ctx, path, p, id)
		}
		c.checkBucket(ctx, path, p, len(c.Unreached) == unreached)
	}
	for i := range c.cfg.Replicas {
		c.checkReplica(ctx, fmt.Sprintf("replicas[%d]", i), &c.cfg.Replicas[i])
	}
	return nil
}

// checkAPI asks the API server about all resources, and returns the cluster's uid as far as it is told.
func (c *checkup) checkAPI(ctx context.Context) (uid string, err error) {
	at, err := wiring.RestConfig(c.cfg.Kubernetes, c.userAgent)
	if err != nil {
		return "", err
	}
	address, err := wiring.AddressOf(at)
	if err != nil {
		return "", err
	}
	c.api = at
	client, err := kube.NewClient(at)
	if err != nil {
		return "", err
	}
	defer client.CloseIdleConnections()
	discovery, err := catalog.NewDiscovery(at)
	if err != nil {
		return "", err
	}
	if len(c.cfg.Pipelines) > 0 {
		uid, err = client.ClusterUID(ctx)
	} else { // replicas need no uid, and an answer tells as much
		_, err = client.Allowed(ctx, kube.Action{Verb: "list", Resource: "namespaces"})
	}
	switch {
	case apierrors.IsForbidden(err):
		add(&c.Problems, "kubernetes", "%v; %s", err, granted)
	case apierrors.IsUnauthorized(err):
		add(&c.Problems, "kubernetes",
			"the API server %s refuses the credentials: %v; name others with kubernetes.kubeconfig and kubernetes.context",
			address, err)
		return "", nil
	case err != nil:
		add(&c.Unreached, "kubernetes", "the API server %s cannot be asked: %v", address, err)
		return "", nil
	}
	catalog, err := catalog.New(at, client, catalog.Config{})
	if err != nil {
		return "", err
	}
	for i := range c.cfg.Pipelines {
		var before []resolved
		for j := range c.cfg.Pipelines[i].Resources {
			r := &c.cfg.Pipelines[i].Resources[j]
			path := fmt.Sprintf("pipelines[%d].resources[%d]", i, j)
			if r.Resource.Wildcard() {
				c.checkWildcard(ctx, client, catalog, path, r)
				c.checkSelector(ctx, client, path, r)
				continue
			}
			if found, ok := c.checkResource(discovery, path, r); ok {
				found = c.checkMeaning(ctx, catalog, path, r, found)
				before = c.checkShared(path, before, resolved{r, found})
				c.checkReads(ctx, client, path, r, found)
				c.checkSelector(ctx, client, path, r)
			}
		}
	}
	for i := range c.cfg.Replicas {
		c.checkWrites(ctx, client, fmt.Sprintf("replicas[%d]", i), &c.cfg.Replicas[i])
	}
	if len(c.cfg.Replicas) > 0 {
		c.checkAllowed(ctx, client, &c.Warnings, "replicas", rbac.Follows())
	}
	c.checkOwn(ctx, client)
	return uid, nil
}

// checkOwn asks whether the process may stand for its leases, and write the ConfigMaps of its replicas.
func (c *checkup) checkOwn(ctx context.Context, client *kube.Client) {
	path := "leaderElection"
	switch {
	case c.cfg.LeaderElection != nil:
	case len(c.cfg.Replicas) > 0:
		path = "replicas"
	default:
		return
	}
	namespace, err := wiring.OwnNamespace(c.cfg)
	if err != nil {
		add(&c.Problems, path, "%v", err)
		return
	}
	c.checkAllowed(ctx, client, &c.Problems, path, wiring.OwnAccess(c.cfg, namespace))
}

// checkAllowed asks whether requests are allowed, and adds those that are not: one line for each resource.
func (c *checkup) checkAllowed(
	ctx context.Context, client *kube.Client, to *config.Problems, path string, all []rbac.Access,
) {
	var on rbac.Access // without its verb
	var lacking []string
	tell := func() {
		if len(lacking) > 0 {
			add(to, path, "the user of the kubeconfig may not %s %s in %s; %s", strings.Join(lacking, ", "),
				strings.TrimSpace(on.GroupResource()+" "+on.Name), scopeName(on.Namespace), granted)
		}
	}
	for _, a := range all {
		allowed, err := client.Allowed(ctx, kube.Action(a))
		if err != nil {
			add(&c.Unreached, path, "the API server does not say whether %s %s is allowed: %v", a.Verb, a.GroupResource(), err)
			return
		}
		verb := a.Verb
		if a.Verb = ""; a != on {
			tell()
			on, lacking = a, nil
		}
		if !allowed {
			lacking = append(lacking, verb)
		}
	}
	tell()
}

// checkReads asks whether a resource may be read.
func (c *checkup) checkReads(
	ctx context.Context, client *kube.Client, path string, r *config.Resource, found source.Resource,
) {
	for _, ns := range wiring.ScopesOf(r) {
		c.checkAllowed(ctx, client, &c.Problems, path, rbac.Reads(found.Group, found.Resource, ns))
	}
}

// checkSelector asks whether the namespaces may be read that an entry selects from.
func (c *checkup) checkSelector(ctx context.Context, client *kube.Client, path string, r *config.Resource) {
	if r.NamespaceSelector != "" {
		c.checkAllowed(ctx, client, &c.Problems, path+".namespaceSelector", rbac.Reads("", "namespaces", ""))
	}
}

func scopeName(namespace string) string {
	if namespace == "" {
		return "all namespaces"
	}
	return "namespace " + namespace
}

// checkResource finds a resource, unless something is wrong with it.
func (c *checkup) checkResource(d *catalog.Discovery, path string, r *config.Resource) (source.Resource, bool) {
	found, err := d.Resolve(r.Resource.Arg())
	switch {
	case apimeta.IsNoMatchError(err):
		add(&c.Problems, path+".resource",
			"the cluster has no resource %s now; kubectl api-resources lists those that it has", r.Resource)
		return found, false
	case err != nil:
		add(&c.Unreached, path+".resource", "the API server does not say what it has: %v", err)
		return found, false
	case !c.checkScope(path, r, found):
		return found, false
	}
	readable, err := d.Readable(found)
	switch {
	case err != nil:
		add(&c.Unreached, path+".resource", "the API server does not say what it has: %v", err)
	case !readable:
		add(&c.Problems, path+".resource",
			"%s cannot be listed and watched; name a resource that has the verbs list and watch in kubectl "+
				"api-resources -o wide", r.Resource)
	}
	return found, err == nil && readable
}

func (c *checkup) checkNATS(ctx context.Context, pipeline string, p *config.Pipeline) {
	path := pipeline + ".sink.nats"
	subject, err := wiring.SubjectOf(p)
	if err != nil {
		add(&c.Problems, path+".subject", "%v", err)
		return
	}
	to, err := wiring.NATSSink(p.Sink.NATS, subject)
	if err != nil {
		add(&c.Problems, path, "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wiring.AskFor)
	defer cancel()
	warnings, err := nats.Check(ctx, to)
	c.noteBroker(path, strings.Join(to.Client.Servers, ","), warnings, err)
	if p.Oversize == config.OversizeStore && (err == nil || isUnusable(err)) { // else the same servers would say the same
		warnings, err = nats.CheckBucket(ctx, to)
		c.noteBroker(pipeline+".oversize", strings.Join(to.Client.Servers, ","), warnings, err)
	}
}

func (c *checkup) checkKafka(ctx context.Context, path string, p *config.Pipeline, id checkpoint.Identity) {
	to, err := wiring.KafkaSink(p, id)
	if err != nil {
		add(&c.Problems, path+".sink.kafka", "%v", err)
		return
	}
	to.Log = slog.New(slog.DiscardHandler)
	limited, cancel := context.WithTimeout(ctx, wiring.AskFor)
	defer cancel()
	warnings, err := sinkkafka.Check(limited, to)
	c.noteBroker(path+".sink.kafka", strings.Join(to.Brokers, ","), warnings, err)
	if p.Checkpoint.Kafka == nil || err != nil && !isUnusable(err) {
		return // the same brokers would say the same
	}
	keep, err := wiring.KafkaCheckpoint(p)
	c.checkCheckpoint(ctx, path+".checkpoint.kafka", err,
		func(ctx context.Context) error { return checkpointkafka.Check(ctx, keep, id) })
}

func isUnusable(err error) bool {
	var unusable *sink.UnusableError
	return errors.As(err, &unusable)
}

func (c *checkup) noteBroker(path, at string, warnings []string, err error) {
	for _, w := range warnings {
		add(&c.Warnings, path, "%s", w)
	}
	switch {
	case err == nil:
	case isUnusable(err):
		add(&c.Problems, path, "%v", err)
	case sink.IsPermanent(err):
		add(&c.Problems, path, "%s: %v", at, err)
	default:
		add(&c.Unreached, path, "%s cannot be asked: %v", at, err)
	}
}

// checkBucket asks about a checkpoint in NATS, unless its servers have just given no answer.
func (c *checkup) checkBucket(ctx context.Context, path string, p *config.Pipeline, answered bool) {
	if p.Checkpoint.NATS == nil || len(p.Checkpoint.NATS.Servers) == 0 && !answered {
		return
	}
	keep, err := wiring.NATSCheckpoint(p)
	c.checkCheckpoint(ctx, path+".checkpoint.nats", err,
		func(ctx context.Context) error { return checkpointnats.Check(ctx, keep) })
}

// checkCheckpoint asks a broker about the checkpoint at path, unless its configuration is wrong.
func (c *checkup) checkCheckpoint(ctx context.Context, path string, wrong error, ask func(context.Context) error) {
	if wrong != nil {
		add(&c.Problems, path, "%v", wrong)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, wiring.AskFor)
	defer cancel()
	switch err := ask(ctx); {
	case checkpoint.IsPermanent(err):
		add(&c.Problems, path, "%v", err)
	case err != nil:
		add(&c.Unreached, path, "%v", err)
	}
}
