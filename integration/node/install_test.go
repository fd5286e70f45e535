// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChart_installed_by_helm_publishes_and_its_notes_hold(t *testing.T) {
	r := shared.get(t).newRelease(t, "installed")
	notes := r.helm("install")
	r.awaitVersion("wire", r.configMap("wire", "green"))
	r.awaitVersion("wire", r.configMap("wire", "blue"))
	if pods := r.pods(); len(pods) != 1 || pods[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("there are the Pods %+v", pods)
	}
	want := []string{"1/1     Running", "All 3 streams are live\n", "Forwarding from 127.0.0.1:8080", r.namespace + "/wire"}
	var commands []string
	for line := range strings.Lines(notes) {
		if command, _, _ := strings.Cut(strings.TrimSpace(line), " #"); strings.HasPrefix(command, "kubectl ") {
			commands = append(commands, command)
		}
	}
	require.Len(t, commands, len(want), "the notes have the commands, of which %d are expected", len(want))
	for i, command := range commands {
		r.prints(command, want[i])
	}
}

// prints runs a line, of kubectl, again and again until it prints a text.
func (r *release) prints(line, want string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 90*time.Second)
	defer cancel()
	require.NoError(r.t, poll(ctx, func() error { return r.printsOnce(ctx, line, want) }))
}

// printsOnce runs a line until it prints a text or ends, for at most 20 s.
func (r *release) printsOnce(ctx context.Context, line, want string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	words := strings.Fields(line)
	cmd := exec.CommandContext(ctx, filepath.Join(r.programs, words[0]), words[1:]...)
	cmd.Env = r.environment()
	said := &awaited{text: want, came: cancel}
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = said, &complaint
	err := cmd.Run()
	if strings.Contains(said.so.String(), want) {
		return nil
	}
	return fmt.Errorf("%s printed %q, want %q in it: %w\n%s", line, said.so.String(), want, cmp.Or(err, errors.New("it ended")), complaint.Bytes())
}

// awaited is what a command has printed so far; it tells when a text has come.
type awaited struct {
	text string
	came func()
	so   strings.Builder
}

func (a *awaited) Write(b []byte) (int, error) {
	a.so.Write(b)
	if strings.Contains(a.so.String(), a.text) {
		a.came()
	}
	return len(b), nil
}
