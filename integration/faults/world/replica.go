// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
)

// The bridge's Lease in worlds with replicas, and how long it lasts.
const (
	leaseName      = "kube-eventbridge"
	leaseNamespace = "default"
	// LeaseDuration is how long after its last renewal others leave the Lease alone.
	LeaseDuration = 3 * time.Second
)

// replica is a place in which a bridge runs, one process after the other. Of several, each has ways of its own to the
// API server and to the brokers.
type replica struct {
	number int // from 1
	// config is the bridge's file, and server is where it serves metrics.
	config, server string
	// dir is where its files are, and kubeconfig one of them.
	dir, kubeconfig string
	// api and brokers are the replica's own ways; they are nil where there is only one replica.
	api, brokers *proxy.Proxy
	// bridge is the process that was started last, nil before the first. The world's mu guards it.
	bridge *Bridge
}

// configure writes a replica's kubeconfig and file.
func (w *World) configure(r *replica) error {
	api := rest.CopyConfig(w.api.config())
	if r.dir = w.dir; r.api != nil {
		api.Host = "https://" + r.api.Address()
		r.dir = filepath.Join(w.dir, fmt.Sprintf("replica-%d", r.number))
		if err := os.MkdirAll(r.dir, 0o755); err != nil {
			return err
		}
	}
	api.CertFile, api.KeyFile = filepath.Join(r.dir, certFile), filepath.Join(r.dir, keyFile)
	var err error
	if r.kubeconfig, err = controlplane.WriteKubeconfig(api, filepath.Join(r.dir, "kubeconfig")); err != nil {
		return err
	}
	port, err := controlplane.FreePort()
	if err != nil {
		return err
	}
	r.server = fmt.Sprintf("127.0.0.1:%d", port)
	r.config = filepath.Join(r.dir, "bridge.yaml")
	return w.writeFile(r)
}

// The bridge's client certificate and key, in each replica's directory.
const certFile, keyFile = "user.crt", "user.key"

// issue writes another client certificate, with its key, to where each replica finds it, and returns it in DER.
func (w *World) issue() (certificate []byte, err error) {
	user := w.control.User(bridgeUser)
	for _, r := range w.replicas {
		// Whoever reads between the two finds two that do not fit, and reads them again.
		err = errors.Join(err, replaceFile(filepath.Join(r.dir, keyFile), string(user.KeyData)),
			replaceFile(filepath.Join(r.dir, certFile), string(user.CertData)))
	}
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(user.CertData)
	return block.Bytes, nil
}

// writeFile writes a replica's file, which differs from what it was if what is selected has been written since.
func (w *World) writeFile(r *replica) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrote = time.Now()
	return replaceFile(r.config, fmt.Sprintf(`# %d
cluster: %s
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: %s}
log: {format: json}
pipelines:
  - name: %s
    resources: %s
    encoding: {%s}
    sink: {%s}
    checkpoint: {%s}%s
%s
%s
`, w.written, Cluster, r.kubeconfig, filepath.Join(r.dir, "data"), r.server, Pipeline, w.resources, published,
		w.broker.sink(r), w.checkpoint(), w.second.pipeline(w, r), w.election(), w.cfg.Settings))
}

// published is what the bridge's file has published of Secrets.
const published = "secrets: {annotations: [" + drive.ChangeAnnotation + "]}"

// election is what the bridge's file says of it.
func (w *World) election() string {
	if w.cfg.Replicas == 0 {
		return ""
	}
	return fmt.Sprintf("leaderElection: {resourceName: %s, resourceNamespace: %s, leaseDuration: %s, renewDeadline: 2s, "+
		"retryPeriod: 400ms}",
		leaseName, leaseNamespace, LeaseDuration)
}

// makeReplicas opens the ways and writes the files.
func (w *World) makeReplicas(context.Context) error {
	for n := range max(1, w.cfg.Replicas) {
		r := &replica{number: n + 1}
		w.replicas = append(w.replicas, r)
		if w.cfg.Replicas > 0 {
			var err error
			if r.api, err = proxy.To(strings.TrimPrefix(w.api.config().Host, "https://")); err != nil {
				return err
			}
			if r.brokers, err = w.broker.way(r.number); err != nil {
				return err
			}
		}
		if err := w.configure(r); err != nil {
			return err
		}
	}
	user, err := w.issue()
	w.api.admit(user)
	return err
}

func (r *replica) close() (errs error) {
	if r.api != nil {
		errs = r.api.Close()
	}
	if r.brokers != nil {
		errs = errors.Join(errs, r.brokers.Close())
	}
	return errs
}

// processes are those that were started last, one of each replica that was started at all.
func (w *World) processes() (all []*Bridge) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.replicas {
		if r.bridge != nil {
			all = append(all, r.bridge)
		}
	}
	return all
}

// answering is how long a replica may take to say whether it leads: one that sleeps never does.
const answering = time.Second

// follow finds out which replica leads, which [World.Bridge] then is, and reports whether one does. Without replicas
// the bridge always does.
func (w *World) follow(ctx context.Context) bool {
	if w.cfg.Replicas == 0 {
		return true
	}
	leader := w.leader(ctx, nil)
	if leader == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, r := range w.replicas {
		if r.bridge == leader {
			w.leads = n
		}
	}
	return true
}

// leader returns the process that leads and has begun to read; nil if there is none besides the given one.
func (w *World) leader(ctx context.Context, but *Bridge) *Bridge {
	ctx, cancel := context.WithTimeout(ctx, answering)
	defer cancel()
	all := w.processes()
	leads := make([]bool, len(all))
	var work sync.WaitGroup
	for n, b := range all {
		if b != but && b.Running() {
			work.Go(func() { leads[n] = b.publishes(ctx) })
		}
	}
	work.Wait()
	for n, is := range leads {
		if is {
			return all[n]
		}
	}
	return nil
}

// publishes reports whether a process says that it leads and reads.
func (b *Bridge) publishes(ctx context.Context) bool {
	m, err := b.Metrics(ctx)
	leads, _ := m.Sum("leader")
	_, streams := m.Sum("stream_watching")
	return err == nil && leads == 1 && streams > 0
}

// killLeader kills the process that leads, or did last, and waits for its end: without replicas the bridge.
func (w *World) killLeader(ctx context.Context) error {
	w.follow(ctx)
	return w.Bridge().kill()
}

// standby returns one that does not lead, and runs; nil if there is none.
func (i *injection) standby(leader *Bridge) *replica {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, n := range i.random.Perm(len(i.replicas)) {
		if r := i.replicas[n]; r.bridge != leader && r.bridge.Running() {
			return r
		}
	}
	return nil
}

// of returns the replica of a process.
func (w *World) of(b *Bridge) *replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.replicas {
		if r.bridge == b {
			return r
		}
	}
	return nil
}

// process is the one of a replica that was started last.
func (w *World) process(r *replica) *Bridge {
	w.mu.Lock()
	defer w.mu.Unlock()
	return r.bridge
}
