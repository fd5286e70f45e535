// SPDX-License-Identifier: Apache-2.0

package embedded_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats"
	"github.com/kube-eventbridge/kube-eventbridge/sink/nats/embedded"
)

// smallDisk returns a directory on a disk of some bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	switch err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); {
	case errors.Is(err, syscall.EPERM):
		t.Skipf("NOT RUN: no disk can be mounted here: %v", err)
	case err != nil:
		testtier.Missing(t, "a disk of its own: "+err.Error())
	}
	t.Cleanup(func() { assert.NoError(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}

// A server that could not write once stores nothing any more, and says so in each answer. Room comes in two steps: the
// first one is enough to start again, and for one message.
func TestServer_stores_again_when_somebody_has_made_room(t *testing.T) {
	dir := smallDisk(t, "64m")
	s, end := runTo(t, embedded.Config{Listen: "127.0.0.1:0", StoreDir: dir}, io.Discard)
	url := s.ClientURL()
	to := must.Get(nats.New(nats.Config{
		Client: natsclient.Config{InProcess: s}, Stream: "KUBERNETES", Broken: s.Err,
		Subjects: []string{"k8s.>"}, AckTimeout: 2 * time.Second, // a server that stops or starts may not answer
	}, nil))(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- to.Run(ctx) }()
	must.Succeed(t, "ready", to.Ready)
	publish := func(size int) error {
		data := make([]byte, size)
		_, _ = rand.Read(data)
		answer := make(chan error, 1)
		m := &sink.Message{Subject: "k8s.a", ID: rand.Text(), ContentType: "application/json", Data: data}
		to.Publish(ctx, m, func(_ sink.Receipt, err error) { answer <- err })
		return <-answer
	}
	for range 70 { // more than three quarters of what is free later
		require.NoError(t, publish(512<<10))
	}
	var steps []string
	for i, size := range []int{6 << 20, 22 << 20} {
		steps = append(steps, filepath.Join(dir, fmt.Sprint("filler", i)))
		_ = os.WriteFile(steps[i], make([]byte, size), 0o600) // the second one takes what is left
	}
	must.Happen(t, "a full disk", func() bool { return publish(512<<10) != nil })
	must.Happen(t, "the reason", func() bool { return s.Err() != nil })
	assert.ErrorContains(t, s.Err(), "no space left")
	assert.ErrorContains(t, publish(512<<10), "no space left", "who publishes is told")
	for _, step := range steps {
		require.NoError(t, os.Remove(step))
		must.Succeed(t, "room", func() error { return publish(1000) })
	}
	require.NoError(t, s.Err())
	assert.Equal(t, url, s.ClientURL(), "clients find it where it was")
	cancel()
	assert.NoError(t, <-ended)
	require.NoError(t, end())
}

// What is wrong with one stream does not stop the others.
func TestServer_goes_on_with_a_stream_that_cannot_be_recovered(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "jetstream", "$G", "streams", "BROKEN", "msgs"), 0o750))
	s, end := run(t, embedded.Config{Listen: "127.0.0.1:0", StoreDir: dir})
	conn := must.Get(s.InProcessConn())(t)
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(3*time.Second)))
	_, err := io.Copy(io.Discard, conn)
	assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "the connection ends")
	require.NoError(t, conn.Close())
	require.NoError(t, end())
}

// Others have filled the disk when the server starts. Three quarters of what is free or its own are less than it has.
func TestServer_that_was_started_with_a_full_disk_stores_when_somebody_has_made_room(t *testing.T) {
	dir := smallDisk(t, "64m")
	cfg := embedded.Config{Listen: "127.0.0.1:0", StoreDir: dir}
	publish := func(s *embedded.Server, size int) error {
		nc, err := gonats.Connect(s.ClientURL())
		if err != nil {
			return err
		}
		defer nc.Close()
		js := must.Get(jetstream.New(nc))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}}); err != nil {
			return err
		}
		data := make([]byte, size)
		_, _ = rand.Read(data)
		_, err = js.Publish(ctx, "s", data)
		return err
	}
	s, end := runTo(t, cfg, io.Discard)
	for range 60 {
		require.NoError(t, publish(s, 512<<10))
	}
	require.NoError(t, end())
	filler := filepath.Join(dir, "filler")
	_ = os.WriteFile(filler, make([]byte, 64<<20), 0o600) // what is left
	s, end = runTo(t, cfg, io.Discard)
	require.Error(t, publish(s, 512<<10), "the disk is full")
	require.NoError(t, os.Remove(filler))
	must.Succeed(t, "room", func() error { return publish(s, 512<<10) })
	require.NoError(t, end())
}
