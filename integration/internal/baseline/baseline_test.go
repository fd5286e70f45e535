// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var widgets = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}

func widget(version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}}
	u.SetNamespace("a")
	u.SetName("w.1")
	u.SetUID("uid")
	u.SetResourceVersion(version)
	return u
}

// A log that has everything is one that the oracle finds nothing wrong with.
func TestEvent_is_what_the_oracle_reads(t *testing.T) {
	for _, selector := range []string{"", "a=b"} {
		s := stream{"c", "p", widgets, "", selector}
		of := oracle.Stream{Cluster: "c", Resource: widgets, LabelSelector: selector}
		truth := &oracle.Truth{
			Histories: []oracle.History{{First: 1, Last: 9}},
			Streams: map[oracle.Stream]map[string][]oracle.State{of: {"a/w.1": {
				{UID: "uid", Version: 3, Op: oracle.Added},
				{UID: "uid", Version: 5, Op: oracle.Updated},
				{UID: "uid", Version: 7, Op: oracle.Deleted},
			}}},
		}
		var log []oracle.Entry
		for i, c := range []struct{ version, op, id string }{
			{"3", added, "uid.1.3.0"}, {"5", updated, "uid.1.5.0"}, {"7", deleted, "uid.1.7.1"},
		} {
			m := must.Get(s.event(widget(c.version), c.op, byWatch))(t)
			e := must.Get(oracle.NewEntry(m.Header, m.Data, uint64(i)+1))(t)
			assert.Equal(t, c.id, e.ID, "id %s with subject", e.ID)
			assert.Equal(t, "k8s.c.example_com.widgets.a.w%2E1", m.Subject, "id %s with subject", e.ID)
			log = append(log, e)
		}
		for _, v := range oracle.Check(truth, log, oracle.Options{Pipeline: "p"}) {
			if v.Promise != oracle.P6 { // the baseline writes no markers
				t.Error(v)
			}
		}
	}
}

func TestPublisher_tries_again_until_the_broker_has_it(t *testing.T) {
	broker := rig.NATSForTest(t, nil)
	file := filepath.Join(t.TempDir(), "bridge.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil,
		`pipelines: [{name: p, resources: [{resource: pods}], sink: {nats: {servers: [%q], stream: S}}}]`, broker.URL()),
		0o600))
	cfg := must.Get(load(file))(t)
	conn, js := must.Get2(connect(cfg))(t)
	t.Cleanup(conn.Close)
	p := newPublisher(js)
	ctx := must.Within(t, time.Minute)
	p.publish(ctx, nats.NewMsg("k8s.x")) // there is no stream that takes it
	assert.EqualValues(t, 1, p.events.Load(), "it is not under way")
	stream := must.Get(js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"k8s.>"}}))(t)
	p.work.Wait()
	info := must.Get(stream.Info(ctx))(t)
	assert.True(t, info.State.Msgs == 1 && p.events.Load() == 0 && ctx.Err() == nil,
		"%d messages, %d under way, %v", info.State.Msgs, p.events.Load(), ctx.Err())
}

func TestSlim_takes_secrets_away(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Secret", "data": map[string]any{"token": "x"}, "stringData": map[string]any{"token": "x"},
		"metadata": map[string]any{
			"name":          "s",
			"annotations":   map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "x", "a": "b"},
			"managedFields": []any{},
		},
	}}
	got := must.Get(slim(u))(t)
	text := must.Get(got.(*unstructured.Unstructured).MarshalJSON())(t)
	assert.Equal(t, `{"kind":"Secret","metadata":{"annotations":{"a":"b"},"name":"s"}}`+"\n", string(text),
		"%s", text)
}
