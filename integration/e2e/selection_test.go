// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var crds = schema.GroupVersionResource{
	Group: "apiextensions.k8s.io", Version: "v1",
	Resource: "customresourcedefinitions",
}

// custom makes and removes custom resources and what defines them.
type custom struct {
	*fixture
	dynamic.Interface
}

func (r *fixture) custom() custom {
	r.t.Helper()
	client := must.Get(dynamic.NewForConfig(r.api.RESTConfig()))(r.t)
	return custom{r, client}
}

// define makes a definition of example.com, whose versions are served; the last one is stored.
func (c custom) define(plural string, versions ...string) {
	c.t.Helper()
	kind := strings.ToUpper(plural[:1]) + plural[1:len(plural)-1]
	crd := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced",
			"names": map[string]any{
				"plural": plural, "singular": strings.ToLower(kind), "kind": kind,
				"listKind": kind + "List", "shortNames": []any{plural[:3]},
			},
			"versions": versionList(versions, nil),
		},
	}}
	c.eventually("the definition of "+plural, func() bool { // the one before may be on its way out
		_, err := c.Resource(crds).Create(c.t.Context(), crd, metav1.CreateOptions{})
		return err == nil
	})
}

// versionList says which versions there are; those of gone are not served any more.
func versionList(versions, gone []string) []any {
	var all []any
	for i, v := range versions {
		all = append(all, map[string]any{
			"name": v, "served": !slices.Contains(gone, v), "storage": i == len(versions)-1,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{
				"type":                                 "object",
				"x-kubernetes-preserve-unknown-fields": true,
			}},
		})
	}
	return all
}

// serve changes which versions of a resource are served.
func (c custom) serve(plural string, versions []string, gone ...string) {
	c.t.Helper()
	crd := must.Get(c.Resource(crds).Get(c.t.Context(), plural+".example.com", metav1.GetOptions{}))(c.t)
	require.NoError(c.t, unstructured.SetNestedSlice(crd.Object, versionList(versions, gone), "spec", "versions"))
	must.Get(c.Resource(crds).Update(c.t.Context(), crd, metav1.UpdateOptions{}))(c.t)
}

func (c custom) undefine(plural string) {
	c.t.Helper()
	require.NoError(c.t, c.Resource(crds).Delete(c.t.Context(), plural+".example.com", metav1.DeleteOptions{}))
	c.eventually("the end of "+plural, func() bool {
		_, err := c.Resource(crds).Get(c.t.Context(), plural+".example.com", metav1.GetOptions{})
		return err != nil
	})
}

func (c custom) of(plural, version string) dynamic.ResourceInterface {
	return c.Resource(schema.GroupVersionResource{
		Group: "example.com", Version: version,
		Resource: plural,
	}).Namespace("default")
}

// make makes an object, once its resource is served.
func (c custom) make(plural, version, name string) {
	c.t.Helper()
	kind := strings.ToUpper(plural[:1]) + plural[1:len(plural)-1]
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/" + version, "kind": kind, "metadata": map[string]any{"name": name},
		"spec": map[string]any{"n": int64(0)},
	}}
	var err error
	c.eventually(plural+" to be served", func() bool {
		_, err = c.of(plural, version).Create(c.t.Context(), o, metav1.CreateOptions{})
		return err == nil
	})
}

