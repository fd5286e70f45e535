// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// crowd is a bridge with three pipelines for Deployments: of all, of two namespaces, and of all into a broker of its
// own.
type crowd struct {
	*fixture
	slow *fixture
}

func newCrowd(t *testing.T) *crowd {
	r := newRig(t, "")
	slow := &fixture{t: t, dir: r.dir}
	slow.connect()
	kubeconfig := must.Get(r.api.Kubeconfig(r.dir))(t)
	require.NoError(t, os.WriteFile(r.config, fmt.Appendf(nil, `
cluster: e2e
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: %s}
pipelines:
  - name: all
    resources: [{resource: deployments.apps}]
    sink: {nats: {servers: [%q], stream: KUBERNETES}}
  - name: some
    resources: [{resource: deployments, namespaces: [one, two]}]
    sink: {nats: {servers: [%[4]q], stream: SOME, subject: "some.{resource}.{namespace}.{name}"}}
  - name: slow
    resources: [{resource: deploy}]
    sink: {nats: {servers: [%[5]q], stream: KUBERNETES}}
    buffer: {maxBytes: 1Mi}
`, kubeconfig, filepath.Join(r.dir, "data"), r.server, r.broker.url(), slow.broker.url()), 0o600))
	return &crowd{r, slow}
}

// deploy makes a Deployment of some size, or changes it.
func (c *crowd) deploy(ns, name string, size, round int) {
	c.t.Helper()
	labels := map[string]string{"app": name}
	d := applyapps.Deployment(name, ns).WithAnnotations(map[string]string{"example.com/round": fmt.Sprint(round,
		strings.Repeat("x", size))}).
		WithSpec(applyapps.DeploymentSpec().WithReplicas(0).WithSelector(applymeta.LabelSelector().WithMatchLabels(labels)).
			WithTemplate(applycore.PodTemplateSpec().WithLabels(labels).WithSpec(applycore.PodSpec().
				WithContainers(applycore.Container().WithName("c").WithImage("example.com/c")))))
	_, err := c.kube.AppsV1().Deployments(ns).Apply(c.t.Context(), d,
		metav1.ApplyOptions{FieldManager: "test", Force: true})
	require.NoError(c.t, err)
}

// watches asks the API server how many watches for Deployments it serves.
func (c *crowd) watches() (n int) {
	c.t.Helper()
	return c.metric("apiserver_longrunning_requests", `resource="deployments"`, `verb="WATCH"`)
}

// awaitOneWatch changes something until all streams read the same watch.
func (c *crowd) awaitOneWatch() {
	c.t.Helper()
	round := 0
	c.poll("one watch at the API server", func() (bool, string) {
		round++
		c.deploy("one", "ticker", 0, round)
		n := c.watches()
		return n == 1, fmt.Sprintf("there are %d", n)
	})
}

// deployments are so many large ones in three namespaces.
type deployments int

func (d deployments) at(i int) (ns, name string) {
	return []string{"one", "two", "three"}[i%3], fmt.Sprint("d", i)
}

// told says that a log has all of it.
func (d deployments) told(want string) func([]entry) bool {
	return func(log []entry) bool {
		words := map[string]string{}
		for _, e := range log {
			words[e.key] = strings.TrimSpace(words[e.key] + " " + e.op)
		}
		for i := range int(d) {
			ns, name := d.at(i)
			if words[ns+"/"+name] != want {
				return false
			}
		}
		return true
	}
}

