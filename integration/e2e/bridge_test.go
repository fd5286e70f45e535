// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// TestBridge runs what does not hurt the control plane on one.
func TestBridge(t *testing.T) {
	t.Parallel()
	api := controlplane.ForTest(t, controlplane.Config{})
	for name, test := range map[string]func(*testing.T, *controlplane.ControlPlane){
		"finds what vanished while it was down":            vanished,
		"leaving a selector is a deletion":                 selector,
		"follows custom resources that come later":         customResources,
		"publishes no value of a Secret":                   secrets,
		"lets nothing out that is to be redacted":          canaries("canaries", "object"),
		"lets nothing out of what was before":              canaries("canaries-change", "change"),
		"lets nothing out in patches":                      canaries("canaries-patch", "json-patch"),
		"patches replay to what the API server has":        patches,
		"compares what is with what was":                   oldStates,
		"publishes what is asked for, after a restart too": filters,
		"publishes again what exists when it is asked to":  resyncs,
		"waits for a broker that is away":                  brokerAway,
		"is ready only when its snapshot is in the log":    ready,
		"a list of several namespaces is a stream of each": namespaces,
		"publishes cluster-scoped objects":                 clusterScoped,
		"publishes the metadata alone, structured":         structured,
		"folds what waits in mode latest, and says so":     latest,
		"changed selectors list again":                     changedSelector,
		"publishes in Knative's profile":                   knative,
		"names no older writer":                            namesOfWriters,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, api)
		})
	}
}

func (r *fixture) namespace(name string) {
	r.t.Helper()
	_, err := r.kube.CoreV1().Namespaces().Create(r.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(r.t, err)
}

func (r *fixture) configMap(ns, name string, labels map[string]string) *corev1.ConfigMap {
	r.t.Helper()
	got, err := r.kube.CoreV1().ConfigMaps(ns).Create(r.t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}, metav1.CreateOptions{})
	require.NoError(r.t, err)
	return got
}

func (r *fixture) patch(ns, name, patch string) *corev1.ConfigMap {
	r.t.Helper()
	got, err := r.kube.CoreV1().ConfigMaps(ns).Patch(r.t.Context(), name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	require.NoError(r.t, err)
	return got
}

func (r *fixture) remove(ns, name string) {
	r.t.Helper()
	require.NoError(r.t, r.kube.CoreV1().ConfigMaps(ns).Delete(r.t.Context(), name, metav1.DeleteOptions{}))
}

// story returns what the log says of one object, "added updated deleted".
func story(log []entry, key string) string {
	var words []string
	for _, e := range log {
		if e.key == key {
			words = append(words, e.op)
		}
	}
	return strings.Join(words, " ")
}

func (r *fixture) awaitStory(key, want string) []entry {
	r.t.Helper()
	return r.await(key+" to be "+want, func(log []entry) bool { return story(log, key) == want })
}

func (r *fixture) awaitOp(op string, n int) []entry {
	r.t.Helper()
	return r.await(fmt.Sprintf("%d times %s", n, op), func(log []entry) bool { return count(log, op) >= n })
}

func count(log []entry, op string) int {
	n := 0
	for _, e := range log {
		if e.op == op {
			n++
		}
	}
	return n
}

func vanished(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `[{resource: configmaps, namespaces: [vanished]}]`)
	r.namespace("vanished")
	for _, name := range []string{"stays", "changes", "goes", "comes-back"} {
		r.configMap("vanished", name, nil)
	}
	b := r.run()
	r.awaitOp("snapshot-completed", 1)
	b.stop()
	r.patch("vanished", "changes", `{"data":{"a":"1"}}`)
	r.patch("vanished", "changes", `{"data":{"a":"2"}}`)
	r.remove("vanished", "goes")
	r.remove("vanished", "comes-back")
	r.configMap("vanished", "comes-back", nil)
	r.configMap("vanished", "new", nil)
	b = r.run()
	r.awaitStory("vanished/new", "added")
	b.stop() // what was read is published first
	log := r.entries()
	for key, want := range map[string]string{
		"stays": "added", "changes": "added updated updated", "goes": "added deleted", "comes-back": "added deleted added",
	} {
		assert.Equal(t, want, story(log, "vanished/"+key), "%s: the log", key)
	}
	assert.Equal(t, 1, count(log, "snapshot-started"), "snapshots were started, want 1: the second start resumes")
}

func selector(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `[{resource: configmaps, namespaces: [selector], labelSelector: "app=x"}]`)
	r.namespace("selector")
	b := r.run()
	r.awaitOp("snapshot-completed", 1)
	r.configMap("selector", "a", map[string]string{"app": "x"})
	r.patch("selector", "a", `{"metadata":{"labels":{"app":"y"}}}`)
	r.patch("selector", "a", `{"data":{"unseen":"1"}}`)
	r.patch("selector", "a", `{"metadata":{"labels":{"app":"x"}}}`)
	r.remove("selector", "a")
	log := r.awaitStory("selector/a", "added deleted added deleted")
	b.stop()
	mustBeUnique(t, log)
}

