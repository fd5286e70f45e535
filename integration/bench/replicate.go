// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	rigs "github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// The load of i.
const (
	replicaWriters = 16  // as many as a replica has
	replicaRate    = 100 // changes per second
)

// replicated is an object of the log of i, of a source cluster that does not exist.
type replicated struct {
	api, group, resource, kind, name string
	// body is the object in a namespace.
	body func(namespace string) []byte
}

func (o *replicated) uid() string {
	return fmt.Sprintf("9c0e6a52-31d8-4b6f-%04x-%012x", len(o.resource), []byte(o.name)[max(0, len(o.name)-6):])
}

// path is where objects of the kind are.
func (o *replicated) path(namespace string) string {
	if o.group == "core" {
		return "/api/v1/namespaces/" + namespace + "/" + o.resource
	}
	return "/apis/" + o.api + "/namespaces/" + namespace + "/" + o.resource
}

func benchConfigMap(i, size int, text string) *replicated {
	name := fmt.Sprintf("map-%06d", i)
	return &replicated{"v1", "core", "configmaps", "ConfigMap", name, func(namespace string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":%q,`+
			`"labels":{"app":"bench"}},"data":{"n":%q,"text":%q}}`, name, namespace, text, strings.Repeat("x", size))
	}}
}

func benchDeployment(i int) *replicated {
	name := fmt.Sprintf("deploy-%06d", i)
	return &replicated{"apps/v1", "apps", "deployments", "Deployment", name, func(namespace string) []byte {
		return fmt.Appendf(nil, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":%q,"namespace":%q,`+
			`"labels":{"app":%[1]q}},"spec":{"replicas":2,"revisionHistoryLimit":10,"progressDeadlineSeconds":600,`+
			`"selector":{"matchLabels":{"app":%[1]q}},"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxSurge":"25%%",`+
			`"maxUnavailable":"25%%"}},"template":{"metadata":{"labels":{"app":%[1]q}},"spec":{"containers":[{"name":"main",`+
			`"image":"registry.example.com/app:1","imagePullPolicy":"IfNotPresent","env":[{"name":"A","value":"b"},`+
			`{"name":"C","value":"d"}],"ports":[{"containerPort":8080,"protocol":"TCP"}],"resources":{"limits":`+
			`{"cpu":"500m","memory":"256Mi"},"requests":{"cpu":"250m","memory":"128Mi"}},"terminationMessagePath":`+
			`"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always",`+
			`"schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}`,
			name, namespace)
	}}
}

// message is an event of the object.
func (o *replicated) message(version int, op string) *nats.Msg {
	id := objectIdentity{Namespace: loadNamespace, Name: o.name, UID: o.uid()}
	h := headers(id, strconv.Itoa(baseVersion+version), op, time.Now())
	h["ce-source"] = []string{"/clusters/bench" + strings.Replace(o.path(""), "/namespaces/", "", 1)}
	h["ce-apiversion"], h["ce-kind"], h["ce-resource"] = []string{o.api}, []string{o.kind}, []string{o.resource}
	if o.group != "core" {
		h["ce-apigroup"] = []string{o.group}
	}
	h["ce-partitionkey"] = []string{"bench/" + o.group + "/" + o.resource + "/" + loadNamespace + "/" + o.name}
	var object map[string]any
	_ = json.Unmarshal(o.body(loadNamespace), &object) // it is well formed
	metadata, _ := object["metadata"].(map[string]any)
	metadata["uid"], metadata["resourceVersion"] = o.uid(), strconv.Itoa(baseVersion+version)
	metadata["creationTimestamp"] = "2026-01-01T00:00:00Z"
	data, _ := json.Marshal(object) // a decoded object has no error
	return &nats.Msg{
		Subject: fmt.Sprintf("k8s.bench.%s.%s.%s.%s", o.group, o.resource, loadNamespace, o.name), Header: h, Data: data,
	}
}

// replicaRig is a target with a log that describes what shall be in it.
type replicaRig struct {
	*rig
	config  *rest.Config
	client  *kubernetes.Clientset
	version atomic.Int64
}

