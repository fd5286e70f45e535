// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"bytes"
	"context"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	configMaps   = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	clusterRoles = schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	gadgets      = schema.GroupVersionResource{Group: "oracle.example.com", Version: "v1", Resource: "gadgets"}
)

// fixture is a recorder on a real control plane, and a client that says what the API server answered.
type fixture struct {
	t        *testing.T
	plane    *controlplane.ControlPlane
	recorder *Recorder
	client   *dynamic.DynamicClient
	want     map[Stream]map[string][]State
}

func newFixture(t *testing.T) *fixture {
	f := &fixture{t: t, plane: controlplane.ForTest(t, controlplane.Config{}), want: map[Stream]map[string][]State{}}
	require.NoError(t, crd.Install(t.Context(), f.plane.RESTConfig(), crd.Define(gadgets, "Gadget")))
	h := must.Get(rest.HTTPClientFor(f.plane.RESTConfig()))(t)
	t.Cleanup(h.CloseIdleConnections)
	f.client = must.Get(dynamic.NewForConfigAndClient(f.plane.RESTConfig(), h))(t)
	f.recorder = NewRecorder(RecorderConfig{Dial: f.plane.EtcdClient, Cluster: "test", Resources: []Resource{
		{Resource: configMaps, Namespaced: true}, {Resource: clusterRoles}, {Resource: gadgets, Namespaced: true},
	}})
	return f
}

// run starts the recorder, which ends with the test and before the control plane.
func (f *fixture) run() {
	ctx, cancel := context.WithCancel(f.t.Context())
	done := make(chan error, 1)
	go func() { done <- f.recorder.Run(ctx) }()
	f.t.Cleanup(func() {
		cancel()
		assert.NoError(f.t, <-done, "recorder")
	})
	require.NoError(f.t, f.recorder.Sync(f.t.Context()))
}

func (f *fixture) of(r schema.GroupVersionResource) dynamic.ResourceInterface {
	if r == clusterRoles {
		return f.client.Resource(r)
	}
	return f.client.Resource(r).Namespace("default")
}

func (f *fixture) create(r schema.GroupVersionResource, kind, name string) *unstructured.Unstructured {
	f.t.Helper()
	o := must.Get(f.of(r).Create(f.t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": r.GroupVersion().String(), "kind": kind,
		"metadata": map[string]any{
			"name": name, "labels": map[string]any{"watched": "yes"},
			"finalizers": []any{"example.com/wait"},
		},
	}}, metav1.CreateOptions{}))(f.t)
	return o
}

func (f *fixture) patch(r schema.GroupVersionResource, name, patch string) *unstructured.Unstructured {
	f.t.Helper()
	return must.Get(f.of(r).Patch(f.t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}))(f.t)
}

func version(t *testing.T, o *unstructured.Unstructured) uint64 {
	t.Helper()
	return must.Get(strconv.ParseUint(o.GetResourceVersion(), 10, 64))(t)
}

func (f *fixture) states(s Stream, key string) []State {
	f.t.Helper()
	ctx := must.Within(f.t, time.Minute)
	require.NoError(f.t, f.recorder.Sync(ctx))
	truth := must.Get(f.recorder.Truth(s))(f.t)
	return truth.Streams[s][key]
}

func (f *fixture) expect(s Stream, key string, want ...State) {
	f.t.Helper()
	got := f.states(s, key)
	for i := range got {
		got[i].Body = "" // a test of their own compares bodies
	}
	for i := range got { // what a deletion answers does not have the version of the deletion
		if i < len(want) && want[i].Version == 0 && got[i].Version > got[i-1].Version {
			want[i].Version = got[i].Version
		}
	}
	assert.Equal(f.t, want, got, "%s %s", s, key)
}

