// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// Build builds the ordinary bridge from the tree into dir, and returns the program's path.
func Build(ctx context.Context, dir string) (string, error) {
	return build(ctx, filepath.Join(dir, "kube-eventbridge"))
}

// Change is a line of the bridge that is replaced, to see whether that is noticed: Old, which File, a path from the tree's root, has once, by New.
type Change struct{ File, Old, New string }

// BuildChanged builds the bridge with a change into dir, and returns the program's path. The tree stays as it is.
func BuildChanged(ctx context.Context, dir string, c Change) (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	file := filepath.Join(root, c.File)
	source, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), c.Old); n != 1 {
		return "", fmt.Errorf("change the bridge: %s has %q %d times, want it once", c.File, c.Old, n)
	}
	changed := filepath.Join(dir, "changed.go")
	if err := os.WriteFile(changed, []byte(strings.Replace(string(source), c.Old, c.New, 1)), 0o600); err != nil {
		return "", err
	}
	overlay, err := listOverlay(dir, map[string]string{file: changed})
	if err != nil {
		return "", err
	}
	return build(ctx, filepath.Join(dir, "kube-eventbridge-changed"), "-overlay", overlay)
}

// listOverlay writes which files the compiler takes in the place of others, and returns the path of the list.
func listOverlay(dir string, replace map[string]string) (string, error) {
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
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
