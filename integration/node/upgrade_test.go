// SPDX-License-Identifier: Apache-2.0

package node

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stretchr/testify/require"
)

func TestBridge_reads_what_an_upgrade_changes_in_its_ConfigMap_and_is_not_restarted(t *testing.T) {
	r := shared.get(t).newRelease(t, "upgraded")
	r.helm("install")
	pod := r.pods()[0]
	_, err := r.kube.CoreV1().Services(r.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "added"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	pipeline := r.values["config"].(map[string]any)["pipelines"].([]any)[0].(map[string]any)
	pipeline["resources"] = append(pipeline["resources"].([]any), map[string]any{"resource": "services"})
	rbac := r.values["rbac"].(map[string]any)
	rbac["rules"] = append(rbac["rules"].([]any), map[string]any{"apiGroups": []any{""}, "resources": []any{"services"}, "verbs": []any{"list", "watch"}})
	r.helm("upgrade")
	began := time.Now()
	r.eventually("the Service in the log", func() bool {
		for _, e := range r.events() {
			if e.kind == "Service" && e.key == "added" {
				return true
			}
		}
		return false
	})
	t.Logf("the change was read %s after helm upgrade", time.Since(began).Round(100*time.Millisecond))
	after := r.pods()
	if len(after) != 1 || after[0].UID != pod.UID || after[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("%s is not what runs any more: %+v", pod.Name, after)
	}
	r.prints("kubectl -n "+r.namespace+" exec deployment/kube-eventbridge -- kube-eventbridge status", "All 4 streams are live\n")

	r.set("another", "config", "cluster")
	r.helm("upgrade")
	if after := r.pods(); len(after) != 1 || after[0].UID == pod.UID {
		t.Errorf("what takes a restart leaves the Pod %s", pod.Name)
	}
}
