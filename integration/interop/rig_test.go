// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
)

const (
	cluster   = "interop"
	namespace = "interop"
	// apart is the namespace of what is published to a compacted topic, and to no other.
	apart = "compacted"
	// topicCompacted is that topic.
	topicCompacted = "compacted"
)

// The four logs that have the same events. A pipeline has the name of its log.
var logs = []string{"kafka-binary", "kafka-structured", "nats-binary", "nats-structured"}

func onKafka(log string) bool    { return strings.HasPrefix(log, "kafka") }
func structured(log string) bool { return strings.HasSuffix(log, "structured") }

// target returns the topic or JetStream stream of a log.
func target(log string) string {
	if onKafka(log) {
		return log
	}
	return strings.ToUpper(strings.TrimPrefix(log, "nats-"))
}

// rig is a control plane, both brokers, and a bridge between them with five pipelines.
type rig struct {
	t       *testing.T
	kube    *kubernetes.Clientset
	kafka   *kafkabroker.Cluster
	nats    *natsServer
	js      jetstream.JetStream
	dir     string
	config  string
	address string // of the bridge's metrics
	bridge  *bridge
}

func newRig(t *testing.T) *rig {
	t.Helper()
	api := controlplane.ForTest(t, controlplane.Config{})
	kube, err := kubernetes.NewForConfig(api.RESTConfig())
	must(t, err)
	r := &rig{t: t, kube: kube, dir: t.TempDir(), kafka: kafkabroker.ForTest(t, kafkabroker.Config{})}
	r.nats = &natsServer{t: t, dir: filepath.Join(r.dir, "nats"), port: freePort(t)}
	r.nats.start()
	conn, err := nats.Connect(r.nats.url(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	must(t, err)
	t.Cleanup(conn.Close)
	r.js, err = jetstream.New(conn)
	must(t, err)
	r.address = fmt.Sprintf("127.0.0.1:%d", freePort(t))
	kubeconfig, err := api.Kubeconfig(r.dir)
	must(t, err)
	r.config = filepath.Join(r.dir, "bridge.yaml")
	must(t, os.WriteFile(r.config, []byte(r.configuration(kubeconfig)), 0o600))
	return r
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := controlplane.FreePort()
	must(t, err)
	return port
}

func (r *rig) configuration(kubeconfig string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster: %s\nkubernetes: {kubeconfig: %q}\ndataDir: %q\nserver: {listen: %s}\npipelines:\n",
		cluster, kubeconfig, filepath.Join(r.dir, "data"), r.address)
	for _, log := range logs {
		mode, sink := "binary", fmt.Sprintf(`kafka: {brokers: [%q], topic: "{pipeline}", create: {partitions: 3}, tombstones: true}`, r.kafka.Addresses()[0])
		if structured(log) {
			mode = "structured"
		}
		checkpoint := "kafka: {}"
		if !onKafka(log) {
			sink = fmt.Sprintf(`nats: {servers: [%q], stream: %s, subject: "%s.{cluster}.{group}.{resource}.{namespace}.{name}"}`, r.nats.url(), target(log), mode)
			checkpoint = "file: {}"
		}
		fmt.Fprintf(&b, `
  - name: %s
    resources:
      - {resource: configmaps, namespaces: [%s]}
      - {resource: secrets, namespaces: [%s]}
      - {resource: priorityclasses.scheduling.k8s.io, delivery: latest}
    encoding: {mode: %s}
    sink: {%s}
    checkpoint: {%s}
`, log, namespace, namespace, mode, sink, checkpoint)
	}
	// Kafka closes a segment by its time when the next record comes, and cleans what is closed.
	fmt.Fprintf(&b, `
  - name: compacted
    resources: [{resource: configmaps, namespaces: [%s]}]
    sink: {kafka: {brokers: [%q], topic: %s, tombstones: true, create: {partitions: 2, settings: {
      cleanup.policy: compact, segment.ms: 200, min.cleanable.dirty.ratio: 0.01, max.compaction.lag.ms: 200, delete.retention.ms: 0}}}}
    checkpoint: {kafka: {}}
`, apart, r.kafka.Addresses()[0], topicCompacted)
	return b.String()
}

// natsServer is a real NATS server with JetStream, in this process and reached over TCP.
type natsServer struct {
	t    *testing.T
	dir  string
	port int
	s    *server.Server
}

// start starts the server, for the first time or again with what it has stored.
func (n *natsServer) start() {
	n.t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: n.port, JetStream: true, StoreDir: n.dir, NoLog: true, NoSigs: true,
	})
	must(n.t, err)
	s.Start()
	n.s = s
	n.t.Cleanup(func() { stopNATS(s) })
	if !s.ReadyForConnections(10 * time.Second) {
		n.t.Fatal("the NATS server does not start")
	}
}

func (n *natsServer) stop() { stopNATS(n.s) }

func (n *natsServer) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", n.port) }

func stopNATS(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// bridge is one process of the bridge.
type bridge struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// run starts a bridge and waits until it is ready.
func (r *rig) run() {
	r.t.Helper()
	binary, err := bridgeBinary()
	must(r.t, err)
	log, err := os.CreateTemp(r.dir, "bridge-*.log")
	must(r.t, err)
	defer log.Close()
	cmd := exec.Command(binary, "run", "--config", r.config)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	b := &bridge{cmd: cmd, log: log.Name(), ended: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		defer close(b.ended)
		// The kernel sends the death signal when the thread that started the child ends, not the process: this keeps that thread.
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the state of the process tells
		}
	}()
	must(r.t, <-started)
	r.bridge = b
	r.t.Cleanup(func() { r.end(b) })
	poll(r.t, "the bridge to be ready", func() error {
		select {
		case <-b.ended:
			r.t.Fatalf("the bridge has ended: %v", b.cmd.ProcessState)
		default:
		}
		return r.ask("/readyz", func(string) error { return nil })
	})
}

// end kills a bridge, and shows what it said if that may matter.
func (r *rig) end(b *bridge) {
	_ = b.cmd.Process.Kill()
	<-b.ended
	if !r.t.Failed() {
		return
	}
	if out, err := os.ReadFile(b.log); err == nil {
		r.t.Logf("stderr of the bridge:\n%s", out)
	}
}

// stop ends the bridge as an operator would.
func (r *rig) stop() {
	r.t.Helper()
	must(r.t, r.bridge.cmd.Process.Signal(syscall.SIGTERM))
	<-r.bridge.ended
	if code := r.bridge.cmd.ProcessState.ExitCode(); code != 0 {
		r.t.Fatalf("the bridge ended with code %d", code)
	}
}

// ask reads a page of the bridge; its error says also when the status is not 200.
func (r *rig) ask(path string, check func(body string) error) error {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodGet, "http://"+r.address+path, nil)
	must(r.t, err)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s %s %w", path, res.Status, body, err)
	}
	return check(string(body))
}
