// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// consumer applies all events of a log, with somebody else's code.
type consumer struct {
	objects, versions map[string]string
	patches           map[string]int
}

func consume(t *testing.T, log []entry) *consumer {
	t.Helper()
	c := &consumer{map[string]string{}, map[string]string{}, map[string]int{}}
	for i := range log {
		if e := &log[i]; e.uid != "" {
			c.take(t, e)
		}
	}
	return c
}

func (c *consumer) take(t *testing.T, e *entry) {
	t.Helper()
	key, payload, base := e.kind+" "+e.key, e.attribute("payload"), e.attribute("baseversion")
	require.True(t, base == "" || base == c.versions[key],
		"%s applies to %s, and the event before it is of %s", e.id, base, c.versions[key])
	was := []byte(c.objects[key])
	var now []byte
	var err error
	switch payload {
	case "object":
		now = e.data
	case "merge-patch":
		now, err = jsonpatch.MergePatch(was, e.data)
	case "json-patch":
		var p jsonpatch.Patch
		p = must.Get(jsonpatch.DecodePatch(e.data))(t)
		now, err = p.Apply(was)
	case "change":
		var change struct{ Object, OldObject json.RawMessage }
		require.NoError(t, json.Unmarshal(e.data, &change))
		if now = change.Object; change.OldObject != nil && !reflect.DeepEqual(decoded(t, change.OldObject), decoded(t, was)) {
			t.Fatalf("oldObject of %s is\n%s\nand the event before it said\n%s", e.id, change.OldObject, was)
		}
	default:
		t.Fatalf("%s has payload %s", e.id, payload)
	}
	require.NoError(t, err, e.id)
	if base != "" {
		c.patches[key]++
	}
	c.objects[key], c.versions[key] = string(now), e.rv
	if e.op == "deleted" {
		delete(c.objects, key)
	}
}

func decoded(t *testing.T, text []byte) (v any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(text, &v))
	return v
}

// served is an object as the API server has it, without what is never published.
func servedObject(t *testing.T, of rest.Interface, resource, ns, name string) any {
	t.Helper()
	text := must.Get(of.Get().Namespace(ns).Resource(resource).Name(name).DoRaw(t.Context()))(t)
	v := decoded(t, text).(map[string]any)
	delete(v["metadata"].(map[string]any), "managedFields")
	return v
}

const patchesNamespace = "patches"

func patches(t *testing.T, api *controlplane.ControlPlane) {
	replay(t, rigOn(t, api, patchedResources))
}

func TestKafka_patches_replay_to_what_the_API_server_has(t *testing.T) {
	rig.Parallel(t, rig.All)
	replay(t, newKafkaRig(t, patchedResources))
}

const patchedResources = `
      - {resource: configmaps, namespaces: [patches], payload: merge-patch}
      - {resource: deployments.apps, namespaces: [patches], payload: json-patch}
      - {resource: services, namespaces: [patches], payload: change}`

// replay changes objects at random before, during and after a crash of the bridge: whoever applies its events has what
// the API server has.
func replay(t *testing.T, r *fixture) {
	const ns = patchesNamespace
	r.namespace(ns)
	b := r.run()
	r.awaitOp("snapshot-completed", 3)
	random := rand.New(rand.NewPCG(1, 1))
	for _, name := range []string{"a", "b", "quiet"} {
		r.configMap(ns, name, nil)
		r.deployment(ns, name)
		r.service(ns, name)
	}
	for range 40 {
		r.change(random, "a")
		r.change(random, "b")
	}
	r.change(random, "quiet")
	r.awaitServed("quiet")
	r.awaitCommits()
	for range 10 {
		r.change(random, "a")
	}
	b.kill()
	for range 10 {
		r.change(random, "b")
	}
	b = r.run()
	r.awaitStatus(200, "")
	for range 20 {
		r.change(random, "a")
		r.change(random, "b")
		r.change(random, "quiet")
	}
	for _, name := range []string{"a", "b", "quiet"} {
		r.awaitServed(name)
	}
	c := consume(t, r.entries())
	for _, kind := range []string{"ConfigMap", "Deployment", "Service"} {
		if n := c.patches[kind+" "+ns+"/quiet"]; n < 21 { // the crash between is not seen
			t.Errorf("only %d events of the quiet %s are made from the one before", n, kind)
		}
		n := c.patches[kind+" "+ns+"/a"]
		assert.GreaterOrEqual(t, n, 55, "only %d events of %s a are made from the one before", n, kind)
	}
	assert.Contains(t, b.stderr(), "previous states are read", "the log does not say so")
	r.remove(ns, "a")
	r.awaitOp("deleted", 1)
	_, ok := consume(t, r.entries()).objects["ConfigMap "+ns+"/a"]
	assert.False(t, ok, "what was deleted is still there")
}

func (r *fixture) deployment(ns, name string) {
	r.t.Helper()
	template := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "image:1"}}},
	}
	_, err := r.kube.AppsV1().Deployments(ns).Create(r.t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template},
	}, metav1.CreateOptions{})
	require.NoError(r.t, err)
}

func (r *fixture) service(ns, name string) {
	r.t.Helper()
	_, err := r.kube.CoreV1().Services(ns).Create(r.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{
			Name: "p",
			Port: 80,
		}}},
	}, metav1.CreateOptions{})
	require.NoError(r.t, err)
}

