// SPDX-License-Identifier: Apache-2.0

package nats_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"go.uber.org/goleak"
)

// serverDir is set for a process that is the server of a benchmark.
const serverDir = "KUBE_EVENTBRIDGE_TEST_NATS_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(serverDir); dir != "" {
		serve(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// serve is a server until its standard input ends. It tells its address.
func serve(dir string) {
	srv, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: dir,
	})
	if err != nil {
		panic(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(time.Minute) {
		panic("the server does not start")
	}
	_, _ = fmt.Fprintln(os.Stdout, srv.ClientURL())
	_, _ = os.Stdin.Read(make([]byte, 1))
	srv.Shutdown()
	srv.WaitForShutdown()
}
