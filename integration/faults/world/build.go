// SPDX-License-Identifier: Apache-2.0

package world

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// Build builds the ordinary bridge from the tree into dir, or one with the race detector, and returns its path.
func Build(ctx context.Context, dir string, race bool) (string, error) {
	return build(ctx, race, filepath.Join(dir, "kube-eventbridge"))
}

// Change is a place of the bridge that is replaced, to see whether that is noticed: Old, which File, a path from the
// tree's root, has once, by New.
type Change struct{ File, Old, New string }

// BuildChanged builds the bridge with changes into dir, and returns the program's path. The tree stays as it is.
func BuildChanged(ctx context.Context, dir string, changes ...Change) (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for _, c := range changes {
		file := filepath.Join(root, c.File)
		changed := filepath.Join(dir, strings.ReplaceAll(c.File, "/", "-"))
		source, err := os.ReadFile(cmp.Or(replace[file], file))
		if err != nil {
			return "", err
		}
		if n := strings.Count(string(source), c.Old); n != 1 {
			return "", fmt.Errorf("change the bridge: %s has %q %d times, want it once", c.File, c.Old, n)
		}
		if err := os.WriteFile(changed, []byte(strings.Replace(string(source), c.Old, c.New, 1)), 0o600); err != nil {
			return "", err
		}
		replace[file] = changed
	}
	overlay, err := listOverlay(dir, replace)
	if err != nil {
		return "", err
	}
	return build(ctx, false, filepath.Join(dir, "kube-eventbridge-changed"), "-overlay", overlay)
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

func build(ctx context.Context, race bool, bin string, flags ...string) (string, error) {
	cgo := "CGO_ENABLED=0"
	if race {
		cgo, flags = "CGO_ENABLED=1", append(flags, "-race")
	}
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "go", append(append([]string{"build"}, flags...), "-o", bin, "./cmd/kube-eventbridge")...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), cgo)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the bridge: %w\n%s", err, out)
	}
	return bin, nil
}
