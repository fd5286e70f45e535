// SPDX-License-Identifier: Apache-2.0

// Command servers builds kube-apiserver and etcd and fetches Kafka, once, for the tests and the demo. It shows its
// progress, which go test does not. With -node it also builds the programs of a cluster with a node, with -clock the
// bridge whose clock can be moved.
//
// What cannot be had on this machine is said, and is no error: the tests that need it are skipped. It exits with 1 if
// something that could be had failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/clock"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
)

func main() {
	node := flag.Bool("node", false, "also build the programs of a cluster with a node")
	moved := flag.Bool("clock", false, "also build the bridge whose clock can be moved")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := prepare(ctx, *node, *moved)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "servers:", err)
		os.Exit(1)
	}
}

func prepare(ctx context.Context, node, moved bool) error {
	all := []func(context.Context, io.Writer) error{builds(controlplane.Binaries), kafkabroker.Install}
	if node {
		all = append(all, builds(controlplane.NodeBinaries))
	}
	if moved {
		all = append(all, builds(func(ctx context.Context, log io.Writer) (string, error) {
			return clock.Program(ctx, false, log)
		}))
	}
	for _, make := range all {
		err := make(ctx, os.Stderr)
		if errors.Is(err, controlplane.ErrUnavailable) || errors.Is(err, kafkabroker.ErrUnavailable) {
			fmt.Fprintln(os.Stderr, "servers: not here:", err)
			continue
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// builds leaves out the directory that a build is in: the tests find it.
func builds(build func(context.Context, io.Writer) (string, error)) func(context.Context, io.Writer) error {
	return func(ctx context.Context, log io.Writer) error {
		_, err := build(ctx, log)
		return err
	}
}
