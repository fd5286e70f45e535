// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	// group is the cgroup, of each hierarchy, that has all containers.
	group = "kube-eventbridge-node-test"

	hierarchies = "/sys/fs/cgroup"
)

// groups returns the places of a cgroup.
func groups(name string) []string {
	if unified(hierarchies) {
		return []string{filepath.Join(hierarchies, name)}
	}
	all, _ := filepath.Glob(filepath.Join(hierarchies, "*")) // only a bad pattern fails
	for i, dir := range all {
		all[i] = filepath.Join(dir, name)
	}
	return all
}

// unified says whether a directory is of cgroups of version 2.
func unified(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "cgroup.controllers"))
	return err == nil
}

// makeGroups makes a cgroup in each hierarchy, with the controllers that a kubelet wants.
func makeGroups(name string) error {
	for _, dir := range groups(name) {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
	}
	if !unified(hierarchies) {
		return nil
	}
	return handOn(hierarchies, filepath.Join(hierarchies, name))
}

// handOn has the root of the unified hierarchy give a cgroup the controllers without which a kubelet ends: of those
// that it uses, all that the root has. They stay given, as a container engine or an init system does it too.
func handOn(root, dir string) error {
	has, err := words(filepath.Join(root, "cgroup.controllers"))
	if err != nil {
		return err
	}
	given, err := words(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	for _, controller := range []string{"cpu", "cpuset", "memory", "hugetlb", "pids"} {
		if !slices.Contains(has, controller) || slices.Contains(given, controller) {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0o644); err != nil {
			return fmt.Errorf("the cgroup %s has no %s, and cannot be given it: %w", dir, controller, err)
		}
	}
	return nil
}

func words(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	return strings.Fields(string(text)), err
}

// removeGroups removes the cgroups of a world that has ended. Those of one that runs stay: they are in use.
func removeGroups(name string) {
	for _, dir := range groups(name) {
		var found []string
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				found = append([]string{path}, found...)
			}
			return nil
		})
		for _, path := range found { // the innermost first
			_ = os.Remove(path)
		}
	}
}

func TestCgroup_is_given_the_controllers_that_a_kubelet_wants_and_the_root_has(t *testing.T) {
	for _, c := range []struct{ has, given, want string }{
		{has: "cpu io memory pids", given: "cpu memory pids"},
		{has: "cpu io memory pids", given: "cpu io memory", want: "+pids"},
		{has: "cpuset", want: "+cpuset"},
		{has: "io rdma"},
	} {
		root := t.TempDir()
		dir := filepath.Join(root, group)
		require.NoError(t, os.Mkdir(dir, 0o755))
		for path, text := range map[string]string{
			filepath.Join(root, "cgroup.controllers"): c.has,
			filepath.Join(dir, "cgroup.controllers"):  c.given,
		} {
			require.NoError(t, os.WriteFile(path, []byte(text+"\n"), 0o600))
		}
		require.NoError(t, handOn(root, dir))
		got, _ := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
		assert.Equal(t, c.want, string(got), "a root with %q and a group with %q: wrote %q", c.has, c.given, got)
	}
}

func TestCgroup_that_cannot_be_given_a_controller_is_an_error(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "cgroup.controllers"), []byte("memory\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(root, "cgroup.subtree_control"), 0o755)) // refuses what is written
	dir := filepath.Join(root, group)
	require.NoError(t, os.Mkdir(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cgroup.controllers"), nil, 0o600))
	err := handOn(root, dir)
	assert.True(t, err != nil && strings.Contains(err.Error(), "has no memory"), "the error is %v", err)
}
