// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	rigs "github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// The load of e.
const (
	loadNamespace  = "bench"
	loadConfigMaps = 100
)

// latency is one run of e: ConfigMaps of a real API server are patched at a fixed rate. The same change is seen by a
// plain watch of the driver, and its acknowledgement by a client of the broker that listens to everyone's answers.
// Which of the bridge and the watcher is first changes with each run.
func (b *bench) latency(ctx context.Context, run int) error {
	var follow []startFollower
	if b.withBridge {
		follow = append(follow, b.followingBridge)
	}
	if b.withPublisher {
		follow = append(follow, followingWatcher)
	}
	if run%2 == 0 {
		slices.Reverse(follow)
	}
	for _, rate := range []int{50, 200, 500} {
		for _, start := range follow {
			if err := b.latencyAt(ctx, run, rate, start); err != nil {
				return fmt.Errorf("%d patches a second: %w", rate, err)
			}
		}
	}
	return nil
}

// follower is a process that publishes the changes of the ConfigMaps.
type follower struct {
	*process
	column string
	// published is how many messages it has published before the first change.
	published int
}

// startFollower starts one, until the end of the scope. The version is that of the list of the ConfigMaps.
type startFollower func(ctx context.Context, end *try.Scope, r *rig, version string) (*follower, error)

func (b *bench) followingBridge(ctx context.Context, end *try.Scope, r *rig, _ string) (*follower, error) {
	p, err := b.startBridge(r, "configmaps", loadNamespace, nil)
	if err != nil {
		return nil, err
	}
	end.Finally(p.stop)
	published := loadConfigMaps + bridgeMarkers
	_, err = r.await(ctx, published, p)
	return &follower{p, colBridge, published}, err
}

func followingWatcher(ctx context.Context, end *try.Scope, r *rig, version string) (*follower, error) {
	if _, err := r.js.CreateStream(ctx, defaultStream()); err != nil {
		return nil, fmt.Errorf("create the stream: %w", err)
	}
	p, _, err := startRole(ctx, "watcher", "-broker", r.url, "-kubeconfig", r.kubeconfig, "-version", version)
	if err != nil {
		return nil, err
	}
	end.Finally(p.stop)
	return &follower{process: p, column: colPublisher}, nil
}

func (b *bench) latencyAt(ctx context.Context, run, rate int, start startFollower) error {
	b.progress("run %d: %d patches a second for %d s", run, rate, b.rateSeconds)
	ctx, cancel := deadline(ctx, 20*time.Minute+2*time.Duration(b.rateSeconds)*time.Second)
	defer cancel()
	return try.Run(func(end *try.Scope) {
		r, config := b.newControlPlane(ctx, end)
		version := try.Get(createConfigMaps(ctx, config))
		p := try.Get(start(ctx, end, r, version))
		try.Do(settle(ctx, p.process))
		acked := try.Get(r.acknowledgements())
		before, n := try.Get(p.cpu()), rate*b.rateSeconds
		switched := try.Get(p.switches())
		l := try.Get(runLoad(ctx, config, version, rate, n))
		try.Get(r.await(ctx, p.published+n, p.process))
		used := try.Get(p.cpu()) - before
		switched = try.Get(p.switches()) - switched
		at := func(metric, unit string) row {
			return row{fmt.Sprintf("%d ConfigMap patches a second", rate), metric, unit}
		}
		b.add(run, at("patches per second reached", "/s"), p.column, l.rate)
		b.add(run, at("CPU per event", "µs"), p.column, perUnit(used, n))
		b.add(run, at("thread switches per event", ""), p.column, float64(switched)/float64(n))
		try.Do(b.addLatencies(run, at, p.column, l, acked.byVersion(try.Get(r.versions(ctx)))))
	})
}

