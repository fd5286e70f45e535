// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	gonats "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/storetest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/natsclient"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// What makes a process of the test binary a server: the directory of its store, and where it listens.
const (
	storeKey = "KUBE_EVENTBRIDGE_TEST_NATS_STORE"
	portKey  = "KUBE_EVENTBRIDGE_TEST_NATS_PORT"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(storeKey); dir != "" {
		if err := serve(dir, os.Getenv(portKey)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	testtier.Draws()
	goleak.VerifyTestMain(m)
}

// serve runs a server until the standard input ends, or it is killed.
func serve(dir, port string) error {
	n, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: n, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: dir,
	})
	if err != nil {
		return err
	}
	srv.Start()
	if !srv.ReadyForConnections(time.Minute) {
		return fmt.Errorf("port %d refuses connections", n)
	}
	if _, err := fmt.Fprintln(os.Stdout, srv.ClientURL()); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// serverProcess is a server that can be killed.
type serverProcess struct {
	dir, url string
	cmd      *exec.Cmd
}

func newServerProcess(t *testing.T) *serverProcess {
	t.Helper()
	testtier.Servers(t)
	p := &serverProcess{dir: t.TempDir()}
	t.Cleanup(p.kill)
	require.NoError(t, p.start("-1"))
	return p
}

// start starts the server, at any port that is free if it is -1, and returns when it listens.
func (p *serverProcess) start(port string) error {
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), storeKey+"="+p.dir, portKey+"="+port)
	p.cmd.Stderr = os.Stderr
	if _, err := p.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	p.url = strings.TrimSpace(line)
	return err
}

// kill ends the process as a crash does.
func (p *serverProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// restart kills the server and starts it on what it has stored, where it was.
func (p *serverProcess) restart() error {
	p.kill()
	return p.start(p.url[strings.LastIndex(p.url, ":")+1:])
}

var audit = storetest.Identity

const testBucket = "checkpoints"

// newServer starts a server that listens on TCP and ends with the test.
func newServer(t testing.TB, change ...func(*server.Options)) *server.Server {
	t.Helper()
	testtier.Servers(t)
	opts := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true,
		StoreDir: t.TempDir(),
	}
	for _, f := range change {
		f(opts)
	}
	srv := must.Get(server.NewServer(opts))(t)
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	require.True(t, srv.ReadyForConnections(time.Minute), "the server does not start")
	return srv
}

// at is a configuration for the server at url.
// at returns the configuration of a checkpoint on servers, which are separated by commas.
func at(urls string) Config {
	return Config{Bucket: testBucket, Dial: func(options ...gonats.Option) (*gonats.Conn, error) {
		return natsclient.Dial(natsclient.Config{Servers: strings.Split(urls, ",")}, options...)
	}}
}

// client connects as a user of the server would.
func client(t testing.TB, srv *server.Server) jetstream.JetStream {
	t.Helper()
	nc := must.Get(gonats.Connect(srv.ClientURL()))(t)
	t.Cleanup(nc.Close)
	return must.Get(jetstream.New(nc, jetstream.WithDefaultTimeout(30*time.Second)))(t)
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

// serverKey is the environment variable that tells a child process of the test which server to use.
const serverKey = "KUBE_EVENTBRIDGE_TEST_NATS"

func TestStore_keeps_the_contract(t *testing.T) {
	url := os.Getenv(serverKey)
	if url == "" {
		url = newServer(t).ClientURL()
		t.Setenv(serverKey, url)
	}
	users, ctx := &storetest.Taking{}, t.Context()
	storetest.Run(t, func(place string, want checkpoint.Identity) (storetest.Store, error) {
		return users.Take(place, func() (storetest.Store, error) {
			cfg := at(url)
			sum := sha256.Sum256([]byte(filepath.Dir(place)))
			cfg.Name = hex.EncodeToString(sum[:8]) + "." + filepath.Base(place)
			return Open(ctx, cfg, want)
		})
	})
}
