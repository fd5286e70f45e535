// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// TestAdoption_restarts_no_pod has a replica take over what was built in the target by other means, while controllers
// run there. Nodes do not: Pods stay as they were made.
func TestAdoption_restarts_no_pod(t *testing.T) {
	testtier.Needs(t, testtier.All)
	c := newClusters(t, "[{resource: configmaps}, {resource: services}, {resource: persistentvolumeclaims}, "+
		"{resource: deployments.apps}, {resource: statefulsets.apps}, {resource: replicasets.apps}, {resource: pods}]")
	runControllers(t, c.source)
	runControllers(t, c.target)
	from := must.Get(dynamic.NewForConfig(c.source.RESTConfig()))(t)
	to := must.Get(dynamic.NewForConfig(c.target.RESTConfig()))(t)
	for _, way := range []struct {
		name string
		// make makes an object as the tool does.
		make func(objects dynamic.ResourceInterface, o *unstructured.Unstructured) error
		// force: the replica takes fields from others.
		force bool
		// replicas are those of the Deployment in the target, before and after.
		replicas, after int64
	}{
		{"kubectl", clientSideApply(t), false, 2, 2},
		{"argocd", serverSideApply(t), false, 2, 2},
		{"velero", restore(t), false, 3, 3},
		{"velero-force", restore(t), true, 3, 2},
	} {
		t.Run(way.name, func(t *testing.T) {
			c := c.in(t)
			c.both(way.name)
			a := &adoption{clusters: c, ns: way.name, from: from, to: to}
			for _, o := range documents(t, "testdata/adoption.yaml") {
				object := &unstructured.Unstructured{Object: o}
				require.NoError(t, clientSideApply(t)(a.at(from, object.GetKind()), object.DeepCopy()))
				require.NoError(t, way.make(a.at(to, object.GetKind()), object.DeepCopy()))
			}
			a.adopts(way.force, way.replicas, way.after)
		})
	}
}

// runControllers makes ReplicaSets and Pods of what a cluster has.
func runControllers(t *testing.T, c *controlplane.ControlPlane) {
	t.Helper()
	program, err := controlplane.ControllerManager(t.Context(), os.Stderr)
	if errors.Is(err, controlplane.ErrUnavailable) {
		testtier.Missing(t, fmt.Sprintf("a controller manager: %v", err))
	}
	require.NoError(t, err)
	rig.StartBridge(t, "", exec.Command(program, "--kubeconfig="+must.Get(c.Kubeconfig(t.TempDir()))(t),
		"--controllers=deployment-controller,replicaset-controller,statefulset-controller",
		"--leader-elect=false", "--secure-port=0"))
}

// clientSideApply is kubectl apply.
func clientSideApply(t *testing.T) func(dynamic.ResourceInterface, *unstructured.Unstructured) error {
	return func(objects dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		applied := must.Get(json.Marshal(o.Object))(t)
		o.SetAnnotations(map[string]string{"kubectl.kubernetes.io/last-applied-configuration": string(applied) + "\n"})
		_, err := objects.Create(t.Context(), o, metav1.CreateOptions{FieldManager: "kubectl-client-side-apply"})
		return err
	}
}

// serverSideApply is what Argo CD does with ServerSideApply=true.
func serverSideApply(t *testing.T) func(dynamic.ResourceInterface, *unstructured.Unstructured) error {
	return func(objects dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		o.SetAnnotations(map[string]string{"argocd.argoproj.io/tracking-id": "shop:" + o.GetName()})
		_, err := objects.Apply(t.Context(), o.GetName(), o, metav1.ApplyOptions{FieldManager: "argocd-controller", Force: true})
		return err
	}
}