func TestBridge_with_several_pipelines_has_one_watch_for_a_resource(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	for _, ns := range []string{"one", "two", "three"} {
		c.namespace(ns)
	}
	c.slow.bridge = c.run()
	c.awaitStatus(200, "")
	// A stream that has published what it watched has a watch: before that, one may be all that there is yet.
	c.deploy("one", "ticker", 0, 0)
	watched := func(log []entry) bool { return story(log, "one/ticker") != "" }
	c.await("a watch of everything", watched)
	c.slow.await("a watch into a broker of its own", watched)
	c.poll("a watch of two namespaces", func() (bool, string) {
		return slices.ContainsFunc(c.messagesOf("SOME"), func(m rig.Message) bool { return entryOf(&m).key == "one/ticker" }),
			"it is not published"
	})
	c.awaitOneWatch()

	c.slow.broker.stop()
	const all = deployments(90)
	for i := range int(all) {
		ns, name := all.at(i)
		c.deploy(ns, name, 100<<10, 0)
	}
	c.await("all that was made while a broker is away", all.told("added"))
	c.poll("the pipeline whose broker is away to be detached", func() (bool, string) {
		const detached = `kube_eventbridge_watch_restarts_total{pipeline="slow",reason="detached",` +
			`stream="deployments.v1.apps"} `
		_, count, _ := strings.Cut(c.metrics(), detached)
		return count != "" && count[0] != '0', "it is not"
	})
	for i := range int(all) {
		ns, name := all.at(i)
		_, err := c.kube.AppsV1().Deployments(ns).Patch(t.Context(), name, types.MergePatchType,
			[]byte(`{"spec":{"paused":true}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	log := c.await("all that has changed while a broker is away", all.told("added updated"))
	c.slow.broker.start()
	c.slow.await("all, in the log of the one that was held up", all.told("added updated"))
	c.awaitOneWatch()
	gaps := count(log, "gap")
	assert.Equal(t, 0, gaps, "the log of the one that was not held up has %d gaps", gaps)
	c.bridge.stop() // what was read is published first
	some := 0
	for _, m := range c.messagesOf("SOME") {
		if e := entryOf(&m); strings.HasPrefix(e.key, "three/") {
			t.Errorf("%s is in a log that is not to have its namespace", e.key)
		} else if strings.Contains(e.key, "/d") {
			some++
		}
	}
	assert.Equal(t, 2*int(all)*2/3, some, "the log of two namespaces has %d events", some)
}

// metric sums the series of a metric of the API server that have all of some labels.
func (r *fixture) metric(name string, labels ...string) (sum int) {
	r.t.Helper()
	raw := must.Get(r.kube.RESTClient().Get().AbsPath("/metrics").DoRaw(r.t.Context()))(r.t)
	for line := range strings.Lines(string(raw)) {
		has := func(label string) bool { return strings.Contains(line, label) }
		if strings.HasPrefix(line, name+"{") && !slices.ContainsFunc(labels, func(l string) bool { return !has(l) }) {
			var n int
			must.Get(fmt.Sscan(line[strings.LastIndex(line, " "):], &n))(r.t)
			sum += n
		}
	}
	return sum
}

// A selector has many namespaces. They share one watch soon after a start. How many have one of their own for a moment
// depends on how busy the machine is.
func TestBridge_of_many_namespaces_has_one_watch_soon_after_a_start(t *testing.T) {
	t.Parallel()
	const namespaces = 200
	r := newRig(t, `[{resource: configmaps, namespaceSelector: team=a}]`)
	change := func(round int) {
		for n := range namespaces {
			ns := fmt.Sprint("n", n)
			cm := applycore.ConfigMap("a", ns).WithData(map[string]string{"round": fmt.Sprint(round)})
			_, err := r.kube.CoreV1().ConfigMaps(ns).Apply(t.Context(), cm, metav1.ApplyOptions{FieldManager: "test"})
			require.NoError(t, err)
		}
	}
	told := func(times int) {
		t.Helper()
		r.await(fmt.Sprint("everything ", times, " times"), func(log []entry) bool {
			n := 0
			for _, e := range log {
				if strings.HasSuffix(e.key, "/a") {
					n++
				}
			}
			return n == times*namespaces
		})
	}
	for n := range namespaces {
		ns := applycore.Namespace(fmt.Sprint("n", n)).WithLabels(map[string]string{"team": "a"})
		_, err := r.kube.CoreV1().Namespaces().Apply(t.Context(), ns, metav1.ApplyOptions{FieldManager: "test"})
		require.NoError(t, err)
	}
	narrow := func() int {
		return r.metric("apiserver_longrunning_requests", `resource="configmaps"`, `verb="WATCH"`, `scope="namespace"`)
	}
	others := narrow()
	shares := func() {
		t.Helper()
		t.Logf("%d watches of one namespace", narrow()-others)
		// A reader with a watch of its own leaves it at a bookmark, of which one comes each minute.
		require.Eventually(t, func() bool { return narrow() <= others }, 3*time.Minute, time.Second)
	}
	change(1)
	r.runReady()
	told(1)
	shares()
	r.bridge.stop()
	change(2)
	r.runReady()
	told(2)
	shares()
	require.NoError(t, r.api.KillAPIServer())
	require.NoError(t, r.api.StartAPIServer(t.Context()))
	change(3)
	told(3)
}
