// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// overlays are the repository's, and the kinds of their workloads.
var overlays = map[string]string{"nats": "Deployment", "kafka": "Deployment", "embedded": "StatefulSet"}

func ofKustomize(t *testing.T, c *cluster) {
	for name, kind := range overlays {
		t.Run(name, func(t *testing.T) {
			m := overlay(t, name, "monitoring", "dashboard", "network-policy")
			m.only(t, kind)
			c.takes(t, m)
			command(t, "validate", "--config", file(t, m.configuration(t)))
			allowsWhatIsNeeded(t, m)
		})
	}
	isMounted(t, overlay(t, "embedded").pod(t), "/var/lib/kube-eventbridge")
	t.Run("a Pod that is not restricted is refused", func(t *testing.T) {
		pod := overlay(t, "nats").pod(t)
		pod.Spec.Containers[0].SecurityContext = nil
		if err := c.create(t, pod); err == nil || !strings.Contains(err.Error(), "restricted") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("for two namespaces", func(t *testing.T) {
		m := rewritten(t, mustChart(t, "kube-eventbridge", inNamespaces+"rbac: {create: false}\n").configuration(t))
		allowsWhatIsNeeded(t, m)
		c.takes(t, m)
		c.runs(t, m)
	})
}

// allowsWhatIsNeeded compares the roles with what rbac prints for the configuration.
func allowsWhatIsNeeded(t *testing.T, m manifests) {
	t.Helper()
	pod := m.pod(t)
	want := decode(t, []byte(command(t, "rbac", "--config", file(t, m.configuration(t)),
		"--service-account", pod.Spec.ServiceAccountName, "--service-account-namespace", pod.Namespace)))
	for _, kind := range []string{"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"} {
		var got, needed []string
		for _, o := range m.of(kind) {
			got = append(got, allowed(t, o))
		}
		for _, o := range want.of(kind) {
			needed = append(needed, allowed(t, o))
		}
		if a, b := strings.Join(got, "\n"), strings.Join(needed, "\n"); a != b {
			t.Errorf("%s: there is\n%s\nand rbac prints\n%s", kind, a, b)
		}
	}
}

func isMounted(t *testing.T, pod *corev1.Pod, path string) {
	t.Helper()
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.MountPath == path && !m.ReadOnly {
			return
		}
	}
	t.Errorf("nothing that can be written is mounted at %s", path)
}
