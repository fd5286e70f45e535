// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/goccy/go-yaml"
	"go.uber.org/goleak"
)

// TestMain also makes the test binary every process that the driver starts: its own roles, and a bridge.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1][0] != '-' {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM) //nolint:forbidigo // a process of its own
		defer stop()
		role := func() error { return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr) }
		if os.Args[1] == "run" {
			role = func() error { return standIn(ctx, os.Args[3]) }
		}
		if err := role(); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}))
}

// standIn behaves like the bridge as far as the driver can see: it creates the stream, publishes the markers, and does what
// the baseline does.
func standIn(ctx context.Context, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config struct {
		Pipelines []struct {
			Sink struct{ Nats struct{ Servers []string } }
		}
	}
	if err := yaml.Unmarshal(text, &config); err != nil {
		return err
	}
	conn, js, err := connect(config.Pipelines[0].Sink.Nats.Servers[0], func(error) {})
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := js.CreateStream(ctx, defaultStream()); err != nil {
		return err
	}
	for i := range bridgeMarkers {
		if _, err := js.Publish(ctx, "k8s.bench.core.pods._._snapshot", fmt.Append(nil, i)); err != nil {
			return err
		}
	}
	return baselineRole(ctx, []string{"--config", file}, nil, nil)
}