func (c custom) change(version, name string, n int) {
	c.t.Helper()
	var err error
	c.eventually(fmt.Sprintf("%s to be changed: %v", name, err), func() bool {
		_, err = c.of("gadgets", version).Patch(c.t.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"n":%d}}`, n), metav1.PatchOptions{})
		return err == nil
	})
}

func TestSelection_follows_custom_resources_that_come_and_go(t *testing.T) {
	t.Parallel()
	r := newRig(t, `[{resource: "*.example.com", exclude: [secrets, gears]}, {resource: widgets.example.com}]`)
	c := r.custom()
	c.define("gears", "v1")
	b := r.run()
	r.awaitStatus(http.StatusServiceUnavailable, "widgets.example.com") // which is named, and is not there
	c.define("widgets", "v1")
	c.define("gadgets", "v1")
	for _, plural := range []string{"gears", "widgets", "gadgets"} {
		c.make(plural, "v1", plural+"-a")
	}
	r.awaitStory("default/widgets-a", "added")
	r.awaitStory("default/gadgets-a", "added")
	r.awaitStatus(http.StatusOK, "ok")
	c.undefine("gadgets")
	r.awaitStory("default/gadgets-a", "added deleted")
	r.poll("the stream to end", func() (bool, string) {
		_, page := r.status("/")
		metrics := r.metrics()
		return !strings.Contains(page, "gadgets") && !strings.Contains(metrics, "gadgets"), page
	})
	c.define("gadgets", "v1")
	c.make("gadgets", "v1", "gadgets-a")
	r.awaitStory("default/gadgets-a", "added deleted added")
	c.undefine("widgets")
	r.awaitStory("default/widgets-a", "added deleted")
	r.awaitStatus(http.StatusServiceUnavailable, "widgets.example.com")
	b.stop()
	log := r.entries()
	mustBeUnique(t, log)
	for _, e := range log {
		assert.NotContains(t, e.key, "gears", "what is left out is in the log: %s", e.id)
	}
}

// What is deleted with its definition while the bridge is stopped is deleted all the same, whether a wildcard or a name
// reads it. What a name stood for is not to be asked any more then.
func TestSelection_finds_definitions_that_went_while_it_was_away(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newReloaded(t)
	text := r.head
	ways := map[string]string{
		"NAME": "gadgets.example.com", "WILDCARD": `"*.example.com"`, "KIND": "gadget",
		"SHORT": "gad",
	}
	for way, resource := range ways {
		text += r.pipeline(strings.ToLower(way), way, "[{resource: "+resource+"}]")
	}
	r.mount.write(t, text)
	c := r.custom()
	c.define("gadgets", "v1")
	c.make("gadgets", "v1", "a")
	c.make("gadgets", "v1", "b")
	b := r.runReady()
	b.stop()
	c.undefine("gadgets")
	b = r.run()
	r.poll("the streams to be forgotten", func() (bool, string) {
		return strings.Count(b.stderr(), "stream has ended") == len(ways), b.stderr()
	})
	b.stop()
	b = r.run()
	r.poll("it to have started", func() (bool, string) {
		return strings.Count(b.stderr(), "read the end of the log") == len(ways), b.stderr()
	})
	b.stop()
	for way := range ways {
		log := r.entriesOf(way)
		mustBeUnique(t, log)
		a, b := story(log, "default/a"), story(log, "default/b")
		assert.True(t, a == "added deleted" && b == a, "%s: the log says %q and %q, want added deleted", way, a, b)
		for _, e := range log {
			assert.True(t, e.op != "deleted" || e.reason == "relist" && e.kind == "Gadget",
				"%s: the deletion is %+v", way, e)
		}
	}
}

// An API server that starts again serves custom resources later than its own: nothing of them is gone.
func TestSelection_takes_no_restart_of_the_API_server_for_the_end_of_anything(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newRig(t, `[{resource: "*.example.com"}]`)
	c := r.custom()
	c.define("gadgets", "v1")
	c.make("gadgets", "v1", "a")
	r.runReady()
	for n := range 3 {
		require.NoError(t, r.api.KillAPIServer())
		require.NoError(t, r.api.StartAPIServer(t.Context()))
		c.change("v1", "a", n+1)
		r.await("the change", func(log []entry) bool { return count(log, "updated") == n+1 })
	}
	r.bridge.stop()
	assert.Equal(t, 0, count(r.entries(), "deleted"), "objects were deleted")
}

// A stream stays with its version as long as that is served, and goes on with another one then, without a repetition.
func TestSelection_goes_on_in_another_version(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newRig(t, `[{resource: "*.example.com"}]`)
	c := r.custom()
	both := []string{"v1beta1", "v1"}
	c.define("gadgets", "v1beta1")
	c.make("gadgets", "v1beta1", "a")
	c.make("gadgets", "v1beta1", "b")
	b := r.runReady()
	c.serve("gadgets", both)
	c.change("v1", "a", 1)
	r.awaitStory("default/a", "added updated")
	b.stop()
	b = r.run()
	c.change("v1", "a", 2)
	log := r.awaitStory("default/a", "added updated updated")
	for _, e := range log {
		assert.Equal(t, "example.com/v1beta1", e.attribute("apiversion"),
			"%s is of version, and the old one is served", e.id)
	}
	c.serve("gadgets", both, "v1beta1")
	r.awaitPage("the other version", "gadgets.v1.example.com", "v1beta1")
	c.change("v1", "b", 1)
	log = r.awaitStory("default/b", "added updated")
	last := log[len(log)-1]
	assert.Equal(t, "example.com/v1", last.attribute("apiversion"), "the last event")
	b.stop()
	r.runReady()
	require.NoError(t, c.of("gadgets", "v1").Delete(t.Context(), "b", metav1.DeleteOptions{}))
	r.awaitStory("default/b", "added updated deleted")
	r.bridge.stop()
	states := map[string]bool{}
	for _, e := range r.entries() {
		state := e.uid + e.rv + e.op
		assert.True(t, e.uid == "" || !states[state], "%s of %s at %s is in the log twice", e.op, e.key, e.rv)
		states[state] = true
	}
}

// What may not be read is left out of what a wildcard names, in sight.
func TestSelection_reads_what_it_may(t *testing.T) {
	t.Parallel()
	r := rigOn(t, controlplane.ForTest(t, controlplane.Config{RBAC: true}), `[{resource: "*.example.com"}]`)
	c := r.custom()
	c.define("gadgets", "v1")
	c.define("widgets", "v1")
	c.make("gadgets", "v1", "a")
	c.make("widgets", "v1", "b")
	code, out, said := r.command("validate", "--cluster", "--config", r.config)
	if code != 0 || said != "" || !strings.Contains(out,
		"pipelines[0].resources[0].resource: *.example.com matches 2 resources now\n") {
		t.Errorf("validate ended with %d: %s%s", code, out, said)
	}
	all := r.rolesFor("some", "some")
	for _, rules := range all.rules() {
		for i := range *rules {
			if slices.Equal((*rules)[i].APIGroups, []string{"example.com"}) {
				(*rules)[i].Resources = []string{"gadgets"}
			}
		}
	}
	r.apply(all)
	r.runAs("some")
	r.awaitStory("default/a", "added")
	r.awaitStatus(http.StatusOK, "degraded: pipeline test: stream widgets.v1.example.com")
	r.awaitMetric(`stream_watching{pipeline="test",stream="widgets.v1.example.com"} 0`)
	r.bridge.stop()
	_, out, said = r.command("validate", "--cluster", "--config", r.config)
	if !strings.Contains(said, "may not list widgets.v1.example.com in all namespaces, which are left out until it may") ||
		!strings.Contains(out, "ok") {
		t.Errorf("validate says %s%s", out, said)
	}
	r.configure(`[{resource: "*.nothing.example.com"}]`)
	r.validates(0,
		`pipelines\[0\].resources\[0\].resource: \*.nothing.example.com selects nothing: it names nothing that the cluster has; what comes is read \(warning\)`)
	r.configure(`[{resource: "*.example.com", exclude: [gadgets, widgets.v1.example.com, things]}]`)
	r.validates(0,
		`pipelines\[0\].resources\[0\].resource: \*.example.com selects nothing: everything that it names is excluded; what comes is read \(warning\)`,
		`pipelines\[0\].resources\[0\].exclude\[2\]: things is nothing that \*.example.com names in the cluster now, so it leaves nothing out; .* \(warning\)`)
	assert.Equal(t, 1, strings.Count(r.bridge.stderr(), "stream waits"), "lines say that it waits")
}

// Everything is read once, what shows the same objects under two names too, and values of Secrets stay here.
func TestSelection_of_everything_has_each_object_once(t *testing.T) {
	rig.Parallel(t, rig.All)
	const canary = "c4n4ry-v4lu3"
	r := newRig(t,
		`[{resource: "*", exclude: [leases, "*.flowcontrol.apiserver.k8s.io"], ignoreChanges: [status]}, {resource: configmaps, namespaces: [default]}]`)
	r.namespace("web")
	b := r.runReady()
	must.Get(r.kube.CoreV1().Secrets("web").Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "s"}, StringData: map[string]string{"password": canary},
	}, metav1.CreateOptions{}))(t)
	must.Get(r.kube.CoreV1().Events("web").Create(t.Context(), &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e"}, InvolvedObject: corev1.ObjectReference{Namespace: "web", Name: "s"},
	}, metav1.CreateOptions{}))(t)
	r.configMap("web", "not-here", nil)
	r.configMap("default", "here", nil)
	r.awaitStory("web/s", "added")
	r.awaitStory("web/e", "added")
	r.awaitStory("default/here", "added")
	_, page := r.status("/")
	for part, want := range map[string]int{
		" pods.v1 ": 1, " events.v1 ": 1, "events.v1.events.k8s.io": 0, "leases": 0, "flowcontrol": 0, "configmaps": 1,
		"tokenreviews": 0,
		"customresourcedefinitions.v1.apiextensions.k8s.io": 1, " deployments.v1.apps ": 1,
	} {
		assert.Equal(t, want, strings.Count(page, part), "the page has %q too rarely or too often", part)
	}
	b.stop()
	checkpoint := must.Get(os.ReadFile(filepath.Join(r.dir, "data", "test.db")))(t)
	log := r.entries()
	for _, e := range log {
		assert.NotContains(t, string(e.data), canary, "the value of a Secret is in %s", e.id)
		assert.NotContains(t, string(e.data), "YzRuNHJ5LXY0bHUz", "the value of a Secret is in %s", e.id)
		assert.NotEqual(t, "web/not-here", e.key, "a resource that is named for one namespace is read in another")
	}
	assert.NotContains(t, string(checkpoint)+b.stderr(), canary,
		"the value of a Secret is in the checkpoint or in the log of the process")
	// Markers of resources have ids alike.
	mustBeUnique(t, slices.DeleteFunc(log, func(e entry) bool { return e.uid == "" }))
}

// A crash while a stream is ended, or goes on in another version, repeats nothing and leaves nothing out.
func TestSelection_survives_crashes_in_the_middle_of_changes(t *testing.T) {
	rig.Parallel(t, rig.All)
	const objects = 500
	r := newRig(t, `[{resource: "*.example.com"}]`)
	c := r.custom()
	both := []string{"v1beta1", "v1"}
	c.define("gadgets", both...)
	for i := range objects {
		c.make("gadgets", "v1", fmt.Sprint("g", i))
	}
	r.runReady()
	for n, version := range []string{"v1", "v1beta1", "v1"} { // the one that goes
		c.serve("gadgets", both, version)
		other := both[0]
		if version == other {
			other = both[1]
		}
		for range 5 {
			r.bridge.kill()
			r.run()
			r.poll("it to have begun", func() (bool, string) {
				return strings.Contains(r.bridge.stderr(),
					"read the end of the log"), ""
			})
		}
		c.change(other, "g7", n+1)
		r.await("the change", func(log []entry) bool { return count(log, "updated") == n+1 })
	}
	r.bridge.stop()
	c.undefine("gadgets")
	for range 5 {
		r.limit(objects / 5)
		r.run()
		r.killFull()
	}
	r.run()
	r.poll("the stream to be forgotten", func() (bool, string) {
		_, page := r.status("/")
		return strings.Contains(r.bridge.stderr(), "read the end of the log") && !strings.Contains(page, "gadgets"), page
	})
	r.bridge.stop()
	log := r.entries()
	if added, deleted := count(log, "added"), count(log, "deleted"); added != objects || deleted != objects {
		t.Errorf("%d were added and %d deleted, want %d of each", added, deleted, objects)
	}
	mustBeUnique(t, log)
	_, out, _ := r.command("checkpoint", "list", "--config", r.config)
	assert.NotContains(t, out, "gadgets", "the checkpoint has it still")
}
