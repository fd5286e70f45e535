// SPDX-License-Identifier: Apache-2.0

package monitoring

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var update = flag.Bool("update", false, "write the files again")

// What is in the repository is what this package says; make monitoring writes it.
func TestFiles_are_up_to_date(t *testing.T) {
	for path, write := range map[string]func() (string, error){
		"deploy/monitoring/rules.yaml":                                func() (string, error) { return Rules(Defaults(nil)) },
		"deploy/kustomize/components/monitoring/prometheusrule.yaml":  kustomized,
		"deploy/chart/kube-eventbridge/templates/prometheusrule.yaml": chart,
		"deploy/monitoring/dashboard.json":                            dashboard,
		"deploy/chart/kube-eventbridge/dashboard.json":                dashboard,
		"deploy/kustomize/components/dashboard/dashboard.json":        dashboard,
		"docs/metrics.md": func() (string, error) { return reference(), nil },
	} {
		want := must.Get(write())(t)
		file := filepath.Join("..", "..", path)
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
		}
		got := must.Get(os.ReadFile(file))(t)
		assert.Equal(t, []byte(want), got, "%s is not what this package says; write it with: make monitoring", path)
	}
}
