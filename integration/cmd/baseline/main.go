// SPDX-License-Identifier: Apache-2.0

// Command baseline is what the bridge is compared with: an exporter as most are. It takes the bridge's command line and file, so that whatever
// breaks the bridge can break it too, and writes events of the same form, so that one oracle judges both.
//
// It does well what such tools do: shared informers, which list and watch again whatever happens; publishing without waiting for each answer, in a
// window, with ids by which the broker recognises repetitions; trying again what failed until it is acknowledged; an orderly stop that waits for
// what is under way. It does not do what they do not: it keeps no position and no ledger, so that a start publishes what exists; what was deleted while it
// did not watch, it does not know; and what is tried again may arrive behind what came later.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// drain is how long a stop waits for what is under way.
const drain = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], slog.New(slog.NewJSONHandler(os.Stderr, nil)))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, log *slog.Logger) error {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	file := flags.String("config", "", "the bridge's configuration `file`")
	if len(args) == 0 || args[0] != "run" {
		return errors.New("use: baseline run --config FILE")
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	cfg, err := load(*file)
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

// connect waits for nothing: a broker that is away is connected to later.
func connect(cfg *config) (*nats.Conn, jetstream.JetStream, error) {
	conn, err := nats.Connect(cfg.nats().Servers[0], nats.MaxReconnects(-1), nats.RetryOnFailedConnect(true))
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the broker: %w", err)
	}
	js, err := jetstream.New(conn, jetstream.WithPublishAsyncMaxPending(window), jetstream.WithPublishAsyncTimeout(ackTimeout))
	if err != nil {
		conn.Close()
		return nil, nil, fmt.Errorf("use JetStream: %w", err)
	}
	return conn, js, nil
}
