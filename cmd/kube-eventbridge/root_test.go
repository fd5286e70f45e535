// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// exitStatus returns the exit code that err, of a command that ran, holds.
func exitStatus(err error) (string, bool) {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return "", false
	}
	return strconv.Itoa(e.ExitCode()), true
}

func TestExecute_maps_errors_to_exit_codes(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"done", nil, exitDone, ""},
		{"failed", fmt.Errorf("publish k8s.a: %w", errors.New("no route")), exitFailed, "error: publish k8s.a: no route\n"},
		{"usage", fmt.Errorf("x: %w", usagef("give a file")), exitUsage, "error: x: give a file\nsee: x --help\n"},
		{"config", fmt.Errorf("load: %w", config.Problems{{File: "f", Line: 1, Column: 2, Message: "m"}}), exitUsage, "f:1:2: m\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr bytes.Buffer
			cmd := &cobra.Command{Use: "x", RunE: func(*cobra.Command, []string) error { return c.err }, SilenceErrors: true, SilenceUsage: true}
			cmd.SetArgs(nil)
			if code := executeCommand(t.Context(), cmd, &streams{Err: &stderr}); code != c.code || stderr.String() != c.stderr {
				t.Errorf("got %d, %q; want %d, %q", code, stderr.String(), c.code, c.stderr)
			}
		})
	}
}

// The words of the configuration are those of the encoder.
func TestWords_of_config_are_those_of_encode(t *testing.T) {
	for _, c := range [][2]string{
		{string(config.ManagedFields), encode.KeepManagedFields},
		{string(config.LastApplied), encode.KeepLastApplied},
	} {
		assert.Equal(t, c[1], c[0], "config, encode")
	}
}

func TestVersion_is_what_the_linker_says(t *testing.T) {
	t.Cleanup(func() { version, commit = "", "" })
	version, commit = "v1.2.3", "abc"
	if b := build(); b.Version != "v1.2.3" || b.Commit != "abc" || !strings.HasPrefix(b.Go, "go") || !strings.Contains(b.Platform, "/") {
		t.Errorf("got %+v", b)
	}
	version, commit = "v1.2.3", "0123456789abcdef"
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const text = `{clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}], contexts: [{name: c, context: {cluster: c}}], current-context: c}`
	require.NoError(t, os.WriteFile(kubeconfig, []byte(text), 0o600))
	cfg := must.Get(restConfig(config.Kubernetes{Kubeconfig: kubeconfig}))(t)
	assert.Equal(t, "kube-eventbridge/v1.2.3 ("+build().Platform+") commit/0123456789ab", cfg.UserAgent,
		"the User-Agent")
	version, commit = "", ""
	if b := build(); b.Version == "" || b.Commit == "" {
		t.Errorf("got %+v", b)
	}
}