func (b *bench) newReplicaRig(ctx context.Context, end *try.Scope) *replicaRig {
	r, config := b.newControlPlane(ctx, end)
	config = rest.CopyConfig(config)
	config.QPS = -1
	rr := &replicaRig{rig: r, config: config, client: try.Get(kubernetes.NewForConfig(config))}
	try.Get(r.js.CreateStream(ctx, b.stream))
	return rr
}

// publish appends an event of each object to the log.
func (r *replicaRig) publish(ctx context.Context, n int, object func(int) *nats.Msg) error {
	for i := range n {
		if _, err := r.js.PublishMsgAsync(object(i), jetstream.WithStallWait(30*time.Second)); err != nil {
			return fmt.Errorf("publish: %w", err)
		}
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-r.js.PublishAsyncComplete():
		return nil
	}
}

// next is the version of the next change.
func (r *replicaRig) next() int { return int(r.version.Add(1)) }

const replicaConfig = `cluster: target
kubernetes: {kubeconfig: %q}
server: {listen: %q, admin: ""}
replicas:
  - name: %s
    from: {cluster: bench, pipeline: bench, nats: {servers: [%q], stream: %s}}
    resources: [{resource: configmaps, namespaces: [%s]}, {resource: deployments.apps, namespaces: [%[6]s]}]
    into: {namespaces: {%[6]s: %[3]s}}
`

// startReplica starts a replica that writes into the namespace of its name.
func (b *bench) startReplica(r *replicaRig, name string) (*process, error) {
	listen, err := freeAddress()
	if err != nil {
		return nil, err
	}
	file := filepath.Join(r.dir, name+".yaml")
	text := fmt.Sprintf(replicaConfig, r.kubeconfig, listen, name, r.url, streamName, loadNamespace)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, fmt.Errorf("write the replica's configuration: %w", err)
	}
	r.metrics = "http://" + listen + "/metrics"
	return start("replica", b.program, []string{"replicate", "--config", file}, nil)
}

