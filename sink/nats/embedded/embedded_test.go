// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/embedded"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a server that is ready; its end returns Run's error.
func run(t *testing.T, cfg embedded.Config) (s *embedded.Server, end func() error) {
	t.Helper()
	return runTo(t, cfg, t.Output())
}

// runTo is run with a log of its own.
func runTo(t *testing.T, cfg embedded.Config, log io.Writer) (s *embedded.Server, end func() error) {
	t.Helper()
	testtier.Servers(t)
	s = must.Get(embedded.New(cfg, slog.New(slog.NewTextHandler(log, nil))))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		t.Fatalf("Run: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("not ready")
	}
	return s, func() error { cancel(); return <-ended }
}

// publish publishes one message with a sink of its own and returns its place.
func publish(t *testing.T, at natsclient.Config, id string) sink.Receipt {
	t.Helper()
	s := must.Get(nats.New(nats.Config{Client: at, Stream: "KUBERNETES", Subjects: []string{"k8s.>"}}, nil))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	must.Succeed(t, "ready", s.Ready)
	got := make(chan sink.Receipt, 1)
	s.Publish(ctx, &sink.Message{
		Subject: "k8s.a", ID: id, ContentType: "application/cloudevents+json",
		Data: []byte(`{}`),
	}, func(rc sink.Receipt, err error) {
		assert.NoError(t, err)
		got <- rc
	})
	rc := <-got
	cancel()
	assert.NoError(t, <-ended)
	return rc
}

func TestServer_keeps_messages_from_one_run_to_the_next(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "parents", "are", "created")
	for want := range uint64(3) {
		s, end := run(t, embedded.Config{Listen: "127.0.0.1:0", StoreDir: dir})
		cfg := natsclient.Config{Servers: []string{s.ClientURL()}}
		if want == 1 {
			cfg = natsclient.Config{InProcess: s}
		}
		assert.Equal(t, want+1, publish(t, cfg, string('a'+rune(want))).Sequence, "stored")
		require.NoError(t, end())
		assert.Empty(t, s.ClientURL(), "after the end")
		assert.Error(t, must.Err(s.InProcessConn()), "connected after the end")
	}
}

// What a crash leaves is an index from before: the one of the last stop in order.
func TestServer_says_in_plain_words_that_it_was_not_stopped_in_order(t *testing.T) {
	dir := t.TempDir()
	index := filepath.Join(dir, "jetstream", "$G", "streams", "KUBERNETES", "msgs", "index.db")
	var before []byte
	var log bytes.Buffer
	for i := range 3 {
		log.Reset()
		s, end := runTo(t, embedded.Config{Listen: "127.0.0.1:0", StoreDir: dir}, &log)
		assert.Equal(t, uint64(i)+1, publish(t, natsclient.Config{InProcess: s}, string('a'+rune(i))).Sequence,
			"stored, want %d", i+1)
		require.NoError(t, end())
		var err error
		if i == 0 {
			before, err = os.ReadFile(index)
		} else {
			err = os.WriteFile(index, before, 0o600)
		}
		require.NoError(t, err)
	}
	if text := log.String(); strings.Contains(text, "WARN") || strings.Count(text, "has not been stopped in order") != 1 ||
		!strings.Contains(text, "stream=KUBERNETES") {
		t.Errorf("it says\n%s", text)
	}
}

func TestServer_names_the_address_and_the_key_when_the_port_is_taken(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	s, err := embedded.New(embedded.Config{
		Listen: l.Addr().String(), ListenKey: "pipelines[0].sink.embedded.listen",
		StoreDir: t.TempDir(),
	}, nil)
	require.NoError(t, err)
	err = s.Run(t.Context())
	assert.True(t, err != nil && strings.Contains(err.Error(), l.Addr().String()) &&
		strings.Contains(err.Error(), "pipelines[0].sink.embedded.listen"), "Run: %v", err)
}

func TestServer_says_why_it_cannot_keep_messages(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	s, err := embedded.New(embedded.Config{Listen: "127.0.0.1:0", StoreDir: file, StoreKey: "the.key"}, nil)
	require.NoError(t, err)
	err = s.Run(t.Context())
	assert.True(t, err != nil && strings.Contains(err.Error(), file) &&
		strings.Contains(err.Error(), "set the.key to a directory that can be written"), "Run: %v", err)
	assert.ErrorIs(t, err, syscall.ENOTDIR, "the cause")
}

func TestServer_ends_with_its_context(t *testing.T) {
	testtier.Servers(t)
	s := must.Get(embedded.New(embedded.Config{Listen: "127.0.0.1:0", StoreDir: t.TempDir()}, nil))(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	assert.NoError(t, s.Run(ctx), "Run")
}

func TestNew_refuses_what_cannot_be_an_address(t *testing.T) {
	for _, listen := range []string{"nonsense", "127.0.0.1:x", "127.0.0.1:70000"} {
		_, err := embedded.New(embedded.Config{Listen: listen, ListenKey: "the.key", StoreDir: "x"}, nil)
		assert.True(t, err != nil && strings.Contains(err.Error(), "the.key"), "%s: %v", listen, err)
	}
	assert.Error(t, must.Err(embedded.New(embedded.Config{}, nil)), "no directory: accepted")
}
