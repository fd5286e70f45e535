// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/remote"
)

// The names of a world.
const (
	replicaName = "copy"
	stream      = "KUBERNETES"

	// replicator and person are users of the target.
	replicator = "replicator"
	person     = "person"
)

var (
	configMaps = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	widgets    = schema.GroupVersionResource{Group: "demo.example.com", Version: "v1", Resource: "widgets"}
	resources  = []schema.GroupVersionResource{configMaps, secrets, widgets}
)

func kindOf(r schema.GroupVersionResource) string {
	return map[string]string{"configmaps": "ConfigMap", "secrets": "Secret", "widgets": "Widget"}[r.Resource]
}

// world is all that a round needs.
type world struct {
	direction
	// other replicates the other way, between the same clusters; nil where none does. One of the two has borrowed the
	// clusters and the broker.
	other    *world
	borrowed bool

	o      *Options
	dir    string
	random *random
	// limit is the replica's limit of deletes; 0 is none.
	limit int

	source, target *controlplane.ControlPlane
	from, to       *dynamic.DynamicClient // of the driver and of people
	admin          *kubernetes.Clientset  // of the target
	broker         broker
	way            *way
	rules          *clean.Rules
	history        *history

	bridge *process
	// replicators are one, or two of which one leads.
	replicators []*process
	// unknown says that the bridge may not know all that has changed in the source, before a resync.
	unknown atomic.Bool
	files   []*os.File

	mu sync.Mutex // guards what follows
	// held is when writes were stopped because the source's etcd was restored, and resumed when they went on.
	holds []hold
	// resumed says from when on which ends were released.
	resumed []resumed
	story   []string
	result  *Result
}

// hold is a time in which the replica must not write.
type hold struct{ from, to time.Time }

type resumed struct{ at, ends time.Time }

// random may be used by several goroutines.
type random struct {
	mu sync.Mutex
	r  *rand.Rand
}

func newRandom(seed, n uint64) *random { return &random{r: rand.New(rand.NewPCG(seed, n))} }

func (r *random) n(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.r.IntN(n)
}

func (r *random) between(from, to time.Duration) time.Duration {
	return from + time.Duration(r.n(int(max(to-from, 1))))
}

func pick[T any](r *random, of []T) T { return of[r.n(len(of))] }

// policy has the API server tell all that is written to what the replica selects.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
omitStages: [RequestReceived]
rules:
  - level: RequestResponse
    verbs: [create, update, patch, delete]
    namespaces: [plain, shop-copy, shop-back]
    resources:
      - {group: "", resources: [configmaps, secrets]}
      - {group: demo.example.com}
  - level: None
`

// newWorld starts a world.
func newWorld(ctx context.Context, o *Options, dir string, random *random, res *Result) (w *world, err error) {
	w = &world{direction: there, o: o, dir: dir, random: random, limit: res.Limit, result: res}
	err = try.Run(func(*try.Scope) {
		try.Do(os.MkdirAll(dir, 0o755))
		if res.Both {
			w.other = w.opposite()
			try.Do(os.MkdirAll(w.other.dir, 0o755))
		}
		w.startClusters(ctx)
		w.startBroker(ctx)
		for _, each := range w.directions() {
			each.connect(ctx)
			each.startProcesses(res.Replicators)
		}
		for _, each := range w.directions() {
			try.Do(poll(ctx, time.Minute, "the replica to be caught up", func() bool {
				s, err := each.status(ctx)
				return err == nil && s.CaughtUp
			}))
		}
	})
	if err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

func (w *world) startClusters(ctx context.Context) {
	path := filepath.Join(w.dir, "policy.yaml")
	try.Do(os.WriteFile(path, []byte(policy), 0o600))
	judged := func(of *world) []string {
		return []string{
			"--audit-log-path=" + of.auditPath(), "--audit-policy-file=" + path, "--audit-log-maxsize=4000",
			"--storage-media-type=application/json", "--etcd-compaction-interval=0",
		}
	}
	var args []string
	if w.other != nil {
		args = judged(w.other)
	}
	w.source = try.Get(controlplane.Start(ctx, controlplane.Config{Log: w.file("source.log"), APIServerArgs: args}))
	w.target = try.Get(controlplane.Start(ctx, controlplane.Config{
		Log: w.file("target.log"), APIServerArgs: judged(w),
	}))
	if w.other != nil {
		w.other.source, w.other.target = w.target, w.source
	}
	for _, each := range w.directions() {
		source := try.Get(kubernetes.NewForConfig(each.source.RESTConfig()))
		target := try.Get(kubernetes.NewForConfig(each.target.RESTConfig()))
		for from, to := range each.namespaces {
			try.Do(makeNamespace(ctx, source, from))
			try.Do(makeNamespace(ctx, target, to))
		}
	}
	try.Do(crd.Install(ctx, w.source.RESTConfig(), crd.Define(widgets, "Widget")))
	try.Do(crd.Install(ctx, w.target.RESTConfig(), crd.Define(widgets, "Widget")))
}

// connect makes what reads and changes the clusters.
func (w *world) connect(ctx context.Context) {
	w.rules = try.Get(clean.New(clean.Config{
		Replica: replicaName, Cluster: w.direction.source, Namespaces: w.namespaces, Selected: w.sources(),
	}))
	w.from = try.Get(dynamic.NewForConfig(w.source.RESTConfig()))
	w.to = try.Get(dynamic.NewForConfig(w.target.User(person, "system:masters")))
	w.admin = try.Get(kubernetes.NewForConfig(w.target.RESTConfig()))
	w.history = newHistory(w.direction, w.target)
	try.Do(w.history.begin(ctx, 0))
	cert := try.Get(w.target.ServingCertificate())
	w.way = try.Get(newWay(w.target.User(replicator, "system:masters"), cert))
}

func makeNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

func (w *world) startBroker(ctx context.Context) {
	if w.o.Broker == "kafka" {
		w.broker = try.Get(newKafka(ctx, filepath.Join(w.dir, "kafka"), w.o.Log))
	} else {
		w.broker = try.Get(newNATS(filepath.Join(w.dir, "nats")))
	}
	if w.other != nil {
		w.other.broker = w.broker
	}
}

// startProcesses writes the configurations, and starts the bridge and the replicator.
func (w *world) startProcesses(replicators int) {
	kubeconfig := try.Get(w.source.Kubeconfig(w.dir))
	w.bridge = try.Get(w.newProcess("bridge", "run", func(port int) string {
		return fmt.Sprintf(`
