// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(sharedKafka.Around(m)) }

// fixture is a control plane, a broker and what a bridge needs to run between them.
type fixture struct {
	t       *testing.T
	api     *controlplane.ControlPlane
	kube    *kubernetes.Clientset
	js      jetstream.JetStream
	kafka   *kafkaLog // nil where the broker is a NATS server
	binary  string
	elected bool // leaders are
	cluster string
	config  string
	server  string
	broker  *broker
	dir     string
	bridge  *bridge // the one that was started last
	logs    map[string]*readLog
}

// newRig has a control plane of its own, for tests that hurt it.
func newRig(t *testing.T, resources string) *fixture {
	t.Helper()
	return rigOn(t, controlplane.ForTest(t, controlplane.Config{}), resources)
}

// rigOn shares a control plane with other tests, and nothing else.
func rigOn(t *testing.T, api *controlplane.ControlPlane, resources string) *fixture {
	t.Helper()
	r := bareRig(t, api)
	r.connect()
	r.configure(resources)
	return r
}

// bareRig has no broker yet, and no configuration.
func bareRig(t *testing.T, api *controlplane.ControlPlane) *fixture {
	t.Helper()
	kube := must.Get(kubernetes.NewForConfig(api.RESTConfig()))(t)
	return &fixture{
		t: t, cluster: "e2e", api: api, kube: kube, binary: rig.ProgramForTest(t), server: freeAddress(t),
		dir: t.TempDir(),
	}
}

// connect starts a broker and connects to it; the connection outlives the broker.
func (r *fixture) connect() {
	r.t.Helper()
	r.broker = &broker{r.t, rig.NATSForTest(r.t, nil)}
	r.js = r.broker.Connect(r.t)
}

// configure writes the bridge's file, for a sink that is the NATS server.
func (r *fixture) configure(resources string) {
	r.t.Helper()
	r.configureSink(resources, fmt.Sprintf("sink: {nats: {servers: [%q]}}", r.broker.url()))
}

func (r *fixture) configureSink(resources, sink string) {
	r.t.Helper()
	kubeconfig := must.Get(r.api.Kubeconfig(r.dir))(r.t)
	r.config = filepath.Join(r.dir, "bridge.yaml")
	require.NoError(r.t, os.WriteFile(r.config, fmt.Appendf(nil, `
cluster: %s
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: %s}
pipelines:
  - name: test
    resources: %s
    %s
`, r.cluster, kubeconfig, filepath.Join(r.dir, "data"), r.server, resources, sink), 0o600))
}

// listenElsewhere lets the next bridge run beside the one before.
func (r *fixture) listenElsewhere() {
	r.t.Helper()
	was := r.server
	r.server = freeAddress(r.t)
	text := must.Get(os.ReadFile(r.config))(r.t)
	require.NoError(r.t, os.WriteFile(r.config, bytes.ReplaceAll(text, []byte(was), []byte(r.server)), 0o600))
}