func (r *replicaRig) namespace(ctx context.Context, name string) error {
	_, err := r.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// watch calls each for every change at a path, until it returns false. It returns once the watch is open.
func (r *replicaRig) watch(
	ctx context.Context, group *errgroup.Group, path string, each func(frame []byte, at time.Time) bool,
) error {
	config := rest.CopyConfig(r.config)
	config.NextProtos = []string{"http/1.1"} // it does not wait behind answers to the writers
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	request := func() *rest.Request {
		return client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json")
	}
	list, err := request().Param("limit", "1").Do(ctx).Raw()
	if err != nil {
		return fmt.Errorf("list %s: %w", path, err)
	}
	version, err := versionOf(list)
	if err != nil {
		return err
	}
	open := func() (io.ReadCloser, error) {
		return request().Param("watch", "true").Param("resourceVersion", version).Stream(ctx)
	}
	stream, err := open()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	group.Go(func() error {
		defer func() { _ = stream.Close() }()
		frames := bufio.NewReaderSize(stream, 256<<10)
		for {
			frame, err := frames.ReadSlice('\n')
			if errors.Is(err, io.EOF) { // the API server ends a watch whose client is slow
				var next io.ReadCloser
				if next, err = open(); err == nil {
					_ = stream.Close()
					stream = next
					frames.Reset(stream)
					continue
				}
			}
			if err == nil {
				version, err = versionOf(frame)
			}
			if err != nil {
				return fmt.Errorf("watch %s: %w", path, err)
			}
			if !each(frame, time.Now()) {
				return nil
			}
		}
	})
	return nil
}

// seen is when a watch saw the first and the last one of some objects.
type seen struct{ first, last time.Time }

// arrivals waits until a watch has seen that many objects, of each path.
func (r *replicaRig) arrivals(ctx context.Context, do func(context.Context) error, want map[string]int) (seen, error) {
	var s seen
	group, ctx := errgroup.WithContext(ctx)
	all := make(chan seen, len(want))
	for path, n := range want {
		var own seen
		if err := r.watch(ctx, group, path, func(frame []byte, at time.Time) bool {
			if !bytes.HasPrefix(frame, []byte(`{"type":"ADDED"`)) || bytes.Contains(frame, []byte("kube-root-ca.crt")) {
				return true
			}
			if own.first.IsZero() {
				own.first = at
			}
			own.last = at
			if n--; n > 0 {
				return true
			}
			all <- own
			return false
		}); err != nil {
			return s, err
		}
	}
	if err := do(ctx); err != nil {
		return s, err
	}
	if err := group.Wait(); err != nil {
		return s, errors.Join(err, context.Cause(ctx))
	}
	close(all)
	for own := range all {
		if s.first.IsZero() || own.first.Before(s.first) {
			s.first = own.first
		}
		if own.last.After(s.last) {
			s.last = own.last
		}
	}
	return s, nil
}

// apply writes a prepared body.
func (r *replicaRig) apply(
	ctx context.Context, client rest.Interface, o *replicated, namespace string, body []byte,
) error {
	answer := client.Patch(types.ApplyYAMLPatchType).AbsPath(o.path(namespace)+"/"+o.name).
		Param("fieldManager", "bare").SetHeader("Accept", "application/json").Body(body).Do(ctx)
	if err := answer.Error(); err != nil {
		return fmt.Errorf("apply %s: %w", o.name, err)
	}
	return nil
}

// replicate is one run of i: a log that is full before is replicated, and a bare client applies the same objects to the
// same API server.
func (b *bench) replicate(ctx context.Context, run int) error {
	b.progress("run %d: a replica", run)
	ctx, cancel := deadline(ctx, 30*time.Minute)
	defer cancel()
	return try.Run(func(end *try.Scope) {
		r := b.newReplicaRig(ctx, end)
		var objects []*replicated
		for i := range b.replicaObjects {
			objects = append(objects, benchConfigMap(i, 1000, "0"))
		}
		for i := range b.replicaObjects / 5 {
			objects = append(objects, benchDeployment(i))
		}
		try.Do(r.publish(ctx, len(objects), func(i int) *nats.Msg { return objects[i].message(r.next(), "added") }))
		for _, bare := range []bool{run%2 == 0, run%2 != 0} {
			if bare {
				try.Do(b.bareWrites(ctx, run, r, objects))
			} else {
				try.Do(b.replicaWrites(ctx, run, r, objects))
			}
		}
	})
}

func (b *bench) replicaRow(metric, unit string) row {
	return row{thousands(b.replicaObjects+b.replicaObjects/5) + " objects replicated from a full log", metric, unit}
}

func changesRow(metric, unit string) row {
	return row{fmt.Sprintf("replicated, %d changes a second", replicaRate), metric, unit}
}

// wanted are how many objects a namespace will have, by path.
func wanted(objects []*replicated, namespace string) map[string]int {
	n := make(map[string]int)
	for _, o := range objects {
		n[o.path(namespace)]++
	}
	return n
}

func perSecond(n int, s seen) float64 { return float64(n-1) / s.last.Sub(s.first).Seconds() }

// bareWrites applies the objects without a replica, and then changes them at a rate.
func (b *bench) bareWrites(ctx context.Context, run int, r *replicaRig, objects []*replicated) error {
	return try.Run(func(*try.Scope) {
		name := fmt.Sprintf("bare-%d", run)
		try.Do(r.namespace(ctx, name))
		bodies := make([][]byte, len(objects))
		for i, o := range objects {
			bodies[i] = o.body(name)
		}
		client := r.client.CoreV1().RESTClient()
		begun := time.Now()
		s := try.Get(r.arrivals(ctx, func(ctx context.Context) error {
			var group errgroup.Group
			group.SetLimit(replicaWriters)
			begun = time.Now()
			for i, o := range objects {
				group.Go(func() error { return r.apply(ctx, client, o, name, bodies[i]) })
			}
			return group.Wait()
		}, wanted(objects, name)))
		b.add(run, b.replicaRow("objects per second", "/s"), colPublisher, perSecond(len(objects), s))
		b.add(run, b.replicaRow("wall clock, start included", "s"), colPublisher, s.last.Sub(begun).Seconds())
		times := try.Get(b.changes(ctx, r, name, func(ctx context.Context, o *replicated) error {
			return r.apply(ctx, client, o, name, o.body(name))
		}))
		b.addDelays(run, colPublisher, times)
	})
}

// replicaWrites has a replica write the objects, and then the changes of the log.
func (b *bench) replicaWrites(ctx context.Context, run int, r *replicaRig, objects []*replicated) error {
	return try.Run(func(end *try.Scope) {
		name := fmt.Sprintf("replica-%d", run)
		try.Do(r.namespace(ctx, name))
		var p *process
		begun := time.Now()
		s, err := r.arrivals(ctx, func(context.Context) (err error) {
			begun = time.Now()
			p, err = b.startReplica(r, name)
			return err
		}, wanted(objects, name))
		end.Finally(p.stop)
		if err != nil {
			try.Do(fmt.Errorf("%w\n%s", err, p.stderr.Bytes()))
		}
		b.add(run, b.replicaRow("objects per second", "/s"), colBridge, perSecond(len(objects), s))
		b.add(run, b.replicaRow("wall clock, start included", "s"), colBridge, s.last.Sub(begun).Seconds())
		b.add(run, b.replicaRow("CPU per object, start included", "µs"), colBridge,
			perUnit(try.Get(p.cpu()), len(objects)))
		try.Do(settle(ctx, p))
		b.add(run, b.replicaRow("peak RSS", "MiB"), colBridge, float64(try.Get(p.peak()))/(1<<20))
		times := try.Get(b.changes(ctx, r, name, func(ctx context.Context, o *replicated) error {
			_, err := r.js.PublishMsg(ctx, o.message(r.next(), "updated"))
			return err
		}))
		b.addDelays(run, colBridge, times)
	})
}

func (b *bench) addDelays(run int, column string, delays []float64) {
	for _, p := range []int{50, 99} {
		b.add(run, changesRow(fmt.Sprintf("seen in the target after it was sent, p%d", p), "ms"), column,
			percentile(delays, p))
	}
}

// changes makes changes at the rate, and returns the milliseconds after which a watch of the target has seen each, or a
// later one of the same object.
func (b *bench) changes(
	ctx context.Context, r *replicaRig, namespace string, change func(context.Context, *replicated) error,
) ([]float64, error) {
	n := b.replicaSeconds * replicaRate
	sent, delays := make([]time.Time, n), make([]float64, 0, n)
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	if err := r.watch(ctx, group, benchConfigMap(0, 0, "").path(namespace), func(frame []byte, at time.Time) bool {
		_, after, found := bytes.Cut(frame, []byte(`"n":"change-`))
		number, _, _ := bytes.Cut(after, []byte(`"`))
		i, err := strconv.Atoi(string(number))
		if !found || err != nil || i >= n {
			return true
		}
		mu.Lock()
		defer mu.Unlock()
		for ; i >= 0 && !sent[i].IsZero(); i -= b.replicaObjects {
			delays = append(delays, at.Sub(sent[i]).Seconds()*1e3)
			sent[i] = time.Time{}
		}
		return len(delays) < n
	}); err != nil {
		return nil, err
	}
	began := time.Now()
	for i := range n {
		select {
		case <-ctx.Done():
			return nil, errors.Join(group.Wait(), context.Cause(ctx))
		case <-time.After(time.Until(began.Add(time.Duration(i) * time.Second / replicaRate))):
		}
		mu.Lock()
		sent[i] = time.Now()
		mu.Unlock()
		o := benchConfigMap(i%b.replicaObjects, 1000, fmt.Sprint("change-", i))
		group.Go(func() error { return change(ctx, o) })
	}
	return delays, group.Wait()
}

// replicaMemory is what a replica takes that has many objects, and one whose log has many more keys.
func (b *bench) replicaMemory(ctx context.Context, run int) error {
	b.progress("run %d: memory of a replica", run)
	ctx, cancel := deadline(ctx, time.Hour)
	defer cancel()
	return try.Run(func(end *try.Scope) {
		r := b.newReplicaRig(ctx, end)
		n := b.objects
		try.Do(r.publish(ctx, n, func(i int) *nats.Msg { return benchConfigMap(i, 1000, "0").message(r.next(), "added") }))
		try.Do(r.namespace(ctx, "held"))
		p := try.Get(b.startReplica(r, "held"))
		end.Finally(func() error { return p.stop() })
		try.Do(r.settledAt(ctx, p, n))
		at := func(metric string) row { return row{"a replica at rest", metric, "MiB"} }
		b.add(run, at("RSS, "+thousands(n)+" objects"), colBridge, float64(try.Get(p.memory("VmRSS:")))/(1<<20))
		b.add(run, at("peak RSS, "+thousands(n)+" objects"), colBridge, float64(try.Get(p.peak()))/(1<<20))
		try.Do(p.stop())

		// The log gets keys that are gone: nothing is written for them.
		try.Do(r.publish(ctx, b.replicaKeys, func(i int) *nats.Msg {
			return benchConfigMap(n+i, 0, "0").message(r.next(), "deleted")
		}))
		p = try.Get(b.startReplica(r, "held"))
		try.Do(r.settledAt(ctx, p, n))
		b.add(run, at("RSS, "+thousands(n+b.replicaKeys)+" keys"), colBridge,
			float64(try.Get(p.memory("VmRSS:")))/(1<<20))
		b.add(run, at("peak RSS, "+thousands(n+b.replicaKeys)+" keys"), colBridge,
			float64(try.Get(p.peak()))/(1<<20))
	})
}

// backlog is a log with many events of few objects: how often is each written?
func (b *bench) backlog(ctx context.Context, run int) error {
	b.progress("run %d: a backlog of %s events", run, thousands(b.replicaBacklog))
	ctx, cancel := deadline(ctx, time.Hour)
	defer cancel()
	return try.Run(func(end *try.Scope) {
		r := b.newReplicaRig(ctx, end)
		n := b.replicaBacklog / 100
		try.Do(r.publish(ctx, b.replicaBacklog, func(i int) *nats.Msg {
			return benchConfigMap(i%n, 0, fmt.Sprint(i)).message(r.next(), "updated")
		}))
		try.Do(r.namespace(ctx, "held"))
		p := try.Get(b.startReplica(r, "held"))
		end.Finally(p.stop)
		try.Do(r.settledAt(ctx, p, n))
		writes := try.Get(r.metric(ctx, "replica_writes_total"))
		b.add(run, row{"a backlog of " + thousands(b.replicaBacklog) + " events", "writes per object", ""}, colBridge,
			writes/float64(n))
	})
}

// settledAt waits until a replica has that many objects in the target, and nothing to do.
func (r *replicaRig) settledAt(ctx context.Context, p *process, objects int) error {
	err := poll(ctx, 500*time.Millisecond, func() (bool, error) {
		have, err := r.metric(ctx, "replica_objects")
		if err != nil {
			return false, p.alive() // it does not serve yet
		}
		pending, err := r.metric(ctx, "replica_pending_objects")
		return err == nil && int(have) == objects && pending == 0, p.alive()
	})
	if err != nil {
		return fmt.Errorf("wait for %d objects: %w", objects, err)
	}
	return settle(ctx, p)
}

// metric returns the sum of a metric's series.
func (r *replicaRig) metric(ctx context.Context, name string) (float64, error) {
	text, err := fetch(ctx, http.MethodGet, r.metrics)
	if err != nil {
		return 0, err
	}
	if sum, n := rigs.ReadMetrics(string(text)).Sum(name); n > 0 {
		return sum, nil
	}
	return 0, fmt.Errorf("the replica's metrics do not have %s", name)
}
