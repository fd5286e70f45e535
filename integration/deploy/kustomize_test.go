// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// overlays are the repository's, and the kinds of their workloads.
var overlays = map[string]string{"nats": "Deployment", "kafka": "Deployment", "embedded": "StatefulSet"}

func TestKustomize(t *testing.T) {
	bin := binary(t)
	c := newCluster(t)
	c.namespace(t, "kube-eventbridge")
	for name, kind := range overlays {
		t.Run(name, func(t *testing.T) {
			m := overlay(t, name, "monitoring", "dashboard", "network-policy")
			m.only(t, kind)
			c.takes(t, m)
			command(t, bin, "validate", "--config", file(t, m.configuration(t)))
			allowsWhatIsNeeded(t, bin, m)
		})
	}
	t.Run("a Pod that is not restricted is refused", func(t *testing.T) {
		pod := overlay(t, "nats").pod(t)
		pod.Spec.Containers[0].SecurityContext = nil
		if err := c.create(t, pod); err == nil || !strings.Contains(err.Error(), "restricted") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("the bridge runs with nats", func(t *testing.T) {
		m, address := overlay(t, "nats"), freeAddress(t)
		config := file(t, m.configuration(t), "nats://nats.nats.svc:4222", broker(t), `":8080"`, address)
		runs(t, bin, m.pod(t), c.grant(t, m), config, address)
	})
	t.Run("the bridge runs with embedded", func(t *testing.T) {
		m, address := overlay(t, "embedded"), freeAddress(t)
		isMounted(t, m.pod(t), "/var/lib/kube-eventbridge")
		config := file(t, m.configuration(t), "embedded: {", "embedded: {listen: "+freeAddress(t)+", ", "/var/lib/kube-eventbridge", t.TempDir(), `":8080"`, address)
		runs(t, bin, m.pod(t), c.grant(t, m), config, address)
	})
}

// allowsWhatIsNeeded compares the roles with what rbac prints for the configuration.
func allowsWhatIsNeeded(t *testing.T, bin string, m manifests) {
	t.Helper()
	pod := m.pod(t)
	want := decode(t, []byte(command(t, bin, "rbac", "--config", file(t, m.configuration(t)),
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
