// SPDX-License-Identifier: Apache-2.0

// Package clock builds a bridge whose wall clock can be moved.
package clock

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
)

// Variable names the file with the seconds that the clock is off, in the bridge's environment.
const Variable = "KUBE_EVENTBRIDGE_CLOCK"

// packageTime is a file of package time that says by how much the clock is off.
//
//go:embed clock.go.txt
var packageTime string

// Program returns a bridge with a package time whose clock can be moved, see [Variable]. Only the wall clock moves,
// never the monotonic one, as on a machine. What is compiled for it the first time is everything: that takes minutes.
func Program(ctx context.Context, race bool, log io.Writer) (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the standard library: %w", err)
	}
	pkg, err := filepath.Rel(root, filepath.Join(strings.TrimSpace(string(goroot)), "src", "time"))
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(filepath.Join(root, pkg, "time.go"))
	if err != nil {
		return "", err
	}
	const reading = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(source), reading) != 1 {
		return "", errors.New("package time of this Go is not as expected: its clock cannot be moved")
	}
	return rig.Build{Race: race, Version: "clock", Commit: "clock", Replace: map[string]string{
		filepath.Join(pkg, "time.go"): strings.Replace(string(source), reading, reading+"\tsec += offBy(mono)\n", 1),
		filepath.Join(pkg, "off.go"):  packageTime,
	}}.Program(ctx, log)
}
