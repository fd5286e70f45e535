// SPDX-License-Identifier: Apache-2.0

package applyloop

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/remote"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// kubectl fails the first time. Then it tells what it was called with.
const kubectl = `#!/bin/sh
cd %q
cat >input
[ -e failed ] || { touch failed; echo no >&2; exit 1; }
echo "$3" >>calls
cat input >>calls
`

func TestRun_has_kubectl_write_each_event_until_it_has(t *testing.T) {
	broker := rig.NATSForTest(t, nil)
	conn := must.Get(nats.Connect(broker.URL()))(t)
	t.Cleanup(conn.Close)
	js := must.Get(jetstream.New(conn))(t)
	must.Get(js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "S", Subjects: []string{"k8s.>"}}))(t)
	publish(t, js,
		replicatest.Event{Op: event.Added, Namespace: "shop", Name: "a", UID: "u1", Sequence: at(1), Value: "one"},
		replicatest.Event{Op: event.Updated, Namespace: "shop", Name: "a", UID: "u1", Sequence: at(2), Value: "two"},
		replicatest.Event{Op: event.Added, Namespace: "other", Name: "b", UID: "u2", Sequence: at(3)},
		replicatest.Event{Op: event.Deleted, Namespace: "shop", Name: "a", UID: "u1", Sequence: at(4), Value: "two"})

	dir := t.TempDir()
	program, file := filepath.Join(dir, "kubectl"), filepath.Join(dir, "replica.yaml")
	require.NoError(t, os.WriteFile(program, fmt.Appendf(nil, kubectl, dir), 0o700)) //nolint:gosec // it is run
	listen := fmt.Sprintf("127.0.0.1:%d", must.Get(controlplane.FreePort())(t))
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
server: {listen: %q}
replicas:
  - name: copy
    from: {cluster: east, nats: {servers: [%q], stream: S}}
    resources: [{resource: configmaps, namespaces: [shop]}]
    into: {namespaces: {shop: target}}
`, listen, broker.URL()), 0o600))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, file, program, slog.New(slog.NewTextHandler(t.Output(), nil))) }()

	var told []written
	rig.Poll(t, "all of namespace shop to be written", func() (bool, string) {
		text, _ := os.ReadFile(filepath.Join(dir, "calls")) // not yet
		told = read(t, string(text))
		return len(told) == 3, string(text)
	})
	res, err := http.Get("http://" + listen + remote.Path) //nolint:noctx // it is answered at once
	require.NoError(t, err)
	defer res.Body.Close()
	var answer remote.Answer
	require.NoError(t, json.NewDecoder(res.Body).Decode(&answer))
	assert.True(t, len(answer.Replicas) == 1 && answer.Replicas[0].Running && answer.Replicas[0].CaughtUp)
	stop()
	require.NoError(t, <-ended)

	// The call that failed comes again behind what came meanwhile: that is what such a loop does wrong.
	assert.Equal(t, []written{
		{"delete", "target/a", "u1", at(4).String(), "two"},
		{"apply", "target/a", "u1", at(1).String(), "one"},
		{"apply", "target/a", "u1", at(2).String(), "two"},
	}, told)
}

// written is what kubectl was told of an object.
type written struct{ verb, object, uid, sequence, value string }

// read returns what kubectl was told: a line with the verb, then one of each object.
func read(t *testing.T, calls string) (all []written) {
	t.Helper()
	verb := ""
	for line := range strings.Lines(calls) {
		if !strings.HasPrefix(line, "{") {
			verb = strings.TrimSpace(line)
			continue
		}
		var o struct {
			Metadata struct {
				Name, Namespace string
				Annotations     map[string]string
			}
			Data map[string]string
		}
		require.NoError(t, json.Unmarshal([]byte(line), &o), line)
		m := &o.Metadata
		all = append(all, written{
			verb, m.Namespace + "/" + m.Name, m.Annotations[clean.OriginUID], m.Annotations[clean.OriginSequence],
			o.Data["value"],
		})
	}
	return all
}

func at(version uint64) sequence.Sequence { return sequence.Sequence{Epoch: 1, Version: version} }

// publish stores events as a bridge does.
func publish(t *testing.T, js jetstream.JetStream, events ...replicatest.Event) {
	t.Helper()
	var written replicatest.Log
	for i := range events {
		stored := written.Message(written.Append(events[i]))
		m := nats.NewMsg(fmt.Sprintf("k8s.%d", i))
		m.Data = stored.Data
		for _, a := range stored.Attributes {
			m.Header.Set("ce-"+a.Name, a.Value)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		must.Get(js.PublishMsg(ctx, m))(t)
		cancel()
	}
}
