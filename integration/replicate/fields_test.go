// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
)

// Who owns which fields of a Deployment, across what changes in the source, in the file and in the target.
func TestReplica_owns_the_fields_that_it_writes(t *testing.T) {
	target := controlplane.ForTest(t, controlplane.Config{})
	to := must.Get(kubernetes.NewForConfig(target.RESTConfig()))(t)
	n := 0
	for name, test := range map[string]func(*written){
		"what was replaced loses what the source has no more": (*written).replacedThenApplied,
		"by force, too": (*written).replacedThenForced,
		"fields of a status that others own stay theirs":              (*written).yieldsStatus,
		"a field that is ignored later stays":                         (*written).ignoresLater,
		"a field that is ignored stays when the object is taken over": (*written).adoptsIgnored,
	} {
		t.Run(name, func(t *testing.T) {
			n++
			ns := fmt.Sprintf("f%d", n)
			namespace(t, to, ns)
			test(&written{clusters: clusters{t: t, target: target, to: to}, log: &replicatest.Log{}, ns: ns})
		})
	}
}

// deployment tells a state of the Deployment web. Env are the variables of its container, and spec are other members.
func (w *written) deployment(version uint64, annotations, spec, env string) replicatest.Event {
	e := is(w.ns, "web", "", 1, version)
	e.More = map[string]string{
		"source": "/clusters/east/apis/apps/v1/deployments", "apiversion": "apps/v1", "kind": "Deployment",
		"resource": "deployments",
	}
	e.Data = fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":%q,"uid":%q,`+
		`"annotations":{%s}},"spec":{"selector":{"matchLabels":{"app":"a"}},%s"template":{"metadata":{"labels":{"app":"a"}},`+
		`"spec":{"containers":[{"name":"c","image":"i:%d","env":[%s]}]}}}}`, w.ns, e.UID, annotations, spec, version, env)
	return e
}

// runDeployments replicates Deployments of the log.
func (w *written) runDeployments(rules clean.Config, change func(*replica.Config)) (*replica.Replica, func()) {
	cfg := w.replicaConfig(w.ns, w.entry("apps", "deployments", rules, w.ns))
	cfg.OpenLog = func(bool) (replica.Log, error) { return w.log, nil }
	if change != nil {
		change(&cfg)
	}
	return w.replicate(cfg)
}

// awaitImage waits until the target has a version of the Deployment, and returns it.
func (w *written) awaitImage(r *replica.Replica, version int) (d *appsv1.Deployment) {
	w.t.Helper()
	rig.Poll(w.t, fmt.Sprintf("image i:%d", version), func() (bool, string) {
		var err error
		d, err = w.to.AppsV1().Deployments(w.ns).Get(w.t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return false, fmt.Sprint(err, r.Waiting(10))
		}
		image := d.Spec.Template.Spec.Containers[0].Image
		return image == fmt.Sprintf("i:%d", version), fmt.Sprint(image, r.Waiting(10))
	})
	return d
}

func (w *written) replacedThenApplied() { w.replaced(false) }

func (w *written) replacedThenForced() { w.replaced(true) }

// replaced has an object that apply cannot carry, as it has a variable twice, and later one that it can.
func (w *written) replaced(force bool) {
	w.log.Append(w.deployment(10, `"gone":"x","stays":"y"`, "", `{"name":"A","value":"1"},{"name":"A","value":"2"}`))
	r, _ := w.runDeployments(clean.Config{}, func(c *replica.Config) { c.Force = force })
	d := w.awaitImage(r, 10)
	assert.Equal(w.t, "x", d.Annotations["gone"])
	settled(w.t, r)
	w.log.Append(w.deployment(11, `"stays":"y"`, "", `{"name":"A","value":"1"}`))
	d = w.awaitImage(r, 11)
	assert.NotContains(w.t, d.Annotations, "gone")
	assert.Equal(w.t, "y", d.Annotations["stays"])
	assert.Len(w.t, d.Spec.Template.Spec.Containers[0].Env, 1)
}

