// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockFaults run a bridge whose wall clock can be moved.
func clockFaults() []Fault {
	return []Fault{{Name: "clock jumps", Parts: Process, Clock: true, Weight: 4, Cost: 15 * time.Second, run: jump}}
}

// clockVariable names the file with the seconds that the clock is off, in the bridge's environment.
const clockVariable = "KUBE_EVENTBRIDGE_CLOCK"

// jump replaces the bridge by one that is the same but for the standard library's clock, lets that jump by hours, and brings the ordinary one back.
func jump(ctx context.Context, i *injection) (err error) {
	file := filepath.Join(i.dir, "clock")
	if err := os.WriteFile(file, []byte("0"), 0o600); err != nil {
		return err
	}
	ordinary := i.swap(i.cfg.ClockBinary, clockVariable+"="+file)
	defer func() {
		i.swap(ordinary)
		err = errors.Join(err, i.restartBridge())
	}()
	if err := i.restartBridge(); err != nil {
		return err
	}
	if err := i.awaitReady(ctx); err != nil {
		return err
	}
	var seconds []string
	for range 2 + i.random.IntN(3) {
		by := strconv.FormatInt(i.random.Int64N(96*3600)-48*3600, 10)
		if err := replaceFile(file, by); err != nil {
			return err
		}
		seconds = append(seconds, by)
		if err := wait(ctx, i.between(500*time.Millisecond, 2*time.Second)); err != nil {
			return err
		}
	}
	i.note(ctx, "the clock was off by, in turn, %s seconds", strings.Join(seconds, ", "))
	return nil
}

// replaceFile writes a file that a reader sees whole.
func replaceFile(path, text string) error {
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// swap says what the next start of the bridge runs, and returns what it ran so far.
func (w *World) swap(binary string, env ...string) (before string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	before, w.binary, w.env = w.binary, binary, env
	return before
}

// clockSource is a file of package time that says by how much the clock is off.
//
//go:embed clock.go.txt
var clockSource []byte

// BuildWithClock builds the bridge with a package time whose clock can be moved, for
// [Config], in dir, and returns the program's path. Only the wall clock moves, never the
// monotonic one, as on a machine. Go keeps what it has compiled, but the first time it compiles everything: minutes.
func BuildWithClock(ctx context.Context, dir string) (string, error) {
	overlay, err := writeOverlay(ctx, dir)
	if err != nil {
		return "", err
	}
	return build(ctx, filepath.Join(dir, "kube-eventbridge-clock"), "-overlay", overlay)
}

// writeOverlay writes what replaces files of package time, and returns the path of the list of them.
func writeOverlay(ctx context.Context, dir string) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("find the standard library: %w", err)
	}
	pkg := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	source, err := os.ReadFile(filepath.Join(pkg, "time.go"))
	if err != nil {
		return "", err
	}
	const reading = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(source), reading) != 1 {
		return "", errors.New("package time of this Go is not as expected: its clock cannot be moved")
	}
	moved := strings.Replace(string(source), reading, reading+"\tsec += offBy(mono)\n", 1)
	replace := map[string]string{}
	for name, data := range map[string][]byte{"time.go": []byte(moved), "off.go": clockSource} {
		replace[filepath.Join(pkg, name)] = filepath.Join(dir, name)
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return "", err
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, list, 0o600)
}
