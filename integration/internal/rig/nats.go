// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// NATS is a real NATS server with JetStream, in this process and reached over TCP. It keeps its port and what it has
// stored when it stops, so clients made once keep working. Its methods may be called concurrently.
type NATS struct {
	// Dir is where the server stores.
	Dir     string
	port    int
	options func(*server.Options)
	mu      sync.Mutex
	s       *server.Server // nil while it is stopped
}

// NewNATS starts a server that stores in dir. options, which may be nil, changes what the server is started with, each
// time; for users or certificates, for example. The caller stops the server.
func NewNATS(dir string, options func(*server.Options)) (*NATS, error) {
	at, err := port.Free()
	if err != nil {
		return nil, err
	}
	n := &NATS{Dir: dir, port: at, options: options}
	return n, n.Start()
}

// NATSForTest is [NewNATS] with a directory of the test's own. The server stops when the test ends. With go test -short
// the test is skipped.
func NATSForTest(t testing.TB, options func(*server.Options)) *NATS {
	t.Helper()
	testtier.Servers(t)
	dir := must.Get(os.MkdirTemp("", "kube-eventbridge-nats-"))(t) // t.TempDir fails on what a server removes late
	n := must.Get(NewNATS(dir, options))(t)
	t.Cleanup(func() {
		n.Stop()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return n
}

// Start starts the server, for the first time or again with what it has stored. Starting one that runs does nothing.
func (n *NATS) Start() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.s != nil {
		return nil
	}
	s, err := server.NewServer(n.Options())
	if err != nil {
		return fmt.Errorf("start NATS: %w", err)
	}
	var errs problems
	s.SetLogger(&errs, false, false)
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		s.Shutdown()
		s.WaitForShutdown()
		return fmt.Errorf("start NATS: it is not ready within a minute: %q", errs.all())
	}
	n.s = s
	return nil
}

// problems is a log of which only errors are kept.
type problems struct {
	mu    sync.Mutex
	texts []string
}

func (*problems) Noticef(string, ...any) {}
func (*problems) Debugf(string, ...any)  {}
func (*problems) Tracef(string, ...any)  {}

// Warnf implements [server.Logger], as do the others.
func (p *problems) Warnf(format string, args ...any) { p.Errorf(format, args...) }

// Fatalf does not end the process, which is that of the tests.
func (p *problems) Fatalf(format string, args ...any) { p.Errorf(format, args...) }

// Errorf keeps the last hundred.
func (p *problems) Errorf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.texts = append(p.texts[max(0, len(p.texts)-99):], fmt.Sprintf(format, args...))
}

func (p *problems) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.texts
}

// Options are what the server is started with.
func (n *NATS) Options() *server.Options {
	o := &server.Options{Host: "127.0.0.1", Port: n.port, JetStream: true, StoreDir: n.Dir, NoLog: true, NoSigs: true}
	if n.options != nil {
		n.options(o)
	}
	return o
}

// Reload applies what options says now to a server that runs.
func (n *NATS) Reload() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.s.ReloadOptions(n.Options())
}

// Clients returns how many connections the server has. One that was closed counts until the server has read all of it.
func (n *NATS) Clients() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.s.NumClients()
}

// Stop returns when the server has ended. Stopping one that does not run does nothing.
func (n *NATS) Stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.s != nil {
		n.s.Shutdown()
		n.s.WaitForShutdown()
		n.s = nil
	}
}

// End returns the sequence of the last message of a stream. It is an error if the server is stopped or lacks the
// stream.
func (n *NATS) End(stream string) (uint64, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.s == nil {
		return 0, errors.New("NATS is stopped")
	}
	info, err := n.s.Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return 0, fmt.Errorf("look up stream %s: %w", stream, err)
	}
	for _, account := range info.AccountDetails {
		for _, s := range account.Streams {
			if s.Name == stream {
				return s.State.LastSeq, nil
			}
		}
	}
	return 0, fmt.Errorf("there is no stream %s", stream)
}

// Address is the server's host and port.
func (n *NATS) Address() string { return fmt.Sprintf("127.0.0.1:%d", n.port) }

// URL is what clients connect to.
func (n *NATS) URL() string { return "nats://" + n.Address() }

// Connect returns a client that outlives stops of the server. The connection is closed when the test ends.
func (n *NATS) Connect(t testing.TB, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	options = append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(100 * time.Millisecond)}, options...)
	conn := must.Get(nats.Connect(n.URL(), options...))(t)
	t.Cleanup(conn.Close)
	return must.Get(jetstream.New(conn, jetstream.WithDefaultTimeout(30*time.Second)))(t)
}