cluster: %s
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: "127.0.0.1:%d"}
pipelines:
  - name: audit
    resources:
      - {resource: configmaps}
      - {resource: secrets}
      - {resource: widgets.demo.example.com, redact: [spec.password]}
    encoding: {secrets: {values: true}}
    sink: %s
`, w.direction.source, kubeconfig, filepath.Join(w.dir, "data"), port, w.broker.sink())
	}))
	kubeconfig = try.Get(controlplane.WriteKubeconfig(w.way.config(), filepath.Join(w.dir, "target.kubeconfig")))
	limit := "100%"
	if w.limit > 0 {
		limit = fmt.Sprint(w.limit)
	}
	election := ""
	if replicators > 1 {
		election = "leaderElection: {resourceNamespace: default, leaseDuration: 5s, renewDeadline: 3s, retryPeriod: 1s}"
	}
	for n := range replicators {
		p := try.Get(w.newProcess(fmt.Sprintf("replicator-%d", n), "replicate", func(port int) string {
			return fmt.Sprintf(`
cluster: %s
kubernetes: {kubeconfig: %q}
server: {listen: "127.0.0.1:%d"}
log: {level: %s}
%s
replicas:
  - name: %s
    from: {cluster: %s, pipeline: audit, %s}
    resources:
      - {resource: configmaps, namespaces: [%[9]s]}
      - {resource: secrets, namespaces: [%[9]s]}
      - {resource: widgets.demo.example.com, namespaces: [%[9]s]}
    into: {namespaces: %[10]s}
    existing: refuse
    conflicts: force
    deletes: {limit: %[11]s, minAge: 0s}