// restore is what Velero does: it creates objects, with labels of its own. Here the backup is older than the source.
func restore(t *testing.T) func(dynamic.ResourceInterface, *unstructured.Unstructured) error {
	return func(objects dynamic.ResourceInterface, o *unstructured.Unstructured) error {
		labels := o.GetLabels()
		if labels == nil {
			labels = make(map[string]string)
		}
		labels["velero.io/backup-name"], labels["velero.io/restore-name"] = "nightly", "nightly-1"
		o.SetLabels(labels)
		o.SetAnnotations(map[string]string{"example.com/restored": "yes"})
		switch o.GetKind() {
		case "Deployment":
			spec, _ := o.Object["spec"].(map[string]any)
			spec["replicas"], spec["revisionHistoryLimit"] = int64(3), int64(2)
		case "PersistentVolumeClaim":
			spec, _ := o.Object["spec"].(map[string]any)
			spec["volumeName"], spec["storageClassName"] = "restored", "fast"
		}
		_, err := objects.Create(t.Context(), o, metav1.CreateOptions{FieldManager: "velero-server"})
		return err
	}
}

// adoption is of a namespace.
type adoption struct {
	*clusters
	ns       string
	from, to *dynamic.DynamicClient
}

var adoptedKinds = map[string]schema.GroupVersionResource{
	"ConfigMap": {Version: "v1", Resource: "configmaps"}, "Service": {Version: "v1", Resource: "services"},
	"PersistentVolumeClaim": {Version: "v1", Resource: "persistentvolumeclaims"},
	"Pod":                   {Version: "v1", Resource: "pods"},
	"Deployment":            {Group: "apps", Version: "v1", Resource: "deployments"},
	"StatefulSet":           {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"ReplicaSet":            {Group: "apps", Version: "v1", Resource: "replicasets"},
}

func (a *adoption) at(c *dynamic.DynamicClient, kind string) dynamic.ResourceInterface {
	return c.Resource(adoptedKinds[kind]).Namespace(a.ns)
}

// list returns the target's objects of a kind.
func (a *adoption) list(kind string) []unstructured.Unstructured {
	a.t.Helper()
	return must.Get(a.at(a.to, kind).List(a.t.Context(), metav1.ListOptions{}))(a.t).Items
}

// objects returns how the target has what a replica takes over.
func (a *adoption) objects() map[string]*unstructured.Unstructured {
	a.t.Helper()
	all := make(map[string]*unstructured.Unstructured)
	for kind := range adoptedKinds {
		for _, o := range a.list(kind) {
			if metav1.GetControllerOf(&o) == nil {
				all[kind+"/"+o.GetName()] = &o
			}
		}
	}
	return all
}

// identities returns the uids of the target's objects of a kind, by name.
func (a *adoption) identities(kind string) map[string]types.UID {
	a.t.Helper()
	all := make(map[string]types.UID)
	for _, o := range a.list(kind) {
		all[o.GetName()] = o.GetUID()
	}
	return all
}

// controlled waits until the controllers of the target have done what they do.
func (a *adoption) controlled(replicas int64) {
	a.t.Helper()
	rig.Poll(a.t, "Pods", func() (bool, string) {
		deployment := must.Get(a.at(a.to, "Deployment").Get(a.t.Context(), "web", metav1.GetOptions{}))(a.t)
		set := must.Get(a.at(a.to, "StatefulSet").Get(a.t.Context(), "db", metav1.GetOptions{}))(a.t)
		pods := a.list("Pod")
		made, _, _ := unstructured.NestedInt64(deployment.Object, "status", "replicas")
		ready := observed(deployment) && observed(set) && made == replicas && int64(len(pods)) == replicas+1
		return ready, fmt.Sprint(len(pods), " Pods: ", deployment.Object["status"], set.Object["status"])
	})
}

func observed(o *unstructured.Unstructured) bool {
	generation, _, _ := unstructured.NestedInt64(o.Object, "status", "observedGeneration")
	return generation == o.GetGeneration()
}

// managed returns what the managers of an object own of it, without its status.
func managed(o *unstructured.Unstructured) (all []metav1.ManagedFieldsEntry) {
	return slices.DeleteFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Subresource != "" })
}

