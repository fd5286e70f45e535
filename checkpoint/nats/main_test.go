// SPDX-License-Identifier: Apache-2.0

package nats

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

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
	srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: n, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir})
	if err != nil {
		return err
	}
	srv.Start()
	if !srv.ReadyForConnections(20 * time.Second) {
		return fmt.Errorf("nobody can connect to port %d", n)
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
