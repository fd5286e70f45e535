// SPDX-License-Identifier: Apache-2.0

package node

import (
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
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
	if len(commands) != len(want) {
		t.Fatalf("the notes have the commands %q, of which %d are expected", commands, len(want))
	}
	for i, command := range commands {
		r.prints(command, want[i])
	}
}

// prints runs a line, of kubectl, until it prints a text.
func (r *release) prints(line, want string) {
	r.t.Helper()
	words := strings.Fields(line)
	cmd := exec.CommandContext(r.t.Context(), filepath.Join(r.programs, words[0]), words[1:]...)
	cmd.Env = r.environment()
	var said printed
	cmd.Stdout, cmd.Stderr = &said, io.Discard
	must(r.t, cmd.Start())
	r.eventually(line+" to print "+want, func() bool { return strings.Contains(said.String(), want) })
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
}

// printed is what a command that runs has printed so far.
type printed struct {
	mu   sync.Mutex
	text strings.Builder
}

func (p *printed) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}
