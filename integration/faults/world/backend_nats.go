// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// natsBackend is a NATS server behind a proxy.
type natsBackend struct {
	server  *rig.NATS
	proxied *wire
}

func newNATSBackend(dir string) (*natsBackend, error) {
	s, err := rig.NewNATS(dir, nil)
	if err != nil {
		return nil, err
	}
	b := &natsBackend{server: s, proxied: newWire(natsProtocol)}
	if _, err = b.proxied.Before(s.Address()); err != nil {
		s.Stop()
		return nil, err
	}
	return b, nil
}

func (b *natsBackend) close() error {
	err := b.proxied.close()
	b.stop()
	return err
}

func (b *natsBackend) wire() *wire { return b.proxied }

func (b *natsBackend) start(context.Context) error { return b.server.Start() }

func (b *natsBackend) stop() { b.server.Stop() }

func (b *natsBackend) end() (uint64, error) { return b.server.End(Stream) }

func (b *natsBackend) sink(r *replica) string {
	address := b.proxied.Address()
	if r.brokers != nil {
		address = r.brokers.Address()
	}
	return fmt.Sprintf("nats: {servers: [%q], stream: %s, duplicateWindow: %s}", "nats://"+address, Stream, DuplicateWindow)
}

func (b *natsBackend) way(int) (*proxy.Proxy, error) { return proxy.To(b.proxied.Address()) }

const bucketCheckpoint = "kube-eventbridge-checkpoints"

func (b *natsBackend) committed() time.Time { return b.proxied.lastCommit() }

func (b *natsBackend) removeCheckpoint(ctx context.Context) error {
	err := b.ask(func(js jetstream.JetStream) error { return js.DeleteKeyValue(ctx, bucketCheckpoint) })
	if err != nil && !errors.Is(err, jetstream.ErrBucketNotFound) {
		return fmt.Errorf("delete the checkpoint: %w", err)
	}
	return nil
}

func (b *natsBackend) checkpointText(ctx context.Context) (text []byte, err error) {
	err = b.ask(func(js jetstream.JetStream) error {
		messages, err := readStream(ctx, js, "KV_"+bucketCheckpoint)
		for _, m := range messages {
			text = append(append(append(text, m.Subject...), '\n'), append(m.Data, '\n')...)
		}
		return err
	})
	return text, err
}

// deleteLog removes the stream with all its messages.
func (b *natsBackend) deleteLog(ctx context.Context) error {
	err := b.ask(func(js jetstream.JetStream) error { return js.DeleteStream(ctx, Stream) })
	if err != nil {
		return fmt.Errorf("delete the log: %w", err)
	}
	return nil
}

// ask connects for one question.
func (b *natsBackend) ask(do func(jetstream.JetStream) error) error {
	conn, err := nats.Connect(b.server.URL())
	if err != nil {
		return err
	}
	defer conn.Close()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	return do(js)
}

// keep copies the store of a stopped server to dir, which must not exist.
func (b *natsBackend) keep(dir string) error {
	if err := os.CopyFS(dir, os.DirFS(b.server.Dir)); err != nil {
		return fmt.Errorf("copy the broker's store: %w", err)
	}
	return nil
}

// putBack replaces the store of a stopped server with a copy, which is used up.
func (b *natsBackend) putBack(dir string) error {
	if err := errors.Join(os.RemoveAll(b.server.Dir), os.Rename(dir, b.server.Dir)); err != nil {
		return fmt.Errorf("put the broker's store back: %w", err)
	}
	return nil
}

func (b *natsBackend) readLog(ctx context.Context) (log []rig.Message, err error) {
	err = b.ask(func(js jetstream.JetStream) error {
		log, err = readStream(ctx, js, Stream)
		return err
	})
	return log, err
}

func readStream(ctx context.Context, js jetstream.JetStream, name string) ([]rig.Message, error) {
	stream, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return nil, err
	}
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	if err != nil {
		return nil, err
	}
	it, err := c.Messages(jetstream.PullMaxMessages(1000))
	if err != nil {
		return nil, err
	}
	defer it.Stop()
	var log []rig.Message
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		log = append(log, rig.Message{
			Sequence: meta.Sequence.Stream, Time: meta.Timestamp, Subject: m.Subject(), Header: m.Headers(), Data: m.Data(),
		})
		if meta.Sequence.Stream >= info.State.LastSeq {
			return log, nil
		}
	}
}
