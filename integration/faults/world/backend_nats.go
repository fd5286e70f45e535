// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// natsBackend is a NATS server behind a proxy.
type natsBackend struct {
	*natsServer
	proxy *natsProxy
}

func newNATSBackend(dir string) (*natsBackend, error) {
	s, err := newNATSServer(dir)
	if err != nil {
		return nil, err
	}
	proxy, err := newNATSProxy(s.address())
	if err != nil {
		s.stop()
		return nil, err
	}
	return &natsBackend{s, proxy}, nil
}

func (b *natsBackend) close() error {
	err := b.proxy.close()
	b.stop()
	return err
}

func (b *natsBackend) wire() wire { return b.proxy }

func (b *natsBackend) start(context.Context) error { return b.natsServer.start() }

func (b *natsBackend) url() string { return "nats://" + b.address() }

func (b *natsBackend) sink(r *replica) string {
	address := b.proxy.address()
	for _, w := range r.brokers {
		address = w.address()
	}
	return fmt.Sprintf("nats: {servers: [%q], stream: %s, duplicateWindow: %s}", "nats://"+address, Stream, DuplicateWindow)
}

func (b *natsBackend) ways(int) ([]*way, error) {
	w, err := newWay(b.proxy.address())
	return []*way{w}, err
}

const bucketCheckpoint = "kube-eventbridge-checkpoints"

func (b *natsBackend) committed() time.Time { return b.proxy.lastCommit() }

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

// natsServer is a real NATS server with JetStream, in this process and reached over TCP.
type natsServer struct {
	dir  string
	port int
	mu   sync.Mutex
	s    *server.Server // nil while it is stopped
}

func newNATSServer(dir string) (*natsServer, error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	b := &natsServer{dir: dir, port: port}
	return b, b.start()
}

func (b *natsServer) address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(b.port)) }

// start starts the server, for the first time or again with what it has stored.
func (b *natsServer) start() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: b.port, JetStream: true, StoreDir: b.dir, NoLog: true, NoSigs: true,
	})
	if err != nil {
		return fmt.Errorf("start the broker: %w", err)
	}
	s.Start()
	if !s.ReadyForConnections(20 * time.Second) {
		s.Shutdown()
		s.WaitForShutdown()
		return errors.New("start the broker: it is not ready within 20 s")
	}
	b.s = s
	return nil
}

// stop returns when the server has ended. It may be called twice.
func (b *natsServer) stop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.s != nil {
		b.s.Shutdown()
		b.s.WaitForShutdown()
		b.s = nil
	}
}

// end returns the sequence of the last message of the log, 0 while there is no log.
func (b *natsServer) end() (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.s == nil {
		return 0, errors.New("the broker is stopped")
	}
	info, err := b.s.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return 0, fmt.Errorf("look up stream %s: %w", Stream, err)
	}
	for _, account := range info.AccountDetails {
		for _, stream := range account.Streams {
			if stream.Name == Stream {
				return stream.State.LastSeq, nil
			}
		}
	}
	return 0, fmt.Errorf("there is no stream %s", Stream)
}

// deleteLog removes the stream with all its messages.
func (b *natsServer) deleteLog(ctx context.Context) error {
	err := b.ask(func(js jetstream.JetStream) error { return js.DeleteStream(ctx, Stream) })
	if err != nil {
		return fmt.Errorf("delete the log: %w", err)
	}
	return nil
}

// ask connects for one question.
func (b *natsServer) ask(do func(jetstream.JetStream) error) error {
	conn, err := nats.Connect("nats://" + b.address())
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
func (b *natsServer) keep(dir string) error {
	if err := os.CopyFS(dir, os.DirFS(b.dir)); err != nil {
		return fmt.Errorf("copy the broker's store: %w", err)
	}
	return nil
}

// putBack replaces the store of a stopped server with a copy, which is used up.
func (b *natsServer) putBack(dir string) error {
	if err := errors.Join(os.RemoveAll(b.dir), os.Rename(dir, b.dir)); err != nil {
		return fmt.Errorf("put the broker's store back: %w", err)
	}
	return nil
}

func (b *natsServer) readLog(ctx context.Context) (log []Message, err error) {
	err = b.ask(func(js jetstream.JetStream) error {
		log, err = readStream(ctx, js, Stream)
		return err
	})
	return log, err
}

func readStream(ctx context.Context, js jetstream.JetStream, name string) ([]Message, error) {
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
	var log []Message
	for {
		m, err := it.Next(jetstream.NextContext(ctx))
		if err != nil {
			return nil, err
		}
		meta, err := m.Metadata()
		if err != nil {
			return nil, err
		}
		log = append(log, Message{
			Sequence: meta.Sequence.Stream, Time: meta.Timestamp, Subject: m.Subject(), Header: m.Headers(), Data: m.Data(),
		})
		if meta.Sequence.Stream >= info.State.LastSeq {
			return log, nil
		}
	}
}
