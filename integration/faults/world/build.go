// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// Build builds the ordinary bridge from the tree into dir, and returns the program's path.
func Build(ctx context.Context, dir string) (string, error) {
	return build(ctx, filepath.Join(dir, "kube-eventbridge"))
}

func build(ctx context.Context, bin string, flags ...string) (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "-o", bin, "./cmd/kube-eventbridge")...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the bridge: %w\n%s", err, out)
	}
	return bin, nil
}
