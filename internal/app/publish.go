// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/wiring"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	sinkkafka "github.com/kube-eventbridge/kube-eventbridge/sink/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/embedded"
)

// publish makes the pipelines and runs them until ctx ends, or one of them must not go on.
func (p *process) publish(ctx context.Context) error {
	if _, err := p.embedded(p.cfg); err != nil {
		return err
	}
	uid, err := p.awaitCluster(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return p.beside(ctx, func(ctx context.Context) error {
		about := []any{
			"version", p.build.Version, "apiServer", p.host, "cluster", cmp.Or(p.cfg.Cluster, uid), "clusterUID",
			uid,
		}
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
func (c *cluster) beside(ctx context.Context, work func(context.Context) error) error {
	g, told := errgroup.WithContext(ctx)
	told, stop := context.WithCancel(told)
	g.Go(func() error { return c.catalog.Run(told) })
	g.Go(func() error {
		select {
		case <-c.selecting:
			return c.namespaces.Run(told)
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
func (c *cluster) need(cfg *config.Config) {
	if hasWildcards(cfg) {
		c.catalog.Watch()
	}
	if selectsNamespaces(cfg) {
		c.selects()
	}
}

// dataDir is where state is kept, for the log.
func (b *builder) dataDir() string {
	dir, err := b.cfg.StateDir()
	if err != nil {
		return err.Error()
	}
	return dir
}

// sayWhere tells a person how to see the events.
func (b *builder) sayWhere(s *embedded.Server) {
	if !b.fromArgs {
		return
	}
	command := "kube-eventbridge tail"
	if url := s.ClientURL(); url != "nats://127.0.0.1:4222" {
		command += " --server " + url
	}
	b.log.Info("to see the events, run this in a second terminal", "command", command)
}

// awaitCluster waits for the API server's answer to which cluster this is.
func (p *process) awaitCluster(ctx context.Context) (uid string, err error) {
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
func (b *builder) embedded(cfg *config.Config) (*broker, error) {
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
			Listen: e.Listen, ListenKey: b.brokerKey(i), StoreDir: dir, StoreKey: b.storeKey(cfg, i),
		}, b.log.With("component", "nats"))
		if err != nil {
			return nil, err
		}
		return &broker{server: server}, nil // a process has one
	}
	return nil, nil //nolint:nilnil // no pipeline publishes to one
}

// pipeline returns what pipeline i of a configuration is made of, without a checkpoint.
func (b *builder) pipeline(cfg *config.Config, i int, uid string, server *broker) (made bridge.Config, err error) {
	c := &cfg.Pipelines[i]
	id := b.identity(c, uid)
	specs, subject, err := b.wiring().Streams(c, id)
	if err != nil {
		return made, err
	}
	clock := &sinkkafka.Clock{} // a session that follows another one does not go back in time
	to := func(epoch func() uint64) (sink.Sink, error) {
		return b.wiring().Sink(c, id, server.embedded(), subject, clock, epoch)
	}
	if _, err := to(nil); err != nil { // before anything has begun
		return made, fmt.Errorf("pipeline %s: %w", c.Name, err)
	}
	made = wiring.Pipeline(cfg, c, id)
	made.Streams, made.Client, made.Watches = specs, b.client, b.watches
	made.Catalog, made.Namespaces = b.catalog, b.namespaces
	made.Sink, made.Metrics, made.Log = to, b.metrics, b.log
	return made, nil
}

// wiring makes the parts of pipelines.
func (b *builder) wiring() *wiring.Wiring {
	return &wiring.Wiring{
		Log: b.log, Elected: b.cfg.LeaderElection != nil, Out: b.out, Format: b.format, APIServer: b.apiServer,
	}
}

// store opens the checkpoint of pipeline i of a configuration.
func (b *builder) store(cfg *config.Config, i int, id checkpoint.Identity) (wiring.Store, error) {
	s, err := b.wiring().Store(cfg, &cfg.Pipelines[i], id)
	return s, b.checkpointError(cfg, i, err)
}

// identity says whose the checkpoint of a pipeline is.
func (b *builder) identity(c *config.Pipeline, uid string) checkpoint.Identity {
	return checkpoint.Identity{ClusterUID: uid, Cluster: cmp.Or(b.cfg.Cluster, uid), Pipeline: c.Name}
}
