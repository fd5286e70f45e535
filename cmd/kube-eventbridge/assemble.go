// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	sinkkafka "github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/embedded"
	"github.com/kube-eventbridge/kube-eventbridge/sink/stdout"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// publish makes the pipelines and runs them until ctx ends, or one of them must not go on.
func (p *process) publish(ctx context.Context) error {
	if _, err := p.embedded(p.cfg); err != nil {
		return err
	}
	uid, err := p.cluster(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return p.beside(ctx, func(ctx context.Context) error {
		about := []any{"version", build().Version, "apiServer", p.host, "cluster", cmp.Or(p.cfg.Cluster, uid), "clusterUID", uid}
		if p.cfg.KeepsState() {
			about = append(about, "dataDir", p.dataDir())
		}
		p.log.Info("starting", about...)
		if p.cfg.LeaderElection != nil {
			return p.stand(ctx, uid)
		}
		f, err := p.launch(func(cfg *config.Config) (*fleet, error) { return p.newFleet(uid, cfg, nil) })
		if err != nil {
			return err
		}
		return f.run(ctx)
	})
}

// beside runs what tells of resources and namespaces that come and go, until work has ended.
func (p *process) beside(ctx context.Context, work func(context.Context) error) error {
	g, told := errgroup.WithContext(ctx)
	told, stop := context.WithCancel(told)
	g.Go(func() error { return p.catalog.Run(told) })
	g.Go(func() error {
		select {
		case <-p.selecting:
			return p.namespaces.Run(told)
		case <-told.Done():
			return nil
		}
	})
	g.Go(func() error {
		defer stop()
		return work(told)
	})
	return g.Wait()
}

// need has told what a configuration's pipelines need to be told of, from now on.
func (p *process) need(cfg *config.Config) {
	if hasWildcards(cfg) {
		p.catalog.Watch()
	}
	if selectsNamespaces(cfg) {
		p.selects()
	}
}

// dataDir is where state is kept, for the log.
func (p *process) dataDir() string {
	dir, err := p.cfg.StateDir()
	if err != nil {
		return err.Error()
	}
	return dir
}

// sayWhere tells a person how to see the events.
func (p *process) sayWhere(s *embedded.Server) {
	if !p.fromArgs {
		return
	}
	command := "kube-eventbridge tail"
	if url := s.ClientURL(); url != "nats://127.0.0.1:4222" {
		command += " --server " + url
	}
	p.log.Info("to see the events, run this in a second terminal", "command", command)
}

// cluster waits for the API server's answer to which cluster this is.
func (p *process) cluster(ctx context.Context) (uid string, err error) {
	const longest = 10 * time.Second
	for delay, tries := 250*time.Millisecond, 0; ; delay, tries = min(2*delay, longest), tries+1 {
		uid, err = p.client.ClusterUID(ctx)
		p.setStartError(err)
		if err == nil {
			p.setCluster(uid)
			return uid, nil
		}
		if tries%6 == 0 && ctx.Err() == nil {
			p.log.Warn("waiting for the API server", "err", err)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(delay):
		}
	}
}

// embedded makes the NATS server that pipelines without a broker of their own publish to; nil if there are none.
func (p *process) embedded(cfg *config.Config) (*broker, error) {
	for i := range cfg.Pipelines {
		e := cfg.Pipelines[i].Sink.Embedded
		if e == nil {
			continue
		}
		dir, err := cfg.StoreDir(e)
		if err != nil {
			return nil, err
		}
		server, err := embedded.New(embedded.Config{
			Listen: e.Listen, ListenKey: p.brokerKey(i), StoreDir: dir, StoreKey: p.storeKey(cfg, i),
		}, p.log.With("component", "nats"))
		if err != nil {
			return nil, err
		}
		return &broker{server: server}, nil // a process has one
	}
	return nil, nil //nolint:nilnil // no pipeline publishes to one
}

// pipeline returns what pipeline i of a configuration is made of, without a checkpoint.
func (p *process) pipeline(cfg *config.Config, i int, uid string, server *broker) (b bridge.Config, err error) {
	c := &cfg.Pipelines[i]
	id := p.identity(c, uid)
	specs, subject, err := p.streams(c, id)
	if err != nil {
		return b, err
	}
	clock := &sinkkafka.Clock{} // a session that follows another one does not go back in time
	to := func(epoch func() uint64) (sink.Sink, error) { return p.sink(c, id, server, subject, clock, epoch) }
	if _, err := to(nil); err != nil { // before anything has begun
		return b, fmt.Errorf("pipeline %s: %w", c.Name, err)
	}
	return bridge.Config{
		Name: c.Name, Siblings: names(cfg), Target: target(c, id), Streams: specs, Client: p.client, Watches: p.watches, Catalog: p.catalog, Namespaces: p.namespaces, Sink: to, Identity: id,
		Buffer: int64(cfg.BufferShare(c)), Recovery: recovery(c.Recovery), Audit: c.Audit.Interval,
		StopOnReject: c.OnReject == config.OnRejectStop, Oversize: oversize(c.Oversize), Unfenced: unfenced(&c.Sink),
		Metrics: p.metrics, Log: p.log,
	}, nil
}

// names returns those of the pipelines of a configuration.
func names(cfg *config.Config) (all []string) {
	for i := range cfg.Pipelines {
		all = append(all, cfg.Pipelines[i].Name)
	}
	return all
}

// unfenced reports whether the broker is not to check what each event follows.
func unfenced(s *config.Sink) bool {
	return s.NATS != nil && !s.NATS.Fence || s.Embedded != nil && !s.Embedded.Fence
}

// identity says whose the checkpoint of a pipeline is.
func (p *process) identity(c *config.Pipeline, uid string) checkpoint.Identity {
	return checkpoint.Identity{ClusterUID: uid, Cluster: cmp.Or(p.cfg.Cluster, uid), Pipeline: c.Name}
}

func oversize(o config.Oversize) bridge.Oversize {
	switch o {
	case config.OversizeMetadata:
		return bridge.ReduceOversize
	case config.OversizeStore:
		return bridge.StoreOversize
	default:
		return bridge.RejectOversize
	}
}

// store opens the checkpoint of pipeline i of a configuration.
func (p *process) store(cfg *config.Config, i int, id checkpoint.Identity) (openStore, error) {
	c := &cfg.Pipelines[i]
	switch {
	case c.Checkpoint.Kafka != nil:
		return p.kafkaStore(c, id)
	case c.Checkpoint.NATS != nil:
		return p.natsStore(c, id)
	}
	path, err := cfg.CheckpointPath(c)
	if err != nil {
		return nil, err
	}
	s, err := file.Open(filepath.Clean(path), id)
	if err != nil {
		return nil, p.checkpointError(cfg, i, err)
	}
	return s, nil
}

func recovery(c config.Recovery) source.Recovery {
	if !c.Enabled {
		return source.Recovery{}
	}
	return source.Recovery{Reads: c.MaxReads, Time: c.MaxTime}
}

// streams says what a pipeline reads, and the subjects that it will publish to.
func (p *process) streams(c *config.Pipeline, id checkpoint.Identity) ([]bridge.StreamSpec, *encode.Template, error) {
	subject, err := subjectOf(c)
	if err != nil {
		return nil, nil, err
	}
	hashes, err := secretHashes(c)
	if err != nil {
		return nil, nil, err
	}
	var specs []bridge.StreamSpec
	for _, r := range c.Resources {
		encoding := encode.Config{
			Cluster: id.Cluster, Pipeline: c.Name, Mode: encode.Mode(c.Encoding.Mode), Payload: encode.Payload(r.Payload),
			SecretValues: c.Encoding.Secrets.Values, SecretAnnotations: c.Encoding.Secrets.Annotations, SecretHashes: hashes,
			Subject: subject, BareIDs: c.Sink.Kafka != nil,
			Profile: encode.Profile(c.Encoding.Profile), Host: p.apiServer,
		}
		if encoding.Redact, err = paths(c.Encoding.Redact, r.Redact); err != nil {
			return nil, nil, err
		}
		for _, k := range c.Encoding.Keep {
			encoding.Keep = append(encoding.Keep, string(k))
		}
		filter, olds, err := filterOf(c, &r)
		if err != nil {
			return nil, nil, err
		}
		scopes, err := scoped(&r)
		if err != nil {
			return nil, nil, err
		}
		for _, spec := range scopes {
			one := r
			one.Namespaces = []string{spec.Namespace}
			spec.Says = fmt.Sprintf("%#v", one)
			spec.Latest, spec.SkipSnapshot = r.Delivery == config.Latest, r.Snapshot == config.SnapshotNever
			spec.Filter, spec.Olds, spec.Resync, spec.Encoding = filter, olds, r.Resync, encoding
			specs = append(specs, spec)
		}
	}
	return specs, subject, nil
}

// scoped says of an entry what is read, in each of its scopes, and not what becomes of it.
func scoped(r *config.Resource) (specs []bridge.StreamSpec, err error) {
	selector, err := namespaceSelector(r)
	for _, ns := range scopesOf(r) {
		specs = append(specs, bridge.StreamSpec{
			Resource: r.Resource.Arg(), Wildcard: wildcardOf(r), Namespace: ns, NamespaceSelector: selector, LabelSelector: r.LabelSelector, FieldSelector: r.FieldSelector,
		})
	}
	return specs, err
}

// namespaceSelector returns which namespaces an entry is about; nil if that is not said by their labels.
func namespaceSelector(r *config.Resource) (labels.Selector, error) {
	if r.NamespaceSelector == "" {
		return nil, nil //nolint:nilnil // it has none
	}
	return labels.Parse(r.NamespaceSelector)
}

// wildcardOf returns which resources an entry names; nil if it names one.
func wildcardOf(r *config.Resource) *bridge.Wildcard {
	if !r.Resource.Wildcard() {
		return nil
	}
	w := &bridge.Wildcard{All: r.Resource.Group == "", Group: r.Resource.Group}
	for _, e := range r.Exclude {
		x := bridge.Exclusion{Name: e.Plural, Group: e.Group, Version: e.Version, AnyGroup: e.Group == "" && e.Version == ""}
		if e.Wildcard() {
			x.Name = ""
		}
		w.Exclude = append(w.Exclude, x)
	}
	return w
}

// subjectOf returns the template of a pipeline's subjects or topics; nil where its sink has none.
func subjectOf(c *config.Pipeline) (*encode.Template, error) {
	if c.Sink.Kafka != nil {
		return encode.ParseTemplate(encode.Topic, c.Sink.Kafka.Topic)
	}
	if js := jetStream(c); js != nil {
		return encode.ParseTemplate(encode.Subject, js.Subject)
	}
	return nil, nil
}

// jetStream returns the stream that a pipeline publishes to; nil where its sink has none.
func jetStream(c *config.Pipeline) *config.JetStream {
	switch {
	case c.Sink.NATS != nil:
		return &c.Sink.NATS.JetStream
	case c.Sink.Embedded != nil:
		return &c.Sink.Embedded.JetStream
	default:
		return nil
	}
}

// target names what a pipeline publishes to.
func target(c *config.Pipeline, id checkpoint.Identity) string {
	if c.Sink.Kafka != nil {
		return "topic " + topicsOf(c.Sink.Kafka, id)
	}
	if js := jetStream(c); js != nil {
		return "stream " + js.Stream
	}
	return "standard output"
}

func (p *process) sink(
	c *config.Pipeline, id checkpoint.Identity, server *broker, subject *encode.Template, clock *sinkkafka.Clock,
	epoch func() uint64,
) (sink.Sink, error) {
	if c.Sink.Kafka != nil {
		return p.kafkaSink(c, id, clock, epoch)
	}
	js := jetStream(c)
	if js == nil {
		return stdout.New(p.out.Out, p.format, p.log), nil
	}
	if c.Sink.Embedded != nil {
		n := streamConfig(js, subject)
		n.Client.InProcess = server.server
		return nats.New(n, p.log)
	}
	n, err := natsConfig(c.Sink.NATS, subject)
	if err != nil {
		return nil, &inputError{err}
	}
	to, err := nats.New(n, p.log)
	if err != nil {
		return nil, &inputError{err}
	}
	return to, nil
}

// streamConfig is what a sink is told of its stream.
func streamConfig(js *config.JetStream, subject *encode.Template) nats.Config {
	return nats.Config{
		Stream: js.Stream, Subjects: []string{subject.Wildcard()},
		Limits: nats.Limits{MaxBytes: int64(js.MaxBytes), MaxAge: js.MaxAge, Duplicates: js.DuplicateWindow},
	}
}

// natsConfig is that of a sink with servers of its own. It reads the files of secrets.
func natsConfig(remote *config.NATS, subject *encode.Template) (n nats.Config, err error) {
	n = streamConfig(&remote.JetStream, subject)
	n.Client.Auth, n.Client.TLS, err = accessTo(&remote.NATSAccess)
	n.Client.Servers, n.Limits.Replicas = remote.Servers, remote.Replicas
	return n, err
}