func (a *adoption) replica(change func(*replica.Config)) (*replica.Replica, func()) {
	a.t.Helper()
	var entries []selection.Entry
	for _, r := range adoptedKinds {
		entries = append(entries, a.entry(r.Group, r.Resource, clean.Config{Owned: clean.Skip}, a.ns))
	}
	cfg := a.replicaConfig(a.ns, entries...)
	change(&cfg)
	return a.clusters.replicate(cfg)
}

func (a *adoption) adopts(force bool, replicas, after int64) {
	t := a.t
	a.controlled(replicas)
	c := a.clusters
	rig.Poll(t, "a source with all that its controllers make", func() (bool, string) {
		pods := must.Get(a.at(a.from, "Pod").List(t.Context(), metav1.ListOptions{}))(t).Items
		return len(pods) == 3, fmt.Sprint(len(pods))
	})
	for _, o := range must.Get(a.at(a.from, "Pod").List(t.Context(), metav1.ListOptions{}))(t).Items {
		c.logged(o.GetName(), "added")
	}
	before := a.objects()
	pods, sets := a.identities("Pod"), a.identities("ReplicaSet")
	require.Len(t, sets, 1)

	// Without more it is told, and left.
	r, stop := a.replica(func(*replica.Config) {})
	parked(t, r, "exists", len(before))
	stop()
	for name, o := range a.objects() {
		assert.Equal(t, before[name].GetGeneration(), o.GetGeneration(), name)
		assert.NotContains(t, o.GetLabels(), clean.Label, name)
	}

	adopts := func(cfg *replica.Config) { cfg.Existing, cfg.Force = plan.Adopt, force }
	r, stop = a.replica(adopts)
	rig.Poll(t, "objects of the replica", func() (bool, string) {
		for name, o := range a.objects() {
			if o.GetLabels()[clean.Label] != a.ns {
				return false, fmt.Sprint(name, reported(r))
			}
		}
		return true, ""
	})
	settled(t, r)
	a.controlled(after)
	adopted := a.objects()
	for name, o := range adopted {
		assert.Equal(t, a.ns, o.GetLabels()[clean.Label], name)
		assert.Equal(t, before[name].GetUID(), o.GetUID(), name)
		assert.NotContains(t, o.GetAnnotations(), "kubectl.kubernetes.io/last-applied-configuration", name)
		if changes := name == "Deployment/web" && replicas != after; !changes {
			assert.Equal(t, before[name].Object["spec"], o.Object["spec"], name)
			generation := before[name].GetGeneration()
			if o.GetKind() == "Deployment" {
				generation++ // the API server counts its annotations, too
			}
			assert.Equal(t, generation, o.GetGeneration(), name)
		}
	}
	assert.Len(t, adopted, len(before))
	assert.Equal(t, sets, a.identities("ReplicaSet"))
	for name, uid := range a.identities("Pod") {
		assert.Equal(t, pods[name], uid, name)
	}
	if left := reported(r); replicas == after && replicas != 2 {
		require.Len(t, left, 1, "the fields that another manager has")
		assert.Equal(t, "web conflict", left[0].Name+" "+string(left[0].Reason))
	} else {
		assert.Empty(t, left)
	}
	stop()

	// Started again, it writes nothing. Then the objects follow the source.
	r, _ = a.replica(adopts)
	settled(t, r)
	for name, o := range a.objects() {
		assert.Equal(t, managed(adopted[name]), managed(o), name)
	}
	_, err := a.at(a.from, "Deployment").Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"changed":"yes"}},"spec":{"template":{"metadata":{"labels":{"version":"2"}}}}}`),
		metav1.PatchOptions{})
	require.NoError(t, err)
	rig.Poll(t, "a second ReplicaSet", func() (bool, string) {
		names := fmt.Sprint(a.identities("ReplicaSet"))
		return strings.Count(names, "web-") == 2, names
	})
}
