// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// programs is where the bridge is built for all tests.
var programs string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "kube-eventbridge-e2e")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = dir
	code := m.Run()
	_ = os.RemoveAll(dir) // what is left in a temporary directory hurts nobody
	os.Exit(code)
}

var bridgeBinary = sync.OnceValues(func() (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(programs, "kube-eventbridge")
	cmd := exec.Command("go", "build", "-o", bin, "./cmd/kube-eventbridge")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the bridge: %w\n%s", err, out)
	}
	return bin, nil
})

// rig is a control plane, a broker and what a bridge needs to run between them.
type rig struct {
	t      *testing.T
	api    *controlplane.ControlPlane
	kube   *kubernetes.Clientset
	js     jetstream.JetStream
	kafka  *kafkaLog // nil where the broker is a NATS server
	binary string
	config string
	server string
	broker *broker
	dir    string
	bridge *bridge // the one that was started last
}

// newRig has a control plane of its own, for tests that hurt it.
func newRig(t *testing.T, resources string) *rig {
	t.Helper()
	return rigOn(t, controlplane.ForTest(t, controlplane.Config{}), resources)
}

// rigOn shares a control plane with other tests, and nothing else.
func rigOn(t *testing.T, api *controlplane.ControlPlane, resources string) *rig {
	t.Helper()
	r := bareRig(t, api)
	port, err := controlplane.FreePort()
	must(t, err)
	r.broker = &broker{t: t, dir: filepath.Join(r.dir, "nats"), port: port}
	r.connect()
	r.configure(resources)
	return r
}

// bareRig has no broker yet, and no configuration.
func bareRig(t *testing.T, api *controlplane.ControlPlane) *rig {
	t.Helper()
	binary, err := bridgeBinary()
	must(t, err)
	kube, err := kubernetes.NewForConfig(api.RESTConfig())
	must(t, err)
	return &rig{t: t, api: api, kube: kube, binary: binary, server: freeAddress(t), dir: t.TempDir()}
}

// connect starts the broker and connects to it; the connection outlives the broker.
func (r *rig) connect() {
	r.t.Helper()
	r.broker.start()
	conn, err := nats.Connect(r.broker.url(), nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond))
	must(r.t, err)
	r.t.Cleanup(conn.Close)
	r.js, err = jetstream.New(conn)
	must(r.t, err)
}

// configure writes the bridge's file, for a sink that is the NATS server.
func (r *rig) configure(resources string) {
	r.t.Helper()
	r.configureSink(resources, fmt.Sprintf("sink: {nats: {servers: [%q]}}", r.broker.url()))
}

func (r *rig) configureSink(resources, sink string) {
	r.t.Helper()
	kubeconfig, err := r.api.Kubeconfig(r.dir)
	must(r.t, err)
	r.config = filepath.Join(r.dir, "bridge.yaml")
	must(r.t, os.WriteFile(r.config, fmt.Appendf(nil, `
cluster: e2e
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: %s}
pipelines:
  - name: test
    resources: %s
    %s
`, kubeconfig, filepath.Join(r.dir, "data"), r.server, resources, sink), 0o600))
}

