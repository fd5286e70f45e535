// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// machine says where the figures were measured.
type machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Go     string `json:"go"`
	Commit string `json:"commit"`
}

// String returns the line above the table.
func (m machine) String() string {
	return fmt.Sprintf("%s, %d cores, %s, commit %s", m.CPU, m.Cores, m.Go, m.Commit)
}

// look finds out. What cannot be found out is "unknown".
func look(ctx context.Context) machine {
	m := machine{CPU: "unknown", Cores: runtime.NumCPU(), Go: runtime.Version(), Commit: "unknown"}
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			m.CPU = strings.TrimSpace(model)
			break
		}
	}
	git := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12")
	git.Dir, _ = controlplane.Root()
	git.Env = append(os.Environ(), "GIT_OPTIONAL_LOCKS=0")
	if commit, err := git.Output(); err == nil {
		m.Commit = strings.TrimSpace(string(commit))
	}
	return m
}
