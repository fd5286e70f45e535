// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	applyapps "k8s.io/client-go/applyconfigurations/apps/v1"
	applycore "k8s.io/client-go/applyconfigurations/core/v1"
	applymeta "k8s.io/client-go/applyconfigurations/meta/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// namesOfWriters changes a Deployment in all ways in which an API server notes a writer, and in those in which it does
// not. An event that names a writer has the time of that writer's entry, and an event that names none has the time when
// it was read.
func namesOfWriters(t *testing.T, api *controlplane.ControlPlane) {
	const ns = "writers"
	programs := must.Get(controlplane.NodeBinaries(t.Context(), os.Stderr))(t)
	r := rigOn(t, api, `[{resource: deployments.apps, namespaces: [writers]}]`)
	r.namespace(ns)
	b := r.run()
	r.awaitOp("snapshot-completed", 1)
	deployments := r.kube.AppsV1().Deployments(ns)
	kubeconfig := must.Get(api.Kubeconfig(t.TempDir()))(t)
	told := 0
	publishes := func(what string, managers ...string) {
		t.Helper()
		told += len(managers)
		log := r.awaitStory(ns+"/web", strings.TrimSpace("added "+strings.Repeat("updated ", told-1)))
		log = slices.DeleteFunc(slices.Clone(log), func(e entry) bool { return e.key != ns+"/web" })
		for i, e := range log[told-len(managers):] {
			assert.Equal(t, managers[i], e.attribute("fieldmanager"), what)
			own := e.attribute("time") != e.attribute("recordedtime")
			assert.Equal(t, managers[i] != "", own, "%s at %s", what, e.attribute("time"))
		}
	}
	// Times in managedFields have whole seconds.
	nextSecond := func() {
		now := time.Now().Unix()
		must.Happen(t, "the next second", func() bool { return time.Now().Unix() > now })
	}

	web := applyapps.Deployment("web", ns).WithLabels(map[string]string{"a": "b"}).WithSpec(applyapps.DeploymentSpec().
		WithSelector(applymeta.LabelSelector().WithMatchLabels(map[string]string{"app": "web"})).
		WithTemplate(applycore.PodTemplateSpec().WithLabels(map[string]string{"app": "web"}).
			WithSpec(applycore.PodSpec().WithContainers(applycore.Container().WithName("c").WithImage("i")))))
	must.Get(deployments.Apply(t.Context(), web, metav1.ApplyOptions{FieldManager: "first"}))(t)
	publishes("the first state", "first")

	nextSecond()
	scale := exec.CommandContext(t.Context(), filepath.Join(programs, "kubectl"), "--kubeconfig", kubeconfig, "-n", ns,
		"scale", "deployment", "web", "--replicas=3")
	out, err := scale.CombinedOutput()
	require.NoError(t, err, string(out))
	publishes("kubectl scale", "")

	nextSecond()
	current := must.Get(deployments.GetScale(t.Context(), "web", metav1.GetOptions{}))(t)
	must.Get(deployments.UpdateScale(t.Context(), "web", &autoscalingv1.Scale{
		ObjectMeta: current.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: 5},
	}, metav1.UpdateOptions{FieldManager: "horizontal-pod-autoscaler"}))(t)
	publishes("an autoscaler", "")

	nextSecond()
	patch := func(manager, text string) {
		must.Get(deployments.Patch(t.Context(), "web", types.MergePatchType, []byte(text),
			metav1.PatchOptions{FieldManager: manager}))(t)
	}
	patch("second", `{"metadata":{"labels":{"c":"d"}}}`)
	publishes("another manager", "second")

	nextSecond()
	patch("third", `{"metadata":{"labels":{"a":null}}}`)
	publishes("a field of the first manager is removed", "")

	nextSecond()
	must.Get(deployments.Apply(t.Context(), web, metav1.ApplyOptions{FieldManager: "first"}))(t)
	publishes("the first manager applies again", "first")

	nextSecond()
	b.stop()
	for i := range 3 {
		patch(fmt.Sprintf("away-%d", i), fmt.Sprintf(`{"metadata":{"labels":{"away":"%d"}}}`, i))
		nextSecond()
	}
	b = r.run()
	publishes("writes during an outage", "away-0", "away-1", "away-2")
	require.NoError(t, deployments.Delete(t.Context(), "web", metav1.DeleteOptions{}))
	log := r.awaitStory(ns+"/web", "added "+strings.Repeat("updated ", told-1)+"deleted")
	assert.Empty(t, log[len(log)-1].attribute("fieldmanager"))
	b.stop()
}
