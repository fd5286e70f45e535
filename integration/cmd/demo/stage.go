// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
)

// stage is everything that runs: a control plane, the bridge, and somebody who reads the log.
type stage struct {
	*base
	config     string
	kubeconfig string
	// server is the address of the bridge's HTTP server.
	server  string
	broker  string
	cluster *controlplane.ControlPlane
	client  *dynamic.DynamicClient
	bridge  *program
	tail    *program
	lines   atomic.Int64 // events that tail has shown
	log     *eventLog
}

const configuration = `cluster: demo
kubernetes: {kubeconfig: %q}
pipelines:
  - name: demo
    resources:
      - resource: configmaps
      - resource: deployments.apps
      - resource: secrets
      - resource: widgets.demo.example.com    # a resource that has no definition yet
    sink: {embedded: {listen: "127.0.0.1:%d"}}
dataDir: %q
server: {listen: "127.0.0.1:%d"}
`

// start starts the control plane, then the bridge and tail.
func (st *stage) start(ctx context.Context) {
	s := st.screen
	s.say("  starting etcd and kube-apiserver …")
	log := try.Get(st.create("control-plane.log"))
	st.cluster = try.Get(controlplane.Start(ctx, controlplane.Config{
		Binaries: st.binaries,
		DataDir:  filepath.Join(st.dir, "cluster"), Log: log,
	}))
	st.kubeconfig = try.Get(st.cluster.Kubeconfig(st.dir))
	st.client = try.Get(dynamic.NewForConfig(st.cluster.RESTConfig()))
	try.Do(st.configure())
	s.say("  starting the bridge, with the NATS JetStream server that it has inside …")
	st.startBridge()
	st.log = try.Get(openLog(st.broker))
	errs := try.Get(st.create("tail.log"))
	s.say("  reading the log with: %s", s.bold("kube-eventbridge tail --from-start"))
	args := []string{"tail", "--server", st.broker, "--from-start"}
	st.tail = try.Get(startProgram("tail", st.program, args, st.tailed, errs))
}

// tailed shows a line of tail, and counts it if it is an event: those begin with a time.
func (st *stage) tailed(line string) {
	st.screen.say("    %s %s", st.screen.dim("│"), st.screen.operation(line))
	if line != "" && line[0] >= '0' && line[0] <= '9' {
		st.lines.Add(1)
	}
}

// configure writes the bridge's configuration, with free ports.
func (st *stage) configure() error {
	broker := try.Get(port.Free())
	server := try.Get(port.Free())
	st.broker = fmt.Sprintf("nats://127.0.0.1:%d", broker)
	st.config = filepath.Join(st.dir, "bridge.yaml")
	st.server = fmt.Sprintf("127.0.0.1:%d", server)
	text := fmt.Sprintf(configuration, st.kubeconfig, broker, filepath.Join(st.dir, "bridge"), server)
	if err := os.WriteFile(st.config, []byte(text), 0o600); err != nil {
		return fmt.Errorf("write the configuration: %w", err)
	}
	return nil
}

// startBridge starts the bridge, for the first time or again.
func (st *stage) startBridge() {
	log := try.Get(st.create("bridge.log"))
	args := []string{"run", "--config", st.config}
	st.bridge = try.Get(startProgram("kube-eventbridge", st.program, args, func(string) {}, log))
}

// await waits until the log satisfies check, or the bridge has ended.
func (st *stage) await(ctx context.Context, what string, check func(*eventLog) bool) error {
	return until(ctx, 45*time.Second, what, func(ctx context.Context) (bool, error) {
		if err := st.bridge.alive(); err != nil {
			return false, err
		}
		if err := st.log.update(ctx); err != nil {
			return false, err
		}
		return check(st.log), nil
	})
}

// shown waits a moment for tail to print what is in the log, so that the screen tells a story.
func (st *stage) shown(ctx context.Context) error {
	return until(ctx, 15*time.Second, "tail to show the events", func(context.Context) (bool, error) {
		return st.lines.Load() >= int64(len(st.log.events)), st.tail.alive()
	})
}

// invite says how to look at what keeps running.
func (st *stage) invite() {
	st.screen.say("\n%s\n  export KUBECONFIG=%s\n  %s tail --server %s --from-start\n  %s status --config %s    # "+
		"change that file, and the bridge goes by it\n  http://%s/\n  %s/bridge.log\n^C ends it, or from elsewhere: kill "+
		"-INT %d",
		st.screen.bold("Everything keeps running. To look around:"), st.kubeconfig, st.program, st.broker, st.program,
		st.config, st.server, st.dir, os.Getpid())
}

// close ends all processes that run.
func (st *stage) close() error {
	err := errors.Join(st.tail.stop(), st.bridge.stop())
	st.log.close()
	if st.cluster != nil {
		err = errors.Join(err, st.cluster.Close())
	}
	return err
}