// change writes something else into the three objects of a name.
func (r *fixture) change(random *rand.Rand, name string) {
	r.t.Helper()
	const ns = patchesNamespace
	ctx, options := r.t.Context(), metav1.PatchOptions{}
	n := random.IntN(1000)
	value := fmt.Sprintf("%q", fmt.Sprint("<", n, "> \"é\"\n~/"))
	if random.IntN(3) == 0 {
		value = "null"
	}
	key := []string{"a", "b/c", "d.e_f", "x~y"}[random.IntN(4)]
	labels := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/n":"%d","example.com/%s":%s}}`, n,
		[]string{"a", "b", "c"}[random.IntN(3)], value)
	_, err := r.kube.CoreV1().ConfigMaps(ns).Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `%s,"data":{"n":"%d",%q:%s}}`, labels, n, strings.NewReplacer("/", "_", "~", "-").Replace(key),
			value), options)
	require.NoError(r.t, err)
	var containers []string
	for i := range random.IntN(3) {
		containers = append(containers, fmt.Sprintf(`{"name":"c%d","image":"image:%d","env":[{"name":"N%d","value":"%d"}]}`,
			i, n, random.IntN(2), n))
	}
	containers = append(containers, fmt.Sprintf(`{"name":"main","image":"image:%d"}`, random.IntN(3)))
	_, err = r.kube.AppsV1().Deployments(ns).Patch(ctx, name, types.MergePatchType,
		fmt.Appendf(nil, `%s,"spec":{"replicas":%d,"template":{"spec":{"containers":[%s]}}}}`, labels, random.IntN(5),
			strings.Join(containers, ",")), options)
	require.NoError(r.t, err)
	_, err = r.kube.CoreV1().Services(ns).Patch(ctx, name, types.MergePatchType, fmt.Appendf(nil, `%s}`, labels), options)
	require.NoError(r.t, err)
}

// awaitServed waits until whoever applies the log's events has the three objects of a name as the API server has them.
func (r *fixture) awaitServed(name string) {
	r.t.Helper()
	const ns = patchesNamespace
	want := map[string]any{
		"ConfigMap":  servedObject(r.t, r.kube.CoreV1().RESTClient(), "configmaps", ns, name),
		"Deployment": servedObject(r.t, r.kube.AppsV1().RESTClient(), "deployments", ns, name),
		"Service":    servedObject(r.t, r.kube.CoreV1().RESTClient(), "services", ns, name),
	}
	var c *consumer
	r.await("all events of "+name, func(log []entry) bool {
		c = consume(r.t, log)
		for kind, object := range want {
			if c.versions[kind+" "+ns+"/"+name] != object.(map[string]any)["metadata"].(map[string]any)["resourceVersion"] {
				return false
			}
		}
		return true
	})
	for kind, object := range want {
		assert.Equal(r.t, object, decoded(r.t, []byte(c.objects[kind+" "+ns+"/"+name])), "%s %s is made", kind, name)
	}
}

// oldStates publishes what an expression makes of two states of an object, also where the one before is from before a
// restart.
func oldStates(t *testing.T, api *controlplane.ControlPlane) {
	const ns = "replicas"
	r := rigOn(t, api, `
      - {resource: deployments.apps, namespaces: [replicas], payload: change,
         filter: 'event.operation == "deleted" || object.spec.replicas != oldObject.spec.replicas'}`)
	r.namespace(ns)
	b := r.run()
	r.awaitOp("snapshot-completed", 1)
	r.deployment(ns, "web")
	write := func(patch string) string {
		d, err := r.kube.AppsV1().Deployments(ns).Patch(t.Context(), "web", types.MergePatchType, []byte(patch),
			metav1.PatchOptions{})
		require.NoError(t, err)
		return d.ResourceVersion
	}
	noise := func(n int) { write(fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, n)) }
	noise(1)
	write(`{"spec":{"replicas":3}}`)
	noise(2)
	r.awaitStory(ns+"/web", "added updated")
	r.awaitCommits()
	b.kill()
	noise(3)
	r.run()
	r.awaitStatus(200, "")
	noise(4)
	last := write(`{"spec":{"replicas":5}}`)
	r.awaitStory(ns+"/web", "added updated updated")
	noise(5)
	require.NoError(t, r.kube.AppsV1().Deployments(ns).Delete(context.WithoutCancel(t.Context()), "web",
		metav1.DeleteOptions{}))
	log := r.awaitStory(ns+"/web", "added updated updated deleted")
	assert.Equal(t, "added updated updated deleted", story(log, ns+"/web"), "the log")
	judged := 0
	for _, e := range log {
		var change struct{ Object, OldObject *appsv1.Deployment }
		if e.rv != last || e.op != "updated" {
			continue
		}
		judged++
		require.NoError(t, json.Unmarshal(e.data, &change))
		assert.EqualValues(t, 5, *change.Object.Spec.Replicas, "the last update is %s", e.data)
	}
	r.awaitMetric(`old_objects{pipeline="test",stream="deployments.v1.apps/replicas"} 0`)
	assert.Equal(t, 1, judged, "events are of the last update, want 1")
}
