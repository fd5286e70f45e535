// SPDX-License-Identifier: Apache-2.0

package node

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStatefulSet_that_is_killed_goes_on_with_its_volume(t *testing.T) {
	r := shared.get(t).newRelease(t, "kept")
	r.volume()
	r.set(true, "persistence", "enabled")
	pipeline := r.values["config"].(map[string]any)["pipelines"].([]any)[0].(map[string]any)
	pipeline["sink"] = map[string]any{"embedded": map[string]any{"maxAge": "168h"}}
	delete(pipeline, "checkpoint")
	r.helm("install")
	r.configMap("kept", "green")
	r.eventually("the first version in the log", func() bool { return slices.Contains(r.tail(), "added "+r.namespace+"/kept") })
	before := r.tail()

	pod := r.pods()[0]
	r.kubectl("delete", "pod", pod.Name, "--grace-period=0", "--force")
	r.configMap("kept", "blue")
	r.eventually("another Pod", func() bool {
		pods := r.pods()
		return len(pods) == 1 && pods[0].UID != pod.UID && len(pods[0].Status.ContainerStatuses) == 1 && pods[0].Status.ContainerStatuses[0].Ready
	})
	r.eventually("the second version in the log", func() bool { return slices.Contains(r.tail(), "updated "+r.namespace+"/kept") })
	after := r.tail()
	assert.Equal(t, before, after[:len(before)],
		"the log had\n%s\nand has\n%s", strings.Join(before, "\n"), strings.Join(after, "\n"))
	for _, e := range after[len(before):] {
		if strings.HasPrefix(e, "snapshot") || strings.HasPrefix(e, "gap") || e == "added "+r.namespace+"/kept" {
			t.Errorf("there is a %s after the restart", e)
		}
	}
}

// volume makes one on the node, of no class, which belongs to root as that of a provisioner does.
func (r *release) volume() {
	r.t.Helper()
	dir := filepath.Join(state, r.namespace)
	require.NoError(r.t, os.Mkdir(dir, 0o755))
	_, err := r.kube.CoreV1().PersistentVolumes().Create(r.t.Context(), &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: r.namespace},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("8Gi")},
			AccessModes:            []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: dir}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{nodeName}}},
			}}}},
		},
	}, metav1.CreateOptions{})
	require.NoError(r.t, err)
}

// tail returns what has happened to which object, in the log that the bridge itself has.
func (r *release) tail() []string {
	r.t.Helper()
	out, err := r.command(r.t.Context(), "kubectl", "-n", r.namespace, "exec", "statefulset/kube-eventbridge", "--",
		"kube-eventbridge", "tail", "--config", "/etc/kube-eventbridge/bridge.yaml", "--from-start", "--follow=false", "-o", "json")
	if err != nil {
		return nil // there may be no Pod now
	}
	var log []string
	for line := range strings.Lines(out) {
		var e struct{ Type, Subject string }
		require.NoError(r.t, json.Unmarshal([]byte(line), &e))
		parts := strings.Split(e.Type, ".")
		log = append(log, strings.TrimSpace(parts[len(parts)-2]+" "+e.Subject))
	}
	return log
}
