// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// brokerRole is a nats-server with JetStream on file storage, with its default settings, until ctx ends.
func brokerRole(ctx context.Context, args []string, _ io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	dir := flags.String("dir", "", "store `directory`")
	port := flags.Int("port", server.RANDOM_PORT, "port")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return errors.New("-dir is missing")
	}
	broker, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: *port, JetStream: true, StoreDir: *dir, NoSigs: true, NoLog: true,
	})
	if err != nil {
		return fmt.Errorf("configure the broker: %w", err)
	}
	broker.Start()
	defer broker.WaitForShutdown()
	defer broker.Shutdown()
	if !broker.ReadyForConnections(20 * time.Second) {
		return errors.New("the broker was not ready after 20s")
	}
	if err := say(stdout, report{Ready: broker.ClientURL()}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
