// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testlog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/header"
)

const stream = "KUBERNETES"

// broker is a real server, listening on TCP, that can be stopped and started again on its store. Each time it has
// another address, because somebody else may have taken the last one meanwhile: a sink that is to find it again needs a
// proxy.
type broker struct {
	opts server.Options
	mu   sync.Mutex
	srv  *server.Server
	copy string // of the store
}

// newBroker starts a server that ends with the test.
func newBroker(t *testing.T, change ...func(*server.Options)) *broker {
	t.Helper()
	testtier.Servers(t)
	b := &broker{opts: server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
	}}
	for _, f := range change {
		f(&b.opts)
	}
	b.start(t)
	t.Cleanup(func() { b.stop(t) })
	return b
}

func (b *broker) start(t *testing.T) {
	t.Helper()
	opts := b.opts
	srv := must.Get(server.NewServer(&opts))(t)
	srv.Start()
	require.True(t, srv.ReadyForConnections(time.Minute), "the server does not start")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.srv = srv
}

func (b *broker) stop(*testing.T) {
	b.server().Shutdown()
	b.server().WaitForShutdown()
}

func (b *broker) server() *server.Server {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.srv
}

// save copies the store of a server that is at rest.
func (b *broker) save(t *testing.T) {
	t.Helper()
	b.copy = t.TempDir()
	b.stop(t)
	require.NoError(t, os.CopyFS(b.copy, os.DirFS(b.opts.StoreDir)))
	b.start(t)
}

// restore starts the broker with the copy.
func (b *broker) restore(t *testing.T) {
	t.Helper()
	b.stop(t)
	b.opts.StoreDir = b.copy
	b.start(t)
}

func (b *broker) destroy(t *testing.T) {
	t.Helper()
	js := b.connect(t)
	defer js.Conn().Close()
	require.NoError(t, js.DeleteStream(t.Context(), stream))
}

// remake deletes the stream and creates it again, with n messages of another publisher.
func (b *broker) remake(t *testing.T, n int) {
	t.Helper()
	js := b.connect(t)
	defer js.Conn().Close()
	st := must.Get(js.Stream(t.Context(), stream))(t)
	require.NoError(t, js.DeleteStream(t.Context(), stream))
	// The server may still be removing the directory.
	must.Succeed(t, "the stream to be created again", func() error {
		_, err := js.CreateStream(t.Context(), st.CachedInfo().Config)
		return err
	})
	for i := range n {
		must.Get(js.Publish(t.Context(), "k8s.other", nil, jetstream.WithMsgID(fmt.Sprint("other.", i))))(t)
	}
}

func (b *broker) purge(t *testing.T) {
	t.Helper()
	js := b.connect(t)
	defer js.Conn().Close()
	st := must.Get(js.Stream(t.Context(), stream))(t)
	require.NoError(t, st.Purge(t.Context()))
}

// addr is where the broker listens, or an address at which no server listens while it is stopped.
func (b *broker) addr() string {
	if a := b.server().Addr(); a != nil {
		return a.String()
	}
	return noServer
}

// noServer is an address at which no server listens.
const noServer = "127.0.0.1:1"

// connect connects as a user of the broker would, until the test ends. A method of the broker closes the connection
// itself, because the contract of a sink looks for goroutines in the middle of a test.
func (b *broker) connect(t *testing.T) jetstream.JetStream {
	t.Helper()
	nc := must.Get(gonats.Connect(b.server().ClientURL()))(t)
	t.Cleanup(nc.Close)
	return must.Get(jetstream.New(nc, jetstream.WithDefaultTimeout(time.Minute)))(t)
}

// log reads the whole stream.
func (b *broker) log(t *testing.T) (all []sink.Stored) {
	t.Helper()
	js := b.connect(t)
	defer js.Conn().Close()
	st, err := js.Stream(t.Context(), stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	}
	require.NoError(t, err)
	n := st.CachedInfo().State.Msgs
	if n == 0 {
		return nil
	}
	consumer := must.Get(st.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{}))(t)
	messages := must.Get(consumer.Messages(jetstream.PullMaxMessages(10_000)))(t)
	defer messages.Stop()
	for range n {
		m := must.Get(messages.Next())(t)
		meta := must.Get(m.Metadata())(t)
		one := header.Decode(m.Headers(), m.Data())
		one.Sequence, one.Time = meta.Sequence.Stream, meta.Timestamp
		all = append(all, one)
	}
	return all
}

func config(servers ...string) nats.Config {
	return nats.Config{
		Client: natsclient.Config{Servers: servers}, Stream: stream, Subjects: []string{"k8s.>"},
		Wait: 20 * time.Millisecond,
	}
}

