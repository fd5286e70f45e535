// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// fakeGo puts a program named go first in PATH, for a cache of its own, and returns the cache and the file to which
// each build adds a line.
func fakeGo(t *testing.T, script string) (cache, builds string) {
	t.Helper()
	dir := t.TempDir()
	cache, builds = filepath.Join(dir, "cache"), filepath.Join(dir, "builds")
	script = "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && out=$2; shift; done\necho \"$1\" >> " + builds + "\n" +
		script + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o755))
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("KUBE_EVENTBRIDGE_CACHE", cache)
	t.Setenv("KUBEBUILDER_ASSETS", "")
	return cache, builds
}

const buildsWell = `echo "#!/bin/sh" > "$out"; chmod +x "$out"`

func TestBinaries_KUBEBUILDER_ASSETS_wins(t *testing.T) {
	_, builds := fakeGo(t, buildsWell)
	dir := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", dir)
	if _, err := Binaries(t.Context(), nil); !errors.Is(err, ErrUnavailable) ||
		!strings.Contains(err.Error(), apiServerName) {
		t.Errorf("an empty KUBEBUILDER_ASSETS: %v", err)
	}
	for _, name := range []string{apiServerName, etcdName} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o755))
	}
	got, err := Binaries(t.Context(), nil)
	assert.True(t, got == dir && err == nil, "got %q, %v, want %q", got, err, dir)
	b, err := os.ReadFile(builds)
	assert.Error(t, err, "built %s", b)
}

func TestBinaries_are_built_once_however_many_ask(t *testing.T) {
	cache, builds := fakeGo(t, buildsWell)
	var g errgroup.Group
	dirs, logs := make([]string, 4), make([]bytes.Buffer, 4)
	for i := range dirs {
		g.Go(func() (err error) {
			dirs[i], err = Binaries(t.Context(), &logs[i])
			return err
		})
	}
	require.NoError(t, g.Wait())
	built := must.Get(os.ReadFile(builds))(t)
	assert.Equal(t, 3, bytes.Count(built, []byte("\n")), "built %q, want three programs once", built)
	assert.True(t, complete(dirs[0]) == nil && dirs[0] == dirs[3] && strings.HasPrefix(dirs[0], cache),
		"binaries in %q", dirs)
	var all strings.Builder
	for i := range logs {
		all.Write(logs[i].Bytes())
	}
	require.Contains(t, all.String(), "building kube-apiserver v1.", "progress")
	assert.Contains(t, all.String(), "built etcd v3.", "progress")
}

func TestBinaries_a_failed_build_leaves_nothing_and_says_why(t *testing.T) {
	cache, _ := fakeGo(t, `echo half > "$out"; echo "no such module" >&2; exit 1`)
	_, err := Binaries(t.Context(), nil)
	require.ErrorIs(t, err, ErrUnavailable)
	assert.Contains(t, err.Error(), "no such module")
	left, _ := filepath.Glob(filepath.Join(cache, "controlplane", "*", "*"))
	require.Len(t, left, 1, "left")
	assert.Equal(t, ".etcd.lock", filepath.Base(left[0]), "left")
}

func TestBinaries_a_build_ends_with_its_context(t *testing.T) {
	fakeGo(t, `echo half > "$out"; exec tail -f /dev/null`)
	ctx := must.Within(t, 100*time.Millisecond)
	assert.ErrorIs(t, must.Err(Binaries(ctx, nil)), context.DeadlineExceeded)
}

func TestNodeBinaries_are_built_whatever_KUBEBUILDER_ASSETS_says(t *testing.T) {
	cache, builds := fakeGo(t, buildsWell)
	t.Setenv("KUBEBUILDER_ASSETS", t.TempDir())
	var log strings.Builder
	dir := must.Get(NodeBinaries(t.Context(), &log))(t)
	require.True(t, strings.HasPrefix(dir, cache), "got %q", dir)
	for _, name := range []string{
		"kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet", "kubectl",
		"helm",
	} {
		assert.NoError(t, isProgram(filepath.Join(dir, name)))
	}
	assert.NoError(t, must.Err(NodeBinaries(t.Context(), nil)))
	built, err := os.ReadFile(builds)
	if err != nil || strings.Count(string(built), "\n") != 6 ||
		!strings.Contains(string(built), "helm.sh/helm/v4/cmd/helm") {
		t.Errorf("built %q, %v, want six programs once", built, err)
	}
}
