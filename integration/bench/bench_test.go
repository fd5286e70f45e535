// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	rigs "github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestDrive_measures_every_subject_and_leaves_nothing_behind(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	out := filepath.Join(t.TempDir(), "out.json")
	var stdout, stderr bytes.Buffer
	err = run(t.Context(), []string{
		"-only", "a,c,d", "-runs", "1", "-runs-rest", "1", "-objects", "200", "-events", "1000",
		"-baseline-events", "300", "-bridge", self, "-json", out,
	}, nil, &stdout, &stderr)
	require.NoError(t, err, "%v\n%s", err, stderr.String())
	for _, want := range []string{
		"200 objects listed and published", "1,000 watch events",
		"live heap per object, 1,000 objects",
	} {
		assert.Contains(t, stdout.String(), want, "the table")
	}
	text := must.Get(os.ReadFile(out))(t)
	var got struct {
		Machine machine
		Values  []value
	}
	require.NoError(t, json.Unmarshal(text, &got))
	for _, v := range got.Values {
		assert.True(t, v.Value > 0 || v.Phase == "at rest" || v.Metric == cpuPerObject,
			"%s, %s of the %s is %v", v.Phase, v.Metric, v.Column, v.Value)
	}
	for _, column := range []string{colBridge, colPublisher, colBaseline} {
		if !slices.ContainsFunc(got.Values, func(v value) bool {
			return v.Column == column &&
				v.Metric == "events per second"
		}) {
			t.Errorf("no rate of the %s", column)
		}
	}
	leavesNothing(t, tmp)
}

// leavesNothing looks for what a run has left in its temporary directory, beside the register of ports.
func leavesNothing(t *testing.T, tmp string) {
	t.Helper()
	left, err := os.ReadDir(tmp)
	rigs.Must(t, err)
	for _, e := range left {
		assert.True(t, strings.HasPrefix(e.Name(), "kube-eventbridge-ports-"), "left behind: %s", e.Name())
	}
}

// The bridge is the real one, and so is Kafka.
func TestDrive_measures_the_bridge_into_Kafka(t *testing.T) {
	rigs.Tier(t, rigs.Nightly)
	kafkabroker.InstallForTest(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var stdout, stderr bytes.Buffer
	args := []string{"-only", "f", "-runs-kafka", "2", "-objects", "200", "-events", "1000"}
	err := run(t.Context(), args, nil, &stdout, &stderr)
	require.NoError(t, err, "%v\n%s", err, stderr.String())
	for _, want := range []string{"1,000 watch events into Kafka", "CPU of the broker per event", "messages of 3,8"} {
		assert.Contains(t, stdout.String(), want, "the table")
	}
	leavesNothing(t, tmp)
}

// The replica is the real one, and so is the API server.
func TestDrive_measures_a_replica(t *testing.T) {
	rigs.Tier(t, rigs.Nightly)
	controlplane.BinariesForTest(t)
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	var stdout, stderr bytes.Buffer
	args := []string{
		"-only", "i,j,k", "-runs-replica", "2", "-objects", "100", "-replica-objects", "100", "-replica-seconds", "1",
		"-replica-keys", "1000", "-replica-backlog", "1000",
	}
	err := run(t.Context(), args, nil, &stdout, &stderr)
	require.NoError(t, err, "%v\n%s", err, stderr.String())
	for _, want := range []string{
		"120 objects replicated from a full log", "replicated, 100 changes a second", "1,100 keys",
		"a backlog of 1,000 events | writes per object | 1.00",
	} {
		assert.Contains(t, stdout.String(), want, "the table")
	}
	leavesNothing(t, tmp)
}

func TestDrive_says_what_a_bridge_said_that_ended(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bridge")
	require.NoError(t, os.WriteFile(bad, []byte("#!/bin/sh\necho no such flag >&2\nexit 2\n"), 0o700))
	err := run(t.Context(), []string{"-only", "a", "-bridge", bad, "-objects", "1"}, nil, &bytes.Buffer{}, &bytes.Buffer{})
	assert.True(t, err != nil && strings.Contains(err.Error(), "no such flag") &&
		strings.Contains(err.Error(), "exit status 2"), "got %v", err)
}

func TestParse_names_what_is_valid(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"-only a,x", "valid are a, b, c, d, e, f"},
		{"-subjects other", "valid are baseline, bridge, publisher"},
		{"-objects 0", "at least 1"},
		{"-nonsense", "nonsense"},
		{"kafka", "no role"},
	} {
		err := run(t.Context(), strings.Fields(tt.args), nil, nil, nil)
		require.True(t, errors.As(err, new(*usageError)), tt.args)
		assert.Contains(t, err.Error(), tt.want, tt.args)
	}
}

func TestResults_compare_columns_run_by_run(t *testing.T) {
	at := row{"phase", "CPU", "µs"}
	r := &results{}
	for run, v := range []struct{ bridge, bare float64 }{{20, 10}, {90, 30}, {40, 10}} {
		r.add(run+1, at, colBridge, v.bridge)
		r.add(run+1, at, colPublisher, v.bare)
	}
	assert.EqualValues(t, 40, r.median(at, colBridge), "median")
	assert.EqualValues(t, 3, r.ratio(at, colBridge), "ratio, want the median of 2, 3, 4")
	got := r.ratio(at, colBaseline)
	assert.True(t, math.IsNaN(got), "ratio of nothing %v", got)
	var b strings.Builder
	require.NoError(t, r.writeMarkdown(&b))
	assert.True(t, strings.HasSuffix(b.String(), "| phase | CPU | 40.0 µs | 10.0 µs | 3.00 |  |  |\n"),
		"got %q", b.String())
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567", -100: "-100"} {
		assert.Equal(t, want, thousands(n), "thousands(%d)", n)
	}
	got := median([]float64{4, 1, 3, 2})
	assert.True(t, got == 2.5, "median %v", got)
	values := make([]float64, 200)
	for i := range values {
		values[i] = float64(200 - i)
	}
	p50, p99 := percentile(values, 50), percentile(values, 99)
	assert.True(t, p50 == 100 && p99 == 198, "p50 %v, p99 %v", p50, p99)
}

func TestPoll_says_why_it_was_cut_short(t *testing.T) {
	ctx, cancel := deadline(t.Context(), time.Millisecond)
	defer cancel()
	err := poll(ctx, time.Millisecond, func() (bool, error) { return false, nil })
	assert.True(t, err != nil && err.Error() == "not done after 1ms" && !errors.Is(err, context.Canceled),
		"got %v", err)
}

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

// standIn behaves like the bridge as far as the driver can see: it creates the stream, publishes the markers, and does
// what the baseline does.
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
