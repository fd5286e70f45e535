// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	rigs "github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
)

// buildBridge builds the program that is measured, unless one was given or none is needed.
func (b *bench) buildBridge(ctx context.Context) (err error) {
	switch {
	case !b.withBridge:
	case b.bridge != "":
		b.program, err = filepath.Abs(b.bridge)
	default:
		b.progress("building the bridge")
		b.program, err = rigs.Program(ctx, b.log)
	}
	return err
}

const bridgeConfig = `cluster: bench
kubernetes: {kubeconfig: %q}
pipelines:
  - name: bench
    resources:
      - {resource: %s, namespaces: [%s]}
    sink:
      %s
dataDir: %q
server: {listen: %q}
`

// startBridge starts the bridge on the rig, with its metrics at the rig's address.
func (b *bench) startBridge(r *rig, resource, namespace string, env []string) (*process, error) {
	return b.startProgram(r, colBridge, []string{b.program, "run"}, resource, namespace, env)
}

// startProgram starts a command that takes the bridge's file.
func (b *bench) startProgram(
	r *rig, name string, command []string, resource, namespace string, env []string,
) (*process, error) {
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(r.dir, "bridge.yaml")
	text := fmt.Sprintf(bridgeConfig, r.kubeconfig, resource, namespace, r.sink, filepath.Join(r.dir, "data"), listen)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the bridge's configuration: %w", err)
	}
	r.metrics = "http://" + listen + "/metrics"
	return start(name, command[0], append(command[1:], "--config", config), env)
}

// freeAddress returns an address for a server of this machine.
func freeAddress() (string, error) {
	free, err := port.Free()
	return fmt.Sprintf("127.0.0.1:%d", free), err
}

// heap returns the bytes of the bridge's heap that were in use, garbage since the last collection included where the
// bridge does not say what was live.
func (r *rig) heap(ctx context.Context) (float64, error) {
	text, err := fetch(ctx, http.MethodGet, r.metrics)
	if err != nil {
		return 0, fmt.Errorf("read the bridge's metrics: %w", err)
	}
	found := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if name, number, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			if v, err := strconv.ParseFloat(number, 64); err == nil {
				found[name] = v
			}
		}
	}
	for _, name := range []string{"go_gc_heap_live_bytes", "go_memstats_heap_alloc_bytes"} {
		if v, ok := found[name]; ok {
			return v, nil
		}
	}
	return 0, errors.New("the bridge's metrics do not have go_memstats_heap_alloc_bytes")
}
