// SPDX-License-Identifier: Apache-2.0

package node

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestChart_installed_by_helm_publishes_and_says_so(t *testing.T) {
	r := shared.get(t).newRelease(t, "installed")
	r.helm("install")
	r.awaitVersion("wire", r.configMap("wire", "green"))
	r.awaitVersion("wire", r.configMap("wire", "blue"))

	pods := r.pods()
	if len(pods) != 1 || pods[0].Status.QOSClass != corev1.PodQOSBurstable || pods[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("there are the Pods %+v", pods)
	}
	if got := r.kubectl("exec", "deploy/kube-eventbridge", "--", "/kube-eventbridge", "status"); !strings.HasPrefix(got, "All 3 streams are live\n") {
		t.Errorf("status says\n%s", got)
	}
	if got := r.kubectl("exec", "deploy/kube-eventbridge", "--", "kube-eventbridge", "tail", "--config", "/etc/kube-eventbridge/bridge.yaml", "--from-start", "--follow=false"); !strings.Contains(got, "wire") {
		t.Errorf("tail says\n%s", got)
	}
}
