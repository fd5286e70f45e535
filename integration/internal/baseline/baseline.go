// SPDX-License-Identifier: Apache-2.0

// Package baseline is what the bridge is compared with: an exporter as most are. It takes the bridge's file, so that
// whatever breaks the bridge can break it too, and writes events of the same form, so that one oracle judges both.
//
// It does well what such tools do: shared informers, which list and watch again whatever happens; publishing without
// waiting for each answer, in a window, with ids by which the broker recognises repetitions; trying again what failed
// until it is acknowledged; an orderly stop that waits for what is under way. It does not do what they do not: it keeps
// no position and no ledger, so that a start publishes what exists; what was deleted while it did not watch, it does
// not know; and what is tried again may arrive behind what came later.
package baseline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// drain is how long a stop waits for what is under way.
const drain = 10 * time.Second

// Run exports the first pipeline of the bridge's file, whose sink is NATS, until ctx ends. It ignores most other keys.
func Run(ctx context.Context, file string, log *slog.Logger) error {
	cfg, err := load(file)
	if err != nil {
		return err
	}
	conn, js, err := connect(cfg)
	if err != nil {
		return err
	}
	defer conn.Close()
	p := newPublisher(js)
	e := &exporter{cfg: cfg, log: log, publisher: p, connected: conn.IsConnected}
	// What was read may still be acknowledged when nothing is read any more.
	delivering, cut := context.WithCancel(context.WithoutCancel(ctx))
	defer cut()
	g, reading := errgroup.WithContext(ctx)
	g.Go(func() error { return e.serve(reading) })
	g.Go(func() error { return e.run(reading, delivering) })
	<-reading.Done()
	log.Info("stopping", "underWay", p.events.Load())
	late := time.AfterFunc(drain, cut)
	defer late.Stop()
	err = g.Wait()
	p.work.Wait()
	return err
}

// settings are what is read of the bridge's file. The other keys are ignored, and so are pipelines after the first.
type settings struct {
	Cluster    string `yaml:"cluster"`
	Kubernetes struct {
		Kubeconfig string `yaml:"kubeconfig"`
	} `yaml:"kubernetes"`
	Server struct {
		Listen string `yaml:"listen"`
	} `yaml:"server"`
	Pipelines []struct {
		Name      string     `yaml:"name"`
		Resources []resource `yaml:"resources"`
		Sink      struct {
			NATS natsConfig `yaml:"nats"`
		} `yaml:"sink"`
	} `yaml:"pipelines"`
}

type resource struct {
	Resource      string   `yaml:"resource"`
	Namespaces    []string `yaml:"namespaces"`
	LabelSelector string   `yaml:"labelSelector"`
}

type natsConfig struct {
	Servers         []string      `yaml:"servers"`
	Stream          string        `yaml:"stream"`
	DuplicateWindow time.Duration `yaml:"duplicateWindow"`
}

func load(file string) (*settings, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c := &settings{}
	if err := yaml.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(c.Pipelines) == 0 || len(c.nats().Servers) == 0 {
		return nil, errors.New("the file needs a pipeline with a NATS server")
	}
	return c, nil
}

func (c *settings) nats() natsConfig { return c.Pipelines[0].Sink.NATS }

// connect waits for nothing: a broker that is away is connected to later.
func connect(cfg *settings) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(cfg.nats().Servers[0], nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the broker: %w", err)
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(window),
		jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("use JetStream: %w", err)
	}
	return conn, js, nil
}