// freeAddress is one that no other server is given.
func freeAddress(t *testing.T) string {
	t.Helper()
	port := must.Get(controlplane.FreePort())(t)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// broker is a NATS server of a test.
type broker struct {
	t *testing.T
	*rig.NATS
}

func (b *broker) start() {
	b.t.Helper()
	require.NoError(b.t, b.Start())
}

func (b *broker) stop()       { b.Stop() }
func (b *broker) url() string { return b.URL() }

// bridge is one process of the bridge.
type bridge struct{ *rig.Bridge }

func (b *bridge) kill()              { b.Crash() }
func (b *bridge) stop()              { b.Stops() }
func (b *bridge) signal(s os.Signal) { b.Send(s) }
func (b *bridge) exit(code int)      { b.ExitsWith(code) }
func (b *bridge) stderr() string     { return b.Stderr() }

func (r *fixture) run() *bridge {
	r.t.Helper()
	return r.start(nil, "run", "--config", r.config)
}

// runReady runs the bridge and waits until it is ready.
func (r *fixture) runReady() *bridge {
	r.t.Helper()
	b := r.run()
	r.awaitStatus(http.StatusOK, "ok")
	return b
}

// start runs the program, whose output goes to out.
func (r *fixture) start(out *os.File, args ...string) *bridge {
	r.t.Helper()
	return r.startAt(r.server, out, args...)
}

// startAt runs the program, which serves at an address.
func (r *fixture) startAt(server string, out *os.File, args ...string) *bridge {
	r.t.Helper()
	cmd := exec.Command(r.binary, args...)
	if out != nil {
		cmd.Stdout = out
	}
	r.bridge = &bridge{rig.StartBridge(r.t, server, cmd)}
	return r.bridge
}

// entry is one message of the log.
type entry struct {
	message                            *rig.Message
	id, op, kind, key, uid, rv, reason string
	data                               []byte
	header                             nats.Header
}

// attribute returns one of the event's, whatever broker it is from.
func (e *entry) attribute(name string) string {
	for _, k := range []string{"ce_" + name, "ce-" + name} {
		if v := e.header[k]; len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// numbers returns the epoch, version and step of the event's sequence.
func (e *entry) numbers() (epoch, version uint64, step int) {
	_, _ = fmt.Sscanf(e.attribute("sequence"), "%d.%d.%d", &epoch, &version, &step)
	return epoch, version, step
}

// again reports whether the event is a republished one.
func (e *entry) again() bool { return strings.Contains(strings.TrimPrefix(e.id, e.uid), ".r") }

// gap is the data of a gap.
type gap struct {
	From, To string
	Cause    string
	Message  string
	Epoch    uint64
}

// gap returns what a gap says.
func (e *entry) gap() (g gap) {
	_ = json.Unmarshal(e.data, &g) // data of another form has no cause
	return g
}

// readLog is what was read of one log so far.
type readLog struct {
	rig.Log
	entries []entry
}

// log returns the log of that name. It is read on from where it was read to.
func (r *fixture) log(name string) *readLog {
	r.t.Helper()
	if r.logs == nil {
		r.logs = map[string]*readLog{}
	}
	if r.logs[name] == nil {
		l := &readLog{}
		if r.kafka != nil {
			l.Log = r.kafka.read(r.t)
		} else {
			l.Log = rig.NATSLog(r.js, name)
		}
		r.logs[name] = l
	}
	return r.logs[name]
}

// read returns all that a log has now, and an error with what it had before where the broker cannot be asked.
func (r *fixture) read(name string) (*readLog, []rig.Message, error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), rig.Patience())
	defer cancel()
	l := r.log(name)
	messages, err := l.Read(ctx)
	return l, messages, err
}

// entries reads the whole log, whose messages are in binary mode. What a broker that is away has is what was read
// before.
func (r *fixture) entries() []entry {
	r.t.Helper()
	return r.entriesOf("KUBERNETES")
}

// entriesOf reads a stream of the broker as entries does.
func (r *fixture) entriesOf(name string) []entry {
	r.t.Helper()
	l, messages, _ := r.read(name)
	if n := len(l.entries); n > 0 && (n > len(messages) || !messages[n-1].Time.Equal(l.entries[n-1].message.Time)) {
		l.entries = nil // the log was deleted, or put back to an older state
	}
	for i := len(l.entries); i < len(messages); i++ {
		l.entries = append(l.entries, entryOf(&messages[i]))
	}
	if r.kafka != nil {
		return r.kafka.once(l.entries)
	}
	return l.entries[:len(l.entries):len(l.entries)]
}

// messages reads the whole log.
func (r *fixture) messages() []rig.Message {
	r.t.Helper()
	return r.messagesOf("KUBERNETES")
}

// messagesOf reads a stream of the broker.
func (r *fixture) messagesOf(name string) []rig.Message {
	r.t.Helper()
	_, messages := must.Get2(r.read(name))(r.t)
	return messages
}

// limit has the log take so many messages more and refuse the rest, or take whatever comes if room is negative.
func (r *fixture) limit(room int) {
	r.t.Helper()
	s := must.Get(r.js.Stream(r.t.Context(), "KUBERNETES"))(r.t)
	cfg := s.CachedInfo().Config
	cfg.MaxMsgs, cfg.Discard = -1, jetstream.DiscardOld
	if room >= 0 {
		cfg.MaxMsgs, cfg.Discard = int64(s.CachedInfo().State.Msgs)+int64(room), jetstream.DiscardNew //nolint:gosec // there are few
	}
	must.Get(r.js.UpdateStream(r.t.Context(), cfg))(r.t)
}

// killFull kills the bridge when the log is at its limit, and has it take whatever comes again, but not what the bridge
// had sent.
func (r *fixture) killFull() {
	r.t.Helper()
	r.poll("the log to be full", func() (bool, string) {
		s := must.Get(r.js.Stream(r.t.Context(), "KUBERNETES"))(r.t)
		has, most := s.CachedInfo().State.Msgs, s.CachedInfo().Config.MaxMsgs
		return int64(has) >= most, fmt.Sprintf("it has %d of %d messages", has, most) //nolint:gosec // there are few
	})
	clients := r.broker.Clients()
	r.bridge.kill()
	r.eventually("the server to have read all that the bridge had sent", func() bool {
		return r.broker.Clients() < clients
	})
	_, err := r.js.Publish(r.t.Context(), "k8s.full", nil) // the answer comes behind the answers to that
	require.Error(r.t, err, "the log is not full")
	r.limit(-1)
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

func entryOf(m *rig.Message) entry {
	get := func(name string) string {
		for _, k := range []string{"ce_" + name, "ce-" + name, "Ce-" + name} {
			if v := m.Header[k]; len(v) > 0 {
				return v[0]
			}
		}
		return ""
	}
	op, key := opAndKey(get)
	return entry{
		message: m, id: get("id"), op: op, kind: get("kind"), key: key,
		uid: get("objectuid"), rv: get("resourceversion"), reason: get("reason"), data: m.Data, header: m.Header,
	}
}

// await polls until ok holds for the log.
func (r *fixture) await(what string, ok func([]entry) bool) []entry {
	r.t.Helper()
	var log []entry
	r.poll(what, func() (bool, string) {
		log = r.entries()
		return ok(log), fmt.Sprintf("the log has %d entries", len(log))
	})
	return log
}

// awaitStatus polls /readyz until it answers so.
func (r *fixture) awaitStatus(code int, part string) {
	r.t.Helper()
	r.poll(fmt.Sprintf("/readyz to say %d and %q", code, part), func() (bool, string) {
		got, body := r.status("/readyz")
		return got == code && strings.Contains(body, part), fmt.Sprintf("it says %d %q", got, body)
	})
}

// awaitPage waits until the status page has a part, and nothing of what is gone.
func (r *fixture) awaitPage(what, part string, gone ...string) {
	r.t.Helper()
	r.poll(what, func() (bool, string) {
		_, page := r.status("/")
		left := slices.ContainsFunc(gone, func(text string) bool { return strings.Contains(page, text) })
		return strings.Contains(page, part) && !left, page
	})
}

// eventually polls as poll does, where no bridge runs.
func (r *fixture) eventually(what string, ok func() bool) {
	r.t.Helper()
	rig.Poll(r.t, what, func() (bool, string) { return ok(), "it did not come" })
}

// poll fails the test when ok does not hold in time, or the bridge ends.
func (r *fixture) poll(what string, ok func() (holds bool, instead string)) {
	r.t.Helper()
	r.bridge.Poll(what, ok)
}
