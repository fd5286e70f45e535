// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// idleResources are twenty streams, of what every API server has.
var idleResources = []string{
	"configmaps", "secrets", "services", "serviceaccounts", "pods", "nodes", "namespaces", "persistentvolumeclaims",
	"persistentvolumes", "endpointslices.discovery.k8s.io",
	"deployments.apps", "statefulsets.apps", "daemonsets.apps", "replicasets.apps", "jobs.batch", "cronjobs.batch",
	"ingresses.networking.k8s.io", "networkpolicies.networking.k8s.io", "roles.rbac.authorization.k8s.io",
	"rolebindings.rbac.authorization.k8s.io",
}

const idleConfig = `cluster: bench
kubernetes: {kubeconfig: %q}
pipelines:
  - name: bench
    resources: [{resource: %s}]
    sink: {%s}
    checkpoint: {%s}
dataDir: %q
server: {listen: %q}
%s
`

// idle is one run of h: twenty streams of a real API server in which nothing happens, alone and with leader
// election, where another process stands by. Metrics are read every fifteen seconds, as Prometheus would.
func (b *bench) idle(ctx context.Context, run int) error {
	for _, mode := range []struct {
		name, checkpoint, election string
		standby                    bool
	}{
		{name: "alone", checkpoint: `file: {path: ""}`},
		{"with leader election", "nats: {}", "leaderElection: {resourceNamespace: default}", true},
	} {
		if err := b.idleWith(ctx, run, mode.name, mode.checkpoint, mode.election, mode.standby); err != nil {
			return fmt.Errorf("%s: %w", mode.name, err)
		}
	}
	return nil
}

func (b *bench) idleWith(ctx context.Context, run int, name, checkpoint, election string, standby bool) error {
	b.progress("run %d: %d idle streams, %s, for %d s", run, len(idleResources), name, b.idleSeconds)
	ctx, cancel := deadline(ctx, 10*time.Minute+time.Duration(b.idleSeconds)*time.Second)
	defer cancel()
	return try.Run(func(end *try.Scope) {
		r, _ := b.newControlPlane(ctx, end)
		what := fmt.Sprintf("%d idle streams, ", len(idleResources))
		subjects := []*idler{{phase: what + name, dir: "bridge"}}
		if standby {
			subjects = append(subjects, &idler{phase: what + "standing by", dir: "standby"})
		}
		for _, s := range subjects {
			b.startIdle(ctx, end, r, s, checkpoint, election)
		}
		b.watchIdle(ctx, run, subjects)
	})
}

// idler is a bridge that has nothing to do.
type idler struct {
	phase, dir, address string
	p                   *process
	used                time.Duration
}

// startIdle starts a bridge and waits until it is ready and at rest.
func (b *bench) startIdle(ctx context.Context, end *try.Scope, r *rig, s *idler, checkpoint, election string) {
	s.address = try.Get(freeAddress())
	dir := filepath.Join(r.dir, s.dir)
	try.Do(os.Mkdir(dir, 0o700))
	config := filepath.Join(dir, "bridge.yaml")
	text := fmt.Sprintf(idleConfig, r.kubeconfig, strings.Join(idleResources, "}, {resource: "), r.sink, checkpoint,
		filepath.Join(dir, "data"), s.address, election)
	try.Do(os.WriteFile(config, []byte(text), 0o600))
	s.p = try.Get(start(colBridge, b.program, []string{"run", "--config", config}, nil))
	end.Finally(s.p.stop)
	if err := poll(ctx, 100*time.Millisecond, func() (bool, error) {
		_, err := fetch(ctx, http.MethodGet, "http://"+s.address+"/readyz")
		return err == nil, s.p.alive()
	}); err != nil {
		try.Do(fmt.Errorf("wait until it is ready: %w\n%s", err, s.p.stderr.Bytes()))
	}
	try.Do(settle(ctx, s.p))
}

// watchIdle adds what the subjects use while nothing happens; memory is that at the end.
func (b *bench) watchIdle(ctx context.Context, run int, subjects []*idler) {
	const scrape = 15 * time.Second
	for _, s := range subjects {
		s.used = try.Get(s.p.cpu())
	}
	begun, next := time.Now(), time.Now().Add(scrape)
	try.Do(poll(ctx, time.Second, func() (bool, error) {
		if time.Now().After(next) {
			next = next.Add(scrape)
			for _, s := range subjects {
				if _, err := fetch(ctx, http.MethodGet, "http://"+s.address+"/metrics"); err != nil {
					return false, err
				}
			}
		}
		return time.Since(begun) >= time.Duration(b.idleSeconds)*time.Second, nil
	}))
	took := time.Since(begun)
	for _, s := range subjects {
		used, resident := try.Get(s.p.cpu()), try.Get(s.p.memory("VmRSS:"))
		b.add(run, row{s.phase, "CPU, of a core", "%"}, colBridge, 100*(used-s.used).Seconds()/took.Seconds())
		b.add(run, row{s.phase, "RSS", "MiB"}, colBridge, float64(resident)/(1<<20))
	}
}
