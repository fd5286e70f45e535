// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
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
	conn    *nats.Conn // reads the log
	log     rig.Log
}

func newNATSBackend(dir string) (*natsBackend, error) {
	s, err := rig.NewNATS(dir, nil)
	if err != nil {
		return nil, err
	}
	b := &natsBackend{server: s, proxied: newWire(natsProtocol)}
	if _, err = b.proxied.Before(s.Address()); err == nil {
		err = b.openLog()
	}
	if err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

// openLog connects for as long as the world is there, also where the server is away.
func (b *natsBackend) openLog() (err error) {
	b.conn, err = nats.Connect(b.server.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(50*time.Millisecond))
	if err != nil {
		return err
	}
	js, err := jetstream.New(b.conn)
	b.log = rig.NATSLog(js, Stream)
	return err
}

func (b *natsBackend) close() error {
	if b.conn != nil {
		b.conn.Close()
	}
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
	return fmt.Sprintf("nats: {servers: [%q], stream: %s, duplicateWindow: %s}", "nats://"+address, Stream,
		DuplicateWindow)
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
		messages, err := rig.NATSLog(js, "KV_"+bucketCheckpoint).Read(ctx)
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

func (b *natsBackend) readLog(ctx context.Context) ([]rig.Message, error) {
	log, err := b.log.Read(ctx)
	return slices.Clone(log), err
}