func (w *written) yieldsStatus() {
	status := func(version uint64, replicas int) replicatest.Event {
		e := w.deployment(version, `"a":"b"`, "", "")
		e.Data = strings.TrimSuffix(e.Data, "}") + fmt.Sprintf(`,"status":{"replicas":%d,"observedGeneration":1}}`, replicas)
		return e
	}
	w.log.Append(status(10, 3))
	r, _ := w.runDeployments(clean.Config{Status: true}, nil)
	w.awaitImage(r, 10)
	settled(w.t, r)
	_, err := w.to.AppsV1().Deployments(w.ns).Patch(w.t.Context(), "web", types.MergePatchType,
		[]byte(`{"status":{"observedGeneration":7}}`), metav1.PatchOptions{FieldManager: "controller"}, "status")
	require.NoError(w.t, err)
	w.log.Append(status(11, 5))
	rig.Poll(w.t, "the status", func() (bool, string) {
		now := w.awaitImage(r, 11).Status
		return now.Replicas == 5, fmt.Sprintf("%+v", now)
	})
	assert.EqualValues(w.t, 7, w.awaitImage(r, 11).Status.ObservedGeneration)
	rig.Poll(w.t, "the replica tells what was left", func() (bool, string) {
		all := r.Waiting(10)
		return len(all) == 1 && all[0].Reason == "conflict" && strings.Contains(all[0].Detail, "observedGeneration"),
			fmt.Sprint(all)
	})
}

func (w *written) ignoresReplicas() clean.Config {
	return clean.Config{Ignore: []jsonscan.Path{must.Get(jsonscan.ParsePath("spec.replicas"))(w.t)}}
}

func (w *written) ignoresLater() {
	w.log.Append(w.deployment(10, `"a":"b"`, `"replicas":5,`, ""))
	r, stop := w.runDeployments(clean.Config{}, nil)
	w.awaitImage(r, 10)
	settled(w.t, r)
	stop()
	r, _ = w.runDeployments(w.ignoresReplicas(), nil)
	settled(w.t, r)
	assert.EqualValues(w.t, 5, *w.awaitImage(r, 10).Spec.Replicas)
	w.log.Append(w.deployment(11, `"a":"b"`, `"replicas":5,`, ""))
	assert.EqualValues(w.t, 5, *w.awaitImage(r, 11).Spec.Replicas)
	w.scale(7)
	settled(w.t, r)
	w.log.Append(w.deployment(12, `"a":"b"`, `"replicas":5,`, ""))
	assert.EqualValues(w.t, 7, *w.awaitImage(r, 12).Spec.Replicas, "it belongs to the target")
}

// scale is what an autoscaler of the target does.
func (w *written) scale(replicas int) {
	_, err := w.to.AppsV1().Deployments(w.ns).Patch(w.t.Context(), "web", types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas), metav1.PatchOptions{FieldManager: "autoscaler"})
	require.NoError(w.t, err)
}

// adoptsIgnored takes over what kubectl has once applied on its own side.
func (w *written) adoptsIgnored() {
	there := &appsv1.Deployment{}
	there.Name = "web"
	there.Spec.Replicas = new(int32)
	*there.Spec.Replicas = 5
	there.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	there.Spec.Template.Labels = map[string]string{"app": "a"}
	there.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "i:9"}}
	_, err := w.to.AppsV1().Deployments(w.ns).Create(w.t.Context(), there,
		metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
	require.NoError(w.t, err)
	w.log.Append(w.deployment(10, `"a":"b"`, `"replicas":2,`, ""))
	r, _ := w.runDeployments(w.ignoresReplicas(), func(c *replica.Config) { c.Existing, c.Force = plan.Adopt, true })
	assert.EqualValues(w.t, 5, *w.awaitImage(r, 10).Spec.Replicas)
	settled(w.t, r)
	w.log.Append(w.deployment(11, `"a":"b"`, `"replicas":2,`, ""))
	assert.EqualValues(w.t, 5, *w.awaitImage(r, 11).Spec.Replicas)
}
