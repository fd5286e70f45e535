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

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
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
    resources: [%s]
    sink: {%s}
    checkpoint: {%s}
dataDir: %q
server: {listen: %q}
%s
`

// idleMode is what a bridge has that has nothing to do.
type idleMode struct {
	name                            string
	resources, checkpoint, election string
	streams                         int
	// namespaces are created, with the label that resources select.
	namespaces int
	// standby: another process stands by.
	standby bool
}

// idle is one run of h: twenty streams of a real API server in which nothing happens, alone and with leader election,
// where another process stands by; and a stream for each of very many namespaces. Metrics are read every fifteen
// seconds, as Prometheus would.
func (b *bench) idle(ctx context.Context, run int) error {
	const file = `file: {path: ""}`
	many := "{resource: " + strings.Join(idleResources, "}, {resource: ") + "}"
	for _, m := range []idleMode{
		{name: "alone", resources: many, checkpoint: file, streams: len(idleResources)},
		{
			name: "with leader election", resources: many, checkpoint: "nats: {}",
			election: "leaderElection: {resourceNamespace: default}", streams: len(idleResources), standby: true,
		},
		{
			name: "of a resource", resources: "{resource: configmaps, namespaceSelector: bench=yes}", checkpoint: file,
			streams: b.idleNamespaces, namespaces: b.idleNamespaces,
		},
	} {
		if err := b.idleWith(ctx, run, &m); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

func (b *bench) idleWith(ctx context.Context, run int, m *idleMode) error {
	what := thousands(m.streams) + " idle streams, "
	b.progress("run %d: %s%s, for %d s", run, what, m.name, b.idleSeconds)
	ctx, cancel := deadline(ctx, 10*time.Minute+time.Duration(b.idleSeconds)*time.Second)
	defer cancel()
	return try.Run(func(end *try.Scope) {
		r, config := b.newControlPlane(ctx, end)
		try.Do(createNamespaces(ctx, config, m.namespaces))
		subjects := []*idler{{phase: what + m.name, dir: "bridge"}}
		if m.standby {
			subjects = append(subjects, &idler{phase: what + "standing by", dir: "standby"})
		}
		for _, s := range subjects {
			b.startIdle(ctx, end, r, s, m)
		}
		b.watchIdle(ctx, run, subjects)
	})
}

// createNamespaces creates n namespaces with the label bench=yes.
func createNamespaces(ctx context.Context, config *rest.Config, n int) error {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for i := range n {
		g.Go(func() error {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("idle-%05d", i), Labels: map[string]string{"bench": "yes"},
			}}
			if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
				return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// idler is a bridge that has nothing to do.
type idler struct {
	phase, dir, address string
	p                   *process
	used                time.Duration
}

// givenBack is how long after its start a bridge has given back what that took, once.
const givenBack = time.Minute

// startIdle starts a bridge and waits until it is ready and at rest, and has given memory back.
func (b *bench) startIdle(ctx context.Context, end *try.Scope, r *rig, s *idler, m *idleMode) {
	s.address = try.Get(freeAddress())
	dir := filepath.Join(r.dir, s.dir)
	try.Do(os.Mkdir(dir, 0o700))
	config := filepath.Join(dir, "bridge.yaml")
	text := fmt.Sprintf(idleConfig, r.kubeconfig, m.resources, r.sink, m.checkpoint, filepath.Join(dir, "data"), s.address,
		m.election)
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
	try.Do(pause.For(ctx, givenBack))
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
