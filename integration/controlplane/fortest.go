// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// BinariesForTest is [Binaries] for a test, which is skipped as [ForTest] says.
func BinariesForTest(t testing.TB) string {
	t.Helper()
	testtier.Servers(t)
	dir, err := Binaries(t.Context(), os.Stderr)
	if errors.Is(err, ErrUnavailable) {
		testtier.Missing(t, fmt.Sprintf("a real API server: %v", err))
	}
	return must.Get(dir, err)(t)
}

// ForTest returns a control plane that is closed when the test ends. With go test -short, and where its binaries cannot
// be built, the test is skipped with the reason; in the second case it fails if the environment variable CI is set. If
// the test fails, the end of what the two processes printed is in its log, unless cfg.Log has it. Progress of a build
// goes to stderr.
func ForTest(t testing.TB, cfg Config) *ControlPlane {
	t.Helper()
	testtier.Servers(t)
	if cfg.Binaries == "" {
		cfg.Binaries = BinariesForTest(t)
	}
	if cfg.Log == nil {
		log := &child.Tail{}
		cfg.Log = log
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("the end of what kube-apiserver and etcd printed:\n%s", log.Bytes())
			}
		})
	}
	c := must.Get(Start(t.Context(), cfg))(t)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Errorf("close control plane: %v", err)
		}
	})
	return c
}
