// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// buildsHelm writes what go install writes, which says no path.
const buildsHelm = `[ -n "$out" ] || out=$GOBIN/helm; ` + buildsWell

func TestNodeBinaries_are_built_whatever_KUBEBUILDER_ASSETS_says(t *testing.T) {
	cache, builds := fakeGo(t, buildsHelm)
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	var log strings.Builder
	dir := must.Get(NodeBinaries(t.Context(), &log))(t)
	require.True(t, strings.HasPrefix(dir, cache), "got %q", dir)
	for _, name := range []string{"kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl", "helm"} {
		assert.NoError(t, isProgram(filepath.Join(dir, name)))
	}
	if _, err := NodeBinaries(t.Context(), nil); err != nil {
		t.Error(err)
	}
	built, err := os.ReadFile(builds)
	if err != nil || strings.Count(string(built), "\n") != 6 || !strings.Contains(string(built), "helm.sh/helm/v4/cmd/helm@v4.") {
		t.Errorf("built %q, %v, want six programs once", built, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*.bin")); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}
