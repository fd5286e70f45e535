// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// print runs the bridge without a file or a broker, and returns where it prints.
func (r *fixture) print(format string) (file string) {
	r.t.Helper()
	kubeconfig := must.Get(r.api.Kubeconfig(r.dir))(r.t)
	out := must.Get(os.CreateTemp(r.dir, "printed-*"))(r.t)
	defer func() { _ = out.Close() }()
	r.start(out, "run", "configmaps", "-n", "default", "-o", format, "--kubeconfig", kubeconfig, "--data-dir", filepath.Join(r.dir, "data"), "--listen", r.server)
	return out.Name()
}

// awaitLine waits for a line that has all of words, in their order, and returns all lines.
func (r *fixture) awaitLine(file string, words ...string) (lines []string) {
	r.t.Helper()
	r.poll("a line with "+strings.Join(words, " "), func() (bool, string) {
		text := must.Get(os.ReadFile(file))(r.t)
		lines = strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		for _, l := range lines {
			if inOrder(l, words) {
				return true, ""
			}
		}
		return false, string(text)
	})
	return lines
}

func inOrder(line string, words []string) bool {
	for _, w := range words {
		_, after, found := strings.Cut(line, w)
		if !found {
			return false
		}
		line = after
	}
	return true
}

func TestRun_prints_events_for_a_person_and_goes_on_where_it_was(t *testing.T) {
	t.Parallel()
	r := bareRig(t, controlplane.ForTest(t, controlplane.Config{}))
	r.configMap("default", "first", nil)
	file := r.print("wide")
	r.awaitLine(file, "stdout", "snapshot", "configmaps.v1", "default/*", "this was what existed at")
	r.patch("default", "first", `{"data":{"colour":"blue"}}`)
	r.patch("default", "first", `{"data":{"colour":"green"}}`)
	r.remove("default", "first")
	lines := r.awaitLine(file, "stdout", "deleted", "watch", "configmaps.v1", "default/first")
	for i, want := range [][]string{
		{"TIME", "SEQ", "PIPELINE", "OP", "REASON", "RESOURCE", "OBJECT", "VERSION", "MANAGER", "UID", "WHAT"},
		{"stdout", "snapshot", "configmaps.v1", "default/*"},
		{"stdout", "added", "snapshot", "configmaps.v1", "default/first"},
		{"stdout", "snapshot", "configmaps.v1", "default/*"},
		{"stdout", "updated", "watch", "configmaps.v1", "default/first"},
		{"stdout", "updated", "watch", "configmaps.v1", "default/first", "data.colour blue→green"},
		{"stdout", "deleted", "watch", "configmaps.v1", "default/first"},
	} {
		assert.Less(t, i, len(lines), "line %d of %q does", i+1, lines)
		assert.True(t, inOrder(lines[i], want), "line %d of %q does", i+1, lines)
	}
	r.bridge.stop()

	// What happens while nobody looks is told the next time, and nothing else.
	r.configMap("default", "second", nil)
	file = r.print("json")
	lines = r.awaitLine(file, "default/second")
	r.bridge.stop()
	var event struct{ Specversion, Type, Subject string }
	if err := json.Unmarshal([]byte(lines[0]), &event); err != nil || len(lines) != 1 || event.Specversion != "1.0" || event.Type != "io.kube-eventbridge.resource.added.v1" {
		t.Errorf("the lines are %q, %v", lines, err)
	}
}

func TestAsyncAPI_looks_names_up_in_the_cluster(t *testing.T) {
	t.Parallel()
	r := rigOn(t, controlplane.ForTest(t, controlplane.Config{}), `[{resource: deploy}, {resource: cm, namespaces: [shop]}]`)
	code, _, said := r.command("asyncapi", "--config", r.config)
	assert.Equal(t, 2, code, "without a cluster it ends")
	assert.Contains(t, said, "--kubeconfig", "without a cluster it ends")
	code, out, said := r.command("asyncapi", "--config", r.config, "--kubeconfig", filepath.Join(r.dir, "kubeconfig"))
	require.Equal(t, 0, code, "it ends")
	require.Empty(t, said, "it ends")
	for _, want := range []string{"k8s.e2e.apps.deployments.{namespace}.{name}", "const: /clusters/e2e/apis/apps/v1/deployments\n", "const: /clusters/e2e/api/v1/configmaps\n"} {
		assert.Contains(t, out, want)
	}
}