func TestRecorder_has_the_versions_that_the_API_server_answers(t *testing.T) {
	f := newFixture(t)
	early := f.create(configMaps, "ConfigMap", "early")
	f.run()
	for _, c := range []struct {
		resource  schema.GroupVersionResource
		kind, key string
	}{{configMaps, "ConfigMap", "default/x"}, {clusterRoles, "ClusterRole", "x"}, {gadgets, "Gadget", "default/x"}} {
		o := f.create(c.resource, c.kind, "x")
		uid := string(o.GetUID())
		hidden := f.patch(c.resource, "x", `{"metadata":{"labels":{"watched":"no"}}}`)
		back := f.patch(c.resource, "x", `{"metadata":{"labels":{"watched":"yes"}}}`)
		require.NoError(t, f.of(c.resource).Delete(t.Context(), "x", metav1.DeleteOptions{}))
		waiting := must.Get(f.of(c.resource).Get(t.Context(), "x", metav1.GetOptions{}))(t)
		f.patch(c.resource, "x", `{"metadata":{"finalizers":null}}`)
		again := f.create(c.resource, c.kind, "x")

		all := Stream{Cluster: "test", Resource: c.resource}
		f.expect(all, c.key,
			State{UID: uid, Version: version(t, o), Op: Added}, State{UID: uid, Version: version(t, hidden), Op: Updated},
			State{UID: uid, Version: version(t, back), Op: Updated},
			State{UID: uid, Version: version(t, waiting), Op: Updated}, State{UID: uid, Version: 0, Op: Deleted},
			State{UID: string(again.GetUID()), Version: version(t, again), Op: Added})
		served := must.Get(again.MarshalJSON())(t)
		if got := f.states(all, c.key)[5].Body; got == "" || got != contentOf(served) {
			t.Errorf("%s: the content of what etcd has is not that of %s", c.kind, served)
		}
		some := all
		some.LabelSelector = "watched=yes"
		f.expect(some, c.key,
			State{UID: uid, Version: version(t, o), Op: Added}, State{UID: uid, Version: version(t, hidden), Op: Deleted},
			State{UID: uid, Version: version(t, back), Op: Added},
			State{UID: uid, Version: version(t, waiting), Op: Updated}, State{UID: uid, Version: 0, Op: Deleted},
			State{UID: string(again.GetUID()), Version: version(t, again), Op: Added})
	}
	f.expect(Stream{Cluster: "test", Resource: configMaps, Namespace: "default"}, "default/early",
		State{UID: string(early.GetUID()), Version: version(t, early), Op: Added})
	assert.Nil(t, f.states(Stream{Cluster: "test", Resource: configMaps, Namespace: "kube-system"}, "default/early"),
		"a stream of another namespace")
}

func TestRecorder_goes_on_where_it_was_when_etcd_is_killed(t *testing.T) {
	f := newFixture(t)
	f.run()
	o := f.create(configMaps, "ConfigMap", "x")
	uid := string(o.GetUID())
	require.NoError(t, f.plane.KillEtcd())
	require.NoError(t, f.plane.StartEtcd(t.Context()))
	require.NoError(t, f.plane.RestartAPIServer(t.Context()))
	u := f.patch(configMaps, "x", `{"data":{"a":"b"}}`)
	all := Stream{Cluster: "test", Resource: configMaps}
	f.expect(all, "default/x", State{UID: uid, Version: version(t, o), Op: Added},
		State{UID: uid, Version: version(t, u), Op: Updated})
	truth := must.Get(f.recorder.Truth(all))(t)
	require.Empty(t, truth.Holes, "holes, histories")
	assert.Len(t, truth.Histories, 1, "holes, histories")
}

func TestRecorder_says_what_it_could_not_read(t *testing.T) {
	f := newFixture(t)
	f.run()
	o := f.create(configMaps, "ConfigMap", "x")
	before := version(t, o)
	f.states(Stream{Cluster: "test", Resource: configMaps}, "default/x")
	require.NoError(t, f.recorder.Hold(t.Context()))
	f.patch(configMaps, "x", `{"data":{"a":"b"}}`)
	last := f.patch(configMaps, "x", `{"data":{"a":"c"}}`)
	require.NoError(t, f.plane.Compact(t.Context()))
	f.recorder.update(func() { f.recorder.held = false })
	all := Stream{Cluster: "test", Resource: configMaps}
	f.expect(all, "default/x", State{UID: string(o.GetUID()), Version: before, Op: Added},
		State{UID: string(o.GetUID()), Version: version(t, last), Op: Updated})
	ctx := must.Within(t, time.Minute)
	require.NoError(t, f.recorder.await(ctx, func() bool { return len(f.recorder.compactions) > 0 }))
	truth := must.Get(f.recorder.Truth(all))(t)
	if n := len(truth.Compactions); n == 0 || truth.Compactions[n-1].Revision < before {
		t.Errorf("compactions %v, of which the last must be behind %d", truth.Compactions, before)
	}
	assert.True(t, len(truth.Holes) == 1 && truth.Holes[0].From >= before && truth.Holes[0].To >= version(t, last),
		"holes %v, of which one must begin at %d or later and go to %d", truth.Holes, before, version(t, last))
}

