// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"io"

	rigs "github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// brokerRole is a nats-server with JetStream on file storage, with its default settings, until ctx ends.
func brokerRole(ctx context.Context, args []string, _ io.Reader, stdout io.Writer) error {
	flags := flag.NewFlagSet("broker", flag.ContinueOnError)
	dir := flags.String("dir", "", "store `directory`")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *dir == "" {
		return errors.New("-dir is missing")
	}
	broker, err := rigs.NewNATS(*dir, nil)
	if err != nil {
		return err
	}
	defer broker.Stop()
	if err := say(stdout, report{Ready: broker.URL()}); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
