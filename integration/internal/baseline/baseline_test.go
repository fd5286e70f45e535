// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

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
	for selector, deletion := range map[string]string{"": "uid.deleted", "a=b": "uid.7.deleted"} {
		s := stream{"c", "p", widgets, "", selector}
		of := oracle.Stream{Cluster: "c", Resource: widgets, LabelSelector: selector}
		truth := &oracle.Truth{Histories: []oracle.History{{First: 1, Last: 9}}, Streams: map[oracle.Stream]map[string][]oracle.State{of: {"a/w.1": {
			{UID: "uid", Version: 3, Op: oracle.Added}, {UID: "uid", Version: 5, Op: oracle.Updated}, {UID: "uid", Version: 7, Op: oracle.Deleted},
		}}}}
		var log []oracle.Entry
		for i, c := range []struct{ version, op, id string }{{"3", added, "uid.3"}, {"5", updated, "uid.5"}, {"7", deleted, deletion}} {
			m, err := s.event(widget(c.version), c.op, byWatch)
			must(t, err)
			e, err := oracle.NewEntry(m.Header, m.Data, uint64(i)+1)
			must(t, err)
			if e.ID != c.id || m.Subject != "k8s.c.example_com.widgets.a.w%2E1" {
				t.Errorf("id %s with subject %s, want %s", e.ID, m.Subject, c.id)
			}
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
	must(t, os.WriteFile(file, fmt.Appendf(nil, `pipelines: [{name: p, resources: [{resource: pods}], sink: {nats: {servers: [%q], stream: S}}}]`, broker.URL()), 0o600))
	cfg, err := load(file)
	must(t, err)
	conn, js, err := connect(cfg)
	must(t, err)
	t.Cleanup(conn.Close)
	p := newPublisher(js)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	p.publish(ctx, nats.NewMsg("k8s.x")) // there is no stream that takes it
	if p.events.Load() != 1 {
		t.Error("it is not under way")
	}
	stream, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"k8s.>"}})
	must(t, err)
	p.work.Wait()
	info, err := stream.Info(ctx)
	must(t, err)
	if info.State.Msgs != 1 || p.events.Load() != 0 || ctx.Err() != nil {
		t.Errorf("%d messages, %d under way, %v", info.State.Msgs, p.events.Load(), ctx.Err())
	}
}

func TestSlim_takes_secrets_away(t *testing.T) {
	u := &unstructured.Unstructured{Object: map[string]any{
		"kind": "Secret", "data": map[string]any{"token": "x"}, "stringData": map[string]any{"token": "x"},
		"metadata": map[string]any{"name": "s", "annotations": map[string]any{"kubectl.kubernetes.io/last-applied-configuration": "x", "a": "b"}, "managedFields": []any{}},
	}}
	got, err := slim(u)
	must(t, err)
	text, err := got.(*unstructured.Unstructured).MarshalJSON()
	must(t, err)
	if want := `{"kind":"Secret","metadata":{"annotations":{"a":"b"},"name":"s"}}` + "\n"; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}