func newSink(t *testing.T, cfg nats.Config) *nats.Sink {
	t.Helper()
	return must.Get(nats.New(cfg, slog.New(slog.NewTextHandler(logWriter{t}, nil))))(t)
}

// readySink returns a sink that runs.
func readySink(t *testing.T, cfg nats.Config) *nats.Sink {
	t.Helper()
	s := newSink(t, cfg)
	ready(t, s)
	return s
}

// newTalkingSink returns a sink, and what it has logged.
func newTalkingSink(t *testing.T, cfg nats.Config) (s *nats.Sink, said func() string) {
	t.Helper()
	var text testlog.Text
	s = must.Get(nats.New(cfg, text.Logger()))(t)
	return s, text.String
}

type logWriter struct{ t *testing.T }

func (w logWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// run runs s. Its end returns Run's error.
func run(t *testing.T, s *nats.Sink) (end func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	end = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { _ = end() })
	return end
}

// ready runs s and waits until it can publish.
func ready(t *testing.T, s *nats.Sink) (end func() error) {
	t.Helper()
	end = run(t, s)
	must.Succeed(t, "the sink is ready", s.Ready)
	return end
}

type result struct {
	rc  sink.Receipt
	err error
}

func publish(t *testing.T, s sink.Publisher, m *sink.Message) result {
	t.Helper()
	got := make(chan result, 4)
	s.Publish(t.Context(), m, func(rc sink.Receipt, err error) { got <- result{rc, err} })
	select {
	case r := <-got:
		return r
	case <-time.After(time.Minute):
		t.Fatal("no answer")
		return result{}
	}
}

func message(subject, id string) *sink.Message {
	return &sink.Message{
		Subject: subject, Key: subject, ID: id, ContentType: "application/json", Data: []byte(`{"a":1}`),
		Attributes: []sink.Attribute{
			{Name: "specversion", Value: "1.0"},
			{Name: "id", Value: id},
			{Name: "datacontenttype", Value: "application/json"},
		},
	}
}

// sayEventually waits until the sink is not ready for a reason.
func sayEventually(t *testing.T, s *nats.Sink, want string) {
	t.Helper()
	must.Succeed(t, "the reason "+want, func() error {
		if err := s.Ready(); err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(want)) {
			return fmt.Errorf("not ready because: %w", err)
		}
		return nil
	})
}

// permissions are all that the sink needs: what a missing stream is created with is the second.
var permissions = []string{
	"$JS.API.STREAM.INFO.KUBERNETES",
	"$JS.API.STREAM.CREATE.KUBERNETES",
	"$JS.API.STREAM.MSG.GET.KUBERNETES",
	"$JS.API.CONSUMER.CREATE.KUBERNETES.>",
	"$JS.API.CONSUMER.MSG.NEXT.KUBERNETES.*",
	"$JS.API.CONSUMER.DELETE.KUBERNETES.*",
}

func TestSink_needs_few_permissions(t *testing.T) {
	t.Parallel()
	for name, subjects := range map[string][]string{"one subject": {"k8s.>"}, "two subjects": {"k8s.a.>", "k8s.b"}} {
		b := newBroker(t, func(o *server.Options) {
			o.Users = []*server.User{{Username: "bridge", Password: "pw", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: append([]string{"k8s.>"}, permissions...)},
				Subscribe: &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
			}}}
		})
		cfg := config(b.addr())
		cfg.Subjects = subjects
		cfg.Client.Auth.User, cfg.Client.Auth.Password = "bridge", "pw"
		cfg.AckTimeout, cfg.LookEvery = 5*time.Second, 10*time.Millisecond
		s, said := newTalkingSink(t, cfg)
		end := ready(t, s)
		m := message("k8s.b", "b.1")
		m.Verify = true
		for _, duplicate := range []bool{false, true} {
			r := publish(t, s, m)
			assert.True(t, r.err == nil && r.rc.Duplicate == duplicate, "%s: published: %+v", name, r)
		}
		bounds(t, s, 1)
		st, err := s.At(t.Context(), 0, 1)
		assert.True(t, err == nil && st != nil, "%s: at 1: %+v (%v)", name, st, err)
		for _, lastOfKey := range []bool{false, true} {
			assert.Equal(t, []string{"b.1"}, ids(t, s, sink.Query{LastOfKey: lastOfKey}), "%s: read", name)
		}
		assert.NoError(t, end(), "%s: Run", name)
		assert.NotContains(t, said(), "Violation", name)
	}
}
