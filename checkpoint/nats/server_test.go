// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

var audit = storetest.Identity

const testBucket = "checkpoints"

// newServer starts a server that listens on TCP and ends with the test.
func newServer(t testing.TB, change ...func(*server.Options)) *server.Server {
	t.Helper()
	testtier.Servers(t)
	opts := &server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()}
	for _, f := range change {
		f(opts)
	}
	srv := must.Get(server.NewServer(opts))(t)
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	require.True(t, srv.ReadyForConnections(20*time.Second), "the server does not start")
	return srv
}

// at is a configuration for the server at url.
func at(url string) Config {
	return Config{Bucket: testBucket, Dial: func(options ...gonats.Option) (*gonats.Conn, error) { return gonats.Connect(url, options...) }}
}

// client connects as a user of the server would.
func client(t testing.TB, srv *server.Server) jetstream.JetStream {
	t.Helper()
	nc := must.Get(gonats.Connect(srv.ClientURL()))(t)
	t.Cleanup(nc.Close)
	js := must.Get(jetstream.New(nc))(t)
	return js
}

func mustOpen(ctx context.Context, t testing.TB, cfg Config) *Store {
	t.Helper()
	s, err := Open(ctx, cfg, audit)
	require.NoError(t, err, "open")
	t.Cleanup(func() {
		assert.NoError(t, s.Close(), "close")
	})
	return s
}
