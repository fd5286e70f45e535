// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// One release publishes, and another one keeps a copy of the first one's namespace in a namespace that is neither's.
func TestChart_installed_by_helm_keeps_a_copy_and_its_notes_hold(t *testing.T) {
	c := shared.get(t)
	from, to := c.newRelease(t, "published"), c.newRelease(t, "replica")
	from.set("east", "config", "cluster")
	from.helm("install")
	from.configMap("wire", "green")
	copies := to.namespace + "-copy"
	must.Get(c.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: copies}}, metav1.CreateOptions{}))(t)
	to.replicates(from, copies)
	notes := to.helm("install")
	to.awaitCopy(copies, "wire", "green")
	from.configMap("wire", "blue")
	to.awaitCopy(copies, "wire", "blue")
	require.NoError(t, c.kube.CoreV1().ConfigMaps(from.namespace).Delete(t.Context(), "wire", metav1.DeleteOptions{}))
	to.awaitCopy(copies, "wire", "")

	want := []string{"1/1     Running", "copy: "}
	for line := range strings.Lines(notes) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "kubectl ") {
			require.NotEmpty(t, want, "%s", line)
			to.prints(line, want[0])
			want = want[1:]
		}
	}
	require.Empty(t, want, "commands in the notes")
}

// replicates makes the release one that keeps the ConfigMaps of another one's namespace, with the rules that rbac
// prints.
func (r *release) replicates(from *release, copies string) {
	r.t.Helper()
	config := map[string]any{
		"cluster": "west", "server": map[string]any{"listen": ":8080"},
		"replicas": []any{map[string]any{
			"name": "copy",
			"from": map[string]any{
				"cluster": "east", "pipeline": "audit", "nats": map[string]any{"servers": []any{from.broker}},
			},
			"resources": []any{map[string]any{"resource": "configmaps", "namespaces": []any{from.namespace}}},
			"into":      map[string]any{"namespaces": map[string]any{from.namespace: copies}},
		}},
	}
	path := filepath.Join(r.t.TempDir(), "replica.yaml")
	require.NoError(r.t, os.WriteFile(path, must.Get(sigyaml.Marshal(config))(r.t), 0o600))
	rbac := exec.CommandContext(r.t.Context(), rig.ProgramForTest(r.t), "rbac", "--config", path, "--helm-values")
	rules := must.Get(rbac.Output())(r.t)
	require.NoError(r.t, sigyaml.Unmarshal(rules, &r.values))
	config["pipelines"] = nil // the chart's own values have one
	r.values["config"] = config
}

// awaitCopy waits until a ConfigMap has a colour, or is gone if that is empty.
func (r *release) awaitCopy(namespace, name, colour string) {
	r.t.Helper()
	rig.Poll(r.t, fmt.Sprintf("%s to be %q", name, colour), func() (bool, string) {
		got, err := r.kube.CoreV1().ConfigMaps(namespace).Get(r.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return colour == "" && apierrors.IsNotFound(err), err.Error()
		}
		return colour != "" && got.Data["colour"] == colour, fmt.Sprint(got.Data)
	})
}