// listenElsewhere lets the next bridge run beside the one before.
func (r *rig) listenElsewhere() {
	r.t.Helper()
	was := r.server
	r.server = freeAddress(r.t)
	text, err := os.ReadFile(r.config)
	must(r.t, err)
	must(r.t, os.WriteFile(r.config, bytes.ReplaceAll(text, []byte(was), []byte(r.server)), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// freeAddress is one that no client's connection can take while nobody listens there.
func freeAddress(t *testing.T) string {
	t.Helper()
	port, err := controlplane.FreePort()
	must(t, err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// broker is a real NATS server with JetStream, in this process and reached over TCP.
type broker struct {
	t    *testing.T
	dir  string
	port int
	s    *server.Server
}

// start starts the broker, for the first time or again with what it has stored.
func (b *broker) start() {
	b.t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: b.port, JetStream: true, StoreDir: b.dir, NoLog: true, NoSigs: true,
	})
	must(b.t, err)
	s.Start()
	b.t.Cleanup(func() { stopNATS(s) })
	b.s = s
	if !s.ReadyForConnections(10 * time.Second) {
		b.t.Fatal("the NATS server does not start")
	}
}

func (b *broker) stop() { stopNATS(b.s) }

func (b *broker) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", b.port) }

func stopNATS(s *server.Server) {
	s.Shutdown()
	s.WaitForShutdown()
}

// bridge is one process of the bridge.
type bridge struct {
	t     *testing.T
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

func (r *rig) run() *bridge {
	r.t.Helper()
	return r.start(nil, "run", "--config", r.config)
}

// start runs the program, whose output goes to out.
func (r *rig) start(out *os.File, args ...string) *bridge {
	r.t.Helper()
	log, err := os.CreateTemp(r.dir, "bridge-*.log")
	must(r.t, err)
	defer func() { _ = log.Close() }()
	cmd := exec.Command(r.binary, args...)
	cmd.Stderr = log
	if out != nil {
		cmd.Stdout = out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	b := &bridge{t: r.t, cmd: cmd, log: log.Name(), ended: make(chan struct{})}
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
	r.t.Cleanup(func() {
		b.kill()
		if r.t.Failed() {
			r.t.Logf("stderr of the bridge:\n%s", b.stderr())
		}
	})
	r.bridge = b
	return b
}

// kill ends the process as a crash would. Doing it again does nothing.
func (b *bridge) kill() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}

func (b *bridge) signal(s os.Signal) {
	b.t.Helper()
	must(b.t, b.cmd.Process.Signal(s))
}

// exit waits for the process to end by itself with the code.
func (b *bridge) exit(code int) {
	b.t.Helper()
	select {
	case <-b.ended:
		if got := b.cmd.ProcessState.ExitCode(); got != code {
			b.t.Errorf("the bridge ended with code %d, want %d", got, code)
		}
	case <-time.After(30 * time.Second):
		b.t.Fatal("the bridge does not end")
	}
}

// stop ends the process as an operator would.
func (b *bridge) stop() {
	b.t.Helper()
	b.signal(syscall.SIGTERM)
	b.exit(0)
}

func (b *bridge) stderr() string {
	b.t.Helper()
	out, err := os.ReadFile(b.log)
	must(b.t, err)
	return string(out)
}

// entry is one message of the log.
type entry struct {
	seq                                uint64
	id, op, kind, key, uid, rv, reason string
	data                               []byte
	header                             nats.Header
	attributes                         map[string]string // of a Kafka record
}

// attribute returns one of the event's, whatever broker it is from.
func (e *entry) attribute(name string) string {
	if v := e.attributes["ce_"+name]; v != "" {
		return v
	}
	return e.header.Get("ce-" + name)
}

// entries reads the whole log, whose messages are in binary mode.
func (r *rig) entries() []entry {
	r.t.Helper()
	if r.kafka != nil {
		return r.kafka.entries(r.t)
	}
	var out []entry
	for _, m := range r.messages() {
		out = append(out, entryOf(r.t, m))
	}
	return out
}

// messages reads the whole log.
func (r *rig) messages() []jetstream.Msg {
	r.t.Helper()
	return r.messagesOf("KUBERNETES")
}

// messagesOf reads a stream of the broker.
func (r *rig) messagesOf(name string) []jetstream.Msg {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 30*time.Second)
	defer cancel()
	stream, err := r.js.Stream(ctx, name)
	if err != nil {
		return nil
	}
	info, err := stream.Info(ctx)
	must(r.t, err)
	if info.State.Msgs == 0 {
		return nil
	}
	c, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	must(r.t, err)
	var out []jetstream.Msg
	for len(out) < int(info.State.Msgs) {
		m, err := c.Next(jetstream.FetchMaxWait(5 * time.Second))
		must(r.t, err)
		out = append(out, m)
	}
	return out
}

// opAndKey reads what happened to which object in any profile.
func opAndKey(get func(string) string) (op, key string) {
	parts := strings.Split(get("type"), ".")
	if parts[0] != "dev" {
		return parts[len(parts)-2], get("subject")
	}
	op = map[string]string{"add": "added", "update": "updated", "delete": "deleted"}[parts[len(parts)-1]]
	return op, strings.TrimPrefix(get("namespace")+"/"+get("name"), "/")
}

func entryOf(t *testing.T, m jetstream.Msg) entry {
	t.Helper()
	meta, err := m.Metadata()
	must(t, err)
	get := func(name string) string {
		for _, k := range []string{"ce-" + name, "Ce-" + name} {
			if v := m.Headers().Get(k); v != "" {
				return v
			}
		}
		return ""
	}
	op, key := opAndKey(get)
	return entry{
		seq: meta.Sequence.Stream, id: get("id"), op: op, kind: get("kind"), key: key,
		uid: get("objectuid"), rv: get("resourceversion"), reason: get("reason"), data: m.Data(), header: m.Headers(),
	}
}

// await polls until ok holds for the log.
func (r *rig) await(what string, ok func([]entry) bool) []entry {
	r.t.Helper()
	var log []entry
	r.poll(what, func() (bool, string) {
		log = r.entries()
		return ok(log), fmt.Sprintf("the log has %d entries", len(log))
	})
	return log
}

// settle waits until ok holds for the log, or the log has not grown for a while.
func (r *rig) settle(ok func([]entry) bool) {
	r.t.Helper()
	size, grown := 0, time.Now()
	r.poll("the log to settle", func() (bool, string) {
		log := r.entries()
		if len(log) > size {
			size, grown = len(log), time.Now()
		}
		return ok(log) || time.Since(grown) > 15*time.Second, fmt.Sprintf("the log has %d entries", size)
	})
}

// awaitStatus polls /readyz until it answers so.
func (r *rig) awaitStatus(code int, part string) {
	r.t.Helper()
	r.poll(fmt.Sprintf("/readyz to say %d and %q", code, part), func() (bool, string) {
		got, body := r.status("/readyz")
		return got == code && strings.Contains(body, part), fmt.Sprintf("it says %d %q", got, body)
	})
}

// eventually polls as poll does, where no bridge runs.
func (r *rig) eventually(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.After(90 * time.Second)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			r.t.Fatalf("waited in vain for %s", what)
		}
	}
}

// poll fails the test when ok does not hold in time, or the bridge ends.
func (r *rig) poll(what string, ok func() (holds bool, instead string)) {
	r.t.Helper()
	deadline := time.After(60 * time.Second)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		holds, instead := ok()
		if holds {
			return
		}
		select {
		case <-tick.C:
		case <-r.bridge.ended:
			r.t.Fatalf("waiting for %s, but the bridge ended with %v; %s", what, r.bridge.cmd.ProcessState, instead)
		case <-deadline:
			r.t.Fatalf("waited in vain for %s; %s", what, instead)
		}
	}
}
