// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
)

// bench is the driver.
type bench struct {
	*settings
	results
	log io.Writer
	// dir holds everything that is written; it is removed at the end.
	dir string
	// program is the bridge.
	program string
	// stream is what the stream of the others is like, sample the file with the message they publish.
	stream jetstream.StreamConfig
	sample string
	// record is the same for Kafka.
	record string
	// kafkaBroker is that of all runs of f.
	kafkaBroker *kafkabroker.Cluster
}

// drive measures what the settings ask for and writes the table.
func drive(ctx context.Context, s *settings, stdout, log io.Writer) (err error) {
	b := &bench{settings: s, log: log, stream: defaultStream()}
	if b.dir, err = os.MkdirTemp("", "kube-eventbridge-bench-"); err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	defer func() {
		if b.kafkaBroker != nil {
			err = errors.Join(b.kafkaBroker.Close(), err)
		}
	}()
	where := look(ctx)
	if err := b.buildBridge(ctx); err != nil {
		return err
	}
	measured := b.phases(ctx)
	if len(b.values) == 0 {
		return measured
	}
	// What was measured before something failed is worth showing.
	if err := b.report(stdout, where); err != nil {
		return errors.Join(measured, err)
	}
	return measured
}

// phases measures everything that was chosen, run by run.
func (b *bench) phases(ctx context.Context) error {
	phases := []struct {
		name   string
		chosen bool
		runs   int
		run    func(context.Context, int) error
	}{
		{"list and watch", b.list || b.watch, b.runs, b.throughput},
		{"large list", b.large && b.withBridge, b.runsLarge, func(ctx context.Context, run int) error {
			return b.measure(ctx, run, b.bridgeSubject(), b.objectsLarge, 0)
		}},
		{"memory at rest", b.rest && b.withBridge, b.runsRest, b.atRest},
		{"latency", b.rate, b.runsRate, b.latency},
		{"Kafka", b.kafka, b.runsKafka, b.intoKafka},
		{"a lost checkpoint", b.lost && b.withBridge, b.runsLost, b.lostCheckpoint},
		{"idle", b.quiet && b.withBridge, b.runsIdle, b.idle},
		{"a replica", b.replica && b.withBridge, b.runsReplica, b.replicate},
		{"memory of a replica", b.replicaSize && b.withBridge, b.runsReplicaLog, b.replicaMemory},
		{"very many objects", b.most && b.withBridge, b.runsMost, b.million},
		{"a real API server", b.real && b.withBridge, b.runsReal, b.control},
		{"a replica that is behind", b.replicaBehind && b.withBridge, b.runsReplicaLog, b.backlog},
	}
	for _, p := range phases {
		for run := 1; p.chosen && run <= p.runs; run++ {
			if err := p.run(ctx, run); err != nil {
				return fmt.Errorf("%s, run %d: %w", p.name, run, err)
			}
		}
	}
	return nil
}

func (b *bench) report(stdout io.Writer, where machine) error {
	s, err := readSample(b.sample)
	if err != nil {
		return err
	}
	data, header := s.size()
	if _, err := fmt.Fprintf(stdout,
		"%s. Medians of %d runs (%d with %s objects, %d at rest, %d of the latency, %d into Kafka, %d idle); messages of "+
			"%s bytes and %d headers of %s bytes.\n\n",
		where, b.runs, b.runsLarge, thousands(b.objectsLarge), b.runsRest, b.runsRate, b.runsKafka, b.runsIdle,
		thousands(data), len(s.Header), thousands(header)); err != nil {
		return err
	}
	if err := b.writeMarkdown(stdout); err != nil {
		return err
	}
	if b.json == "" {
		return nil
	}
	return b.writeJSON(b.json, where)
}

// progress says on stderr what is being done.
func (b *bench) progress(format string, args ...any) {
	_, _ = fmt.Fprintf(b.log, format+"\n", args...)
}

// deadline bounds a phase.
func deadline(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, d, fmt.Errorf("not done after %v", d))
}