// addLatencies joins by version what the watch saw, what the writers were answered and when the acknowledgement came.
func (b *bench) addLatencies(
	run int, at func(metric, unit string) row, column string, l *load, acked map[string]time.Time,
) error {
	var answered, published []float64
	for version, answer := range l.answered {
		seen, ok := l.seen[version]
		if !ok {
			return fmt.Errorf("the watch has not seen version %s", version)
		}
		ack, ok := acked[version]
		if !ok {
			return fmt.Errorf("version %s was not acknowledged", version)
		}
		answered = append(answered, seen.Sub(answer).Seconds()*1e3)
		published = append(published, ack.Sub(seen).Seconds()*1e3)
	}
	for _, p := range []int{50, 99} {
		b.add(run, at(fmt.Sprintf("watch after the write's answer, p%d", p), "ms"), column, percentile(answered, p))
	}
	for _, p := range []int{50, 99} {
		b.add(run, at(fmt.Sprintf("acknowledged after the watch saw it, p%d", p), "ms"), column, percentile(published, p))
	}
	return nil
}

// newControlPlane starts a rig with a real API server and a broker, which are closed at the end of the scope.
func (b *bench) newControlPlane(ctx context.Context, end *try.Scope) (*rig, *rest.Config) {
	r := &rig{dir: try.Get(os.MkdirTemp(b.dir, "rig-"))}
	end.Finally(r.close) // the files go last
	plane := try.Get(controlplane.Start(ctx, controlplane.Config{DataDir: filepath.Join(r.dir, "etcd")}))
	end.Finally(plane.Close)
	r.kubeconfig = try.Get(plane.Kubeconfig(r.dir))
	try.Do(r.startBroker(ctx))
	return r, plane.RESTConfig()
}

// percentile returns the smallest value that p percent of the values do not exceed. It sorts them.
func percentile(values []float64, p int) float64 {
	slices.Sort(values)
	return values[(len(values)*p+99)/100-1]
}

// createConfigMaps returns the version from which a watch sees all changes of the new ConfigMaps.
func createConfigMaps(ctx context.Context, config *rest.Config) (string, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("make a client: %w", err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: loadNamespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return "", fmt.Errorf("create namespace %s: %w", loadNamespace, err)
	}
	maps := client.CoreV1().ConfigMaps(loadNamespace)
	for i := range loadConfigMaps {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: configMapName(i)}, Data: map[string]string{"n": "0"}}
		if _, err := maps.Create(ctx, m, metav1.CreateOptions{}); err != nil {
			return "", fmt.Errorf("create ConfigMap %s: %w", m.Name, err)
		}
	}
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list ConfigMaps: %w", err)
	}
	return list.ResourceVersion, nil
}

func configMapName(i int) string { return fmt.Sprintf("load-%03d", i%loadConfigMaps) }

// acknowledgements are the broker's answers to publishes, as a client beside the bridge receives them.
type acknowledgements struct {
	mu    sync.Mutex
	times map[uint64]time.Time // by sequence in the log
}

// acknowledgements listens from now on.
func (r *rig) acknowledgements() (*acknowledgements, error) {
	a := &acknowledgements{times: map[uint64]time.Time{}}
	sub, err := r.conn.Subscribe(nats.InboxPrefix+">", a.take)
	if err != nil {
		return nil, fmt.Errorf("listen to acknowledgements: %w", err)
	}
	if err := sub.SetPendingLimits(-1, -1); err != nil {
		return nil, fmt.Errorf("listen to acknowledgements: %w", err)
	}
	return a, r.conn.Flush()
}

func (a *acknowledgements) take(m *nats.Msg) {
	now := time.Now()
	var ack struct {
		Stream   string
		Sequence uint64 `json:"seq"`
	}
	if json.Unmarshal(m.Data, &ack) != nil || ack.Stream != streamName || ack.Sequence == 0 {
		return // an answer to something else
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times[ack.Sequence] = now
}

// byVersion returns when each version was acknowledged.
func (a *acknowledgements) byVersion(versions map[uint64]string) map[string]time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	times := map[string]time.Time{}
	for sequence, at := range a.times {
		times[versions[sequence]] = at
	}
	return times
}

// versions returns the resourceVersion of each event of the log, by its sequence.
func (r *rig) versions(ctx context.Context) (map[uint64]string, error) {
	log, err := rigs.NATSLog(r.js, streamName).Read(ctx)
	versions := map[uint64]string{}
	for _, m := range log {
		versions[m.Sequence] = nats.Header(m.Header).Get("ce-resourceversion")
	}
	return versions, err
}