`, w.direction.target, kubeconfig, port, w.o.level(), election, replicaName, w.direction.source, w.broker.from(),
				strings.Join(w.sources(), ", "), w.mapping(), limit)
		}))
		w.replicators = append(w.replicators, p)
		try.Do(p.start())
	}
	try.Do(w.bridge.start())
}

func (w *world) auditPath() string { return filepath.Join(w.dir, "audit.log") }

// file opens a log that stays until the world ends.
func (w *world) file(name string) io.Writer {
	f := try.Get(os.OpenFile(filepath.Join(w.dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	w.files = append(w.files, f)
	return f
}

func (w *world) close() error {
	var errs []error
	if w.other != nil && !w.borrowed {
		errs = append(errs, w.other.close())
	}
	for _, p := range w.replicators {
		errs = append(errs, p.kill())
	}
	if w.bridge != nil {
		errs = append(errs, w.bridge.kill())
	}
	if w.history != nil {
		w.history.end()
	}
	if w.way != nil {
		errs = append(errs, w.way.close())
	}
	if w.broker != nil && !w.borrowed {
		errs = append(errs, w.broker.close())
	}
	if w.target != nil && !w.borrowed {
		errs = append(errs, w.target.Close())
	}
	if w.source != nil && !w.borrowed {
		errs = append(errs, w.source.Close())
	}
	for _, f := range w.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// process is the bridge or the replicator.
type process struct {
	name, server string
	binary       string
	args         []string
	log          io.Writer
	p            *child.Process
}

func (w *world) newProcess(name, command string, config func(port int) string) (*process, error) {
	port, err := controlplane.FreePort()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(w.dir, name+".yaml")
	if err := os.WriteFile(path, []byte(config(port)), 0o600); err != nil {
		return nil, err
	}
	binary := w.o.Binary
	if command == "replicate" {
		binary = cmp.Or(w.o.Replicator, binary)
	}
	return &process{
		name: name, server: fmt.Sprintf("127.0.0.1:%d", port), binary: binary, args: []string{command, "--config", path},
		log: w.file(name + ".log"),
	}, nil
}

func (p *process) start() (err error) {
	cmd := exec.Command(p.binary, p.args...)
	cmd.Stdout, cmd.Stderr = p.log, p.log
	p.p, err = child.Start(p.name, cmd)
	return err
}

func (p *process) kill() error { return p.p.Kill() }

// leading returns the replicator that replicates, or one of them, and the status of its replica.
func (w *world) leading(ctx context.Context) (leads *process, status remote.Replica, err error) {
	leads, err = w.replicators[0], errors.New("no replicator leads")
	for _, p := range w.replicators {
		s, failed := p.ask(ctx, http.MethodGet, remote.Path)
		if failed == nil && s.Running {
			return p, s, nil
		}
	}
	return leads, status, err
}

// status asks the replicator that leads.
func (w *world) status(ctx context.Context) (remote.Replica, error) {
	_, s, err := w.leading(ctx)
	return s, err
}

func (p *process) ask(ctx context.Context, method, path string) (r remote.Replica, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+p.server+path, nil)
	if err != nil {
		return r, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return r, err
	}
	defer res.Body.Close() //nolint:errcheck // read only
	var a remote.Answer
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1000)) // what there is of it
		return r, fmt.Errorf("the replicator answers %s: %s", res.Status, text)
	}
	if err := json.NewDecoder(res.Body).Decode(&a); err != nil {
		return r, err
	}
	if len(a.Replicas) != 1 {
		return r, errors.New("the replicator has no replica")
	}
	return a.Replicas[0], nil
}

// resume lets the replica go on.
func (w *world) resume(ctx context.Context) error {
	at := time.Now()
	p, _, err := w.leading(ctx)
	if err != nil {
		return err
	}
	if _, err := p.ask(ctx, http.MethodPost, remote.ResumePath); err != nil {
		return err
	}
	state, err := w.admin.CoreV1().ConfigMaps("default").Get(ctx, "kube-eventbridge-replica-"+replicaName,
		metav1.GetOptions{})
	if err != nil {
		return err
	}
	ends, _ := time.Parse(time.RFC3339Nano, state.Data["deletes"]) // without an end nothing was released
	w.mu.Lock()
	defer w.mu.Unlock()
	w.resumed = append(w.resumed, resumed{at, ends})
	return nil
}

// violated says that a promise was broken.
func (w *world) violated(promise, format string, args ...any) {
	if w.borrowed {
		w.other.violated(promise, "back: "+format, args...)
		return
	}
	w.note("VIOLATION "+promise+": "+format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.result.violated(promise, format, args...)
}

// note tells what happened.
func (w *world) note(format string, args ...any) {
	if w.borrowed {
		w.other.note("back: "+format, args...)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	line := time.Now().UTC().Format("15:04:05.000 ") + fmt.Sprintf(format, args...)
	w.story = append(w.story, line)
	if w.o.Verbose {
		_, _ = fmt.Fprintln(w.o.Log, line) // progress
	}
}

// poll waits until something holds.
func poll(ctx context.Context, within time.Duration, what string, holds func() bool) error {
	for end := time.Now().Add(within); !holds(); {
		if time.Now().After(end) {
			return fmt.Errorf("waited %s for %s", within, what)
		}
		if err := pause.For(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// quietly keeps libraries from printing.
func quietly() {
	log.SetOutput(io.Discard)
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}

// key names an object of the source.
type key struct {
	resource        schema.GroupVersionResource
	namespace, name string
}

func (k key) String() string { return k.resource.Resource + " " + k.namespace + "/" + k.name }