func TestRecorder_begins_a_history_when_etcd_was_restored(t *testing.T) {
	for name, bump := range map[string]bool{"versions run backwards": false, "versions are bumped": true} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.run()
			kept := f.create(configMaps, "ConfigMap", "kept")
			lost := f.create(configMaps, "ConfigMap", "lost")
			f.patch(configMaps, "lost", `{"metadata":{"finalizers":null}}`)
			snapshot := filepath.Join(t.TempDir(), "snapshot")
			require.NoError(t, f.plane.Snapshot(t.Context(), snapshot))
			require.NoError(t, f.of(configMaps).Delete(t.Context(), "lost", metav1.DeleteOptions{}))
			changed := f.patch(configMaps, "kept", `{"data":{"a":"b"}}`)
			only := f.create(configMaps, "ConfigMap", "only")

			revision := must.Get(SnapshotRevision(snapshot))(t)
			require.NoError(t, f.plane.KillAPIServer())
			require.NoError(t, f.recorder.Hold(t.Context()))
			require.NoError(t, f.plane.Restore(t.Context(), snapshot, bump))
			after := f.patch(configMaps, "kept", `{"data":{"a":"c"}}`)
			f.recorder.Restored(revision)
			later := f.patch(configMaps, "kept", `{"data":{"a":"d"}}`)

			all := Stream{Cluster: "test", Resource: configMaps}
			uid := string(kept.GetUID())
			f.expect(all, "default/kept", State{UID: uid, Version: version(t, kept), Op: Added},
				State{UID: uid, Version: version(t, changed), Op: Updated},
				State{History: 1, UID: uid, Version: version(t, kept), Op: Updated},
				State{History: 1, UID: uid, Version: version(t, after), Op: Updated},
				State{History: 1, UID: uid, Version: version(t, later), Op: Updated})
			truth := must.Get(f.recorder.Truth(all))(t)
			first := truth.Histories[1].First
			f.expect(all, "default/only", State{UID: string(only.GetUID()), Version: version(t, only), Op: Added},
				State{History: 1, UID: string(only.GetUID()), Version: first, Op: Deleted})
			states := f.states(all, "default/lost")
			if last := states[len(states)-1]; last.History != 1 || last.Op != Added || last.UID != string(lost.GetUID()) {
				t.Errorf("what the snapshot brought back has the states %v", states)
			}
			assert.True(t, (!bump || first > version(t, only)) && (bump || first == revision),
				"the history begins at %d, the snapshot was made at %d", first, revision)
		})
	}
}

func TestDecode_reads_both_formats_of_etcd(t *testing.T) {
	var stored bytes.Buffer
	object := &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			UID: "u1", Labels: map[string]string{"a": "b"},
			Annotations: map[string]string{"faults.example.com/change": "1.2"},
		},
	}
	require.NoError(t, protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(object, &stored))
	body, _, err := bodyOf([]byte(`{"metadata":{"uid":"u1","labels":{"a":"b"},` +
		`"annotations":{"faults.example.com/change":"1.2"}}}`))
	require.NoError(t, err)
	want := Observation{UID: "u1", Labels: map[string]string{"a": "b"}, Body: body}
	for name, value := range map[string][]byte{
		"protobuf": stored.Bytes(),
		"JSON":     []byte(`{"metadata":{"uid":"u1","labels":{"a":"b"},"annotations":{"faults.example.com/change":"1.2"}}}`),
	} {
		assert.Equal(t, want, must.Get(Decode(value))(t), name)
	}
	for name, value := range map[string]string{
		"no uid": `{"metadata":{}}`, "neither": "x",
		"an unknown type": "k8s\x00x",
	} {
		got, err := Decode([]byte(value))
		assert.Error(t, err, "%s: got %+v", name, got)
	}
}