func customResources(t *testing.T, api *controlplane.ControlPlane) {
	c := rigOn(t, api, `[{resource: widgets.example.com}]`).custom()
	b := c.run()
	c.awaitStatus(http.StatusServiceUnavailable, "widgets.example.com")

	c.define("widgets", "v1")
	c.awaitOp("snapshot-completed", 1)
	w := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": "w", "annotations": map[string]any{"note": `a "quoted" {brace}`}},
		"spec":     map[string]any{"size": int64(1)},
	}}
	widgets := c.of("widgets", "v1")
	_, err := widgets.Create(t.Context(), w, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = widgets.Patch(t.Context(), "w", types.MergePatchType, []byte(`{"spec":{"size":2}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	require.NoError(t, widgets.Delete(t.Context(), "w", metav1.DeleteOptions{}))
	log := c.awaitStory("default/w", "added updated deleted")
	b.stop()
	for _, e := range log {
		if e.key == "" {
			continue
		}
		var got unstructured.Unstructured
		if err := json.Unmarshal(e.data, &got.Object); err != nil || got.GetKind() != "Widget" ||
			got.GetManagedFields() != nil {
			t.Errorf("data of %s is %s (%v)", e.op, e.data, err)
		}
		assert.Equal(t, `a "quoted" {brace}`, got.GetAnnotations()["note"], "the annotation is lost in %s", e.data)
	}
}

func secrets(t *testing.T, api *controlplane.ControlPlane) {
	const canary = "c4n4ry-v4lu3"
	r := rigOn(t, api, `[{resource: secrets, namespaces: [secrets]}]`)
	r.namespace("secrets")
	b := r.run()
	r.awaitOp("snapshot-completed", 1)
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": `{"stringData":{"password":"` + canary + `"}}`,
			"example.com/token": canary,
		}},
		StringData: map[string]string{"password": canary},
	}
	must.Get(r.kube.CoreV1().Secrets("secrets").Create(t.Context(), s, metav1.CreateOptions{}))(t)
	require.NoError(t, r.kube.CoreV1().Secrets("secrets").Delete(t.Context(), "s", metav1.DeleteOptions{}))
	log := r.awaitStory("secrets/s", "added deleted")
	metrics := r.metrics()
	b.stop()
	checkpoint := must.Get(os.ReadFile(filepath.Join(r.dir, "data", "test.db")))(t)
	leaks := map[string]string{"stderr": b.stderr(), "the metrics": metrics, "the checkpoint": string(checkpoint)}
	for _, e := range log {
		leaks["the log, "+e.id] = string(e.data) + fmt.Sprint(e.header)
	}
	for where, text := range leaks {
		for _, form := range []string{canary, "YzRuNHJ5LXY0bHUz"} {
			assert.NotContains(t, text, form, "the value of a Secret is in %s", where)
		}
	}
	var got corev1.Secret
	require.NoError(t, json.Unmarshal(log[len(log)-1].data, &got))
	assert.Equal(t, "[redacted]", string(got.Data["password"]),
		"the value reads %q, want [redacted]", got.Data["password"])
}

// metrics is what the bridge serves; empty until it listens.
func (r *fixture) metrics() string {
	_, body := r.status("/metrics")
	return body
}

// awaitMetric polls until a metric, with its labels, has a value. What the log has is counted when the broker's answer
// is read.
func (r *fixture) awaitMetric(want string) {
	r.t.Helper()
	r.poll("the metrics to have "+want, func() (bool, string) {
		metrics := r.metrics()
		return strings.Contains(metrics, "\nkube_eventbridge_"+want+"\n"), metrics
	})
}

// status returns code 0 until the bridge listens.
func (r *fixture) status(path string) (int, string) {
	r.t.Helper()
	code, body, _, err := rig.Get(r.t.Context(), r.server, path)
	if err != nil {
		return 0, err.Error()
	}
	return code, body
}

func brokerAway(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `[]`)
	r.namespace("broker-away")
	r.configMap("broker-away", "a", nil)
	r.broker.stop()
	r.configure(`[{resource: configmaps, namespaces: [broker-away]}]`)
	b := r.run()
	r.awaitStatus(http.StatusServiceUnavailable, "broker")
	r.broker.start()
	r.awaitStatus(http.StatusOK, "ok")
	log := r.entries()
	assert.Equal(t, "added", story(log, "broker-away/a"), "the log has %d entries, want the object's", len(log))
	b.stop()
	assert.Contains(t, b.stderr(), "waiting for the broker", "stderr does not say that the broker is away")
}

func ready(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `[{resource: configmaps, namespaces: [ready]}, {resource: nothings.example.org}]`)
	r.namespace("ready")
	r.configMap("ready", "a", nil)
	b := r.run()
	r.awaitStatus(http.StatusServiceUnavailable, "nothings.example.org")
	b.stop()
	r.configure(`[{resource: configmaps, namespaces: [ready]}]`)
	b = r.runReady()
	assert.Equal(t, 1, count(r.entries(), "snapshot-completed"),
		"the bridge was ready before its snapshot was in the log")
	b.stop()
}

func namespaces(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `[{resource: cm, namespaces: [ns-one, ns-two]}]`)
	for _, ns := range []string{"ns-one", "ns-two", "ns-three"} {
		r.namespace(ns)
		r.configMap(ns, "a", nil)
	}
	b := r.run()
	log := r.awaitOp("snapshot-completed", 2)
	b.stop()
	assert.True(t, story(log, "ns-one/a") == "added" && story(log, "ns-two/a") == "added" &&
		story(log, "ns-three/a") == "", "the log has %d entries, want those of two namespaces", len(log))
}

func clusterScoped(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `[{resource: namespaces, fieldSelector: "metadata.name=cluster-scoped"}]`)
	b := r.run()
	r.awaitOp("snapshot-completed", 1)
	r.namespace("cluster-scoped")
	log := r.await("the namespace", func(log []entry) bool { return story(log, "cluster-scoped") != "" })
	b.stop()
	i := slices.IndexFunc(log, func(e entry) bool { return e.key == "cluster-scoped" })
	if h := log[i].header; len(h.Values("ce-namespace")) != 0 ||
		h.Get("ce-partitionkey") != "e2e/core/namespaces/_/cluster-scoped" {
		t.Errorf("headers are %v, want no namespace and the key with _", h)
	}
}

func structured(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `[{resource: configmaps, namespaces: [structured], payload: metadata}]
    encoding: {mode: structured}`)
	r.namespace("structured")
	r.configMap("structured", "a", nil)
	b := r.runReady()
	b.stop()
	var raw [][]byte
	for _, m := range r.messages() {
		raw = append(raw, m.Data)
	}
	i := slices.IndexFunc(raw, func(b []byte) bool { return strings.Contains(string(b), `"structured/a"`) })
	require.GreaterOrEqual(t, i, 0, "no event of the object in %s", raw)
	var event struct {
		SpecVersion, Subject, Payload string
		Data                          struct {
			Kind     string
			Metadata metav1.ObjectMeta
			Data     map[string]string
		}
	}
	require.NoError(t, json.Unmarshal(raw[i], &event))
	if event.SpecVersion != "1.0" || event.Payload != "metadata" || event.Data.Metadata.Name != "a" ||
		event.Data.Kind != "ConfigMap" || event.Data.Data != nil {
		t.Errorf("the event is %s", raw[i])
	}
}

// What changes while the broker is away is folded to the newest state, and the event says how much it stands for.
func latest(t *testing.T, api *controlplane.ControlPlane) {
	const changes = 100
	r := rigOn(t, api, `[{resource: configmaps, namespaces: [latest], delivery: latest}]`)
	r.namespace("latest")
	b := r.runReady()
	r.broker.stop()
	r.configMap("latest", "a", nil)
	var version string
	for i := range changes - 1 {
		version = r.patch("latest", "a", fmt.Sprintf(`{"data":{"i":"%d"}}`, i)).ResourceVersion
	}
	r.awaitMetric(`buffered_events{pipeline="test"} 2`)
	r.broker.start()
	log := r.await("the last version", func(log []entry) bool { return len(log) > 0 && log[len(log)-1].rv == version })
	b.stop()
	events, stands, last := 0, 0, 0
	for _, e := range log {
		if e.key != "latest/a" {
			continue
		}
		n := 1
		if rate := e.header.Get("ce-sampledrate"); rate != "" {
			n = number(t, rate)
		}
		events++
		stands += n
		if rv := number(t, e.rv); rv <= last {
			t.Errorf("version %d follows %d", rv, last)
		} else {
			last = rv
		}
	}
	assert.Equal(t, 2, events, "events stand for %d changes, want 2 (the one under way, and the rest)", stands)
	assert.Equal(t, changes, stands, "events stand for %d changes, want 2 (the one under way, and the rest)", stands)
}

func number(t *testing.T, s string) int {
	t.Helper()
	return must.Get(strconv.Atoi(s))(t)
}

func changedSelector(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `[{resource: configmaps, namespaces: [changed-selector], labelSelector: "app=x"}]`)
	r.namespace("changed-selector")
	r.configMap("changed-selector", "x", map[string]string{"app": "x"})
	r.configMap("changed-selector", "y", map[string]string{"app": "y"})
	r.configMap("changed-selector", "both", map[string]string{"app": "x", "and": "y"})
	b := r.runReady()
	b.stop()
	r.configure(`[{resource: configmaps, namespaces: [changed-selector], labelSelector: "app in (x,y), app!=x"}]`)
	b = r.run()
	r.awaitStory("changed-selector/y", "added")
	r.awaitStory("changed-selector/both", "added deleted")
	log := r.awaitStory("changed-selector/x", "added deleted")
	b.stop()
	assert.Equal(t, 1, count(log, "gap"), "gaps were announced, want 1")
	mustBeUnique(t, log)
}
