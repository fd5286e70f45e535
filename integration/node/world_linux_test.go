// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestMain runs the tests in the world that they need, or here where that cannot be, so that they say so.
func TestMain(m *testing.M) {
	ctx := context.Background() //nolint:forbidigo // there is no test yet
	dir := os.Getenv(inside)
	if dir == "" {
		if _, reason := verdict(os.Getenv, obstacle); reason != "" {
			os.Exit(m.Run())
		}
		os.Exit(outside(ctx))
	}
	if err := enter(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "make a world for the tests:", err)
		os.Exit(1)
	}
	code := m.Run()
	shared.stop()
	os.Exit(code)
}

// outside runs this program as the first process of a world, and returns its exit code.
func outside(ctx context.Context) int {
	dir, err := os.MkdirTemp("", "kube-eventbridge-node-")
	if err == nil {
		defer os.RemoveAll(dir) //nolint:errcheck // what is left in a temporary directory hurts nobody
		err = prepare(ctx, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare a node:", err)
		return 1
	}
	unlock, err := alone()
	if err != nil {
		fmt.Fprintln(os.Stderr, "wait for another node:", err)
		return 1
	}
	defer unlock()
	removeGroups()
	defer removeGroups()
	runtime.LockOSThread() // the death signal comes when the thread ends that started the child
	cmd := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "start the tests in a world of their own:", err)
		return 1
	}
	return max(cmd.ProcessState.ExitCode(), -cmd.ProcessState.ExitCode())
}

// alone waits until no other tests have a node on this machine.
func alone() (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "kube-eventbridge-node.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// group is the cgroup, of each hierarchy, that has all containers.
const group = "kube-eventbridge-node-test"

// groups returns the places of the cgroup.
func groups() []string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return []string{filepath.Join("/sys/fs/cgroup", group)}
	}
	all, _ := filepath.Glob("/sys/fs/cgroup/*") // only a bad pattern fails
	for i, dir := range all {
		all[i] = filepath.Join(dir, group)
	}
	return all
}

// removeGroups removes the cgroups of a world that has ended. Those of one that runs stay: they are in use.
func removeGroups() {
	for _, dir := range groups() {
		var found []string
		_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				found = append([]string{path}, found...)
			}
			return nil
		})
		for _, path := range found { // the innermost first
			_ = unix.Rmdir(path)
		}
	}
}

// enter makes the world that this process is the first in: nothing that is mounted or set here is seen outside of it.
func enter(ctx context.Context) error {
	mounts := []struct {
		source, target, kind string
		flags                uintptr
	}{
		{"", "/", "", unix.MS_REC | unix.MS_PRIVATE},
		{"proc", "/proc", "proc", 0},
		{"", "/", "", unix.MS_REC | unix.MS_SHARED}, // kubelets want volumes to be seen in containers
		{"tmpfs", "/run", "tmpfs", 0},
		{"tmpfs", "/var/lib", "tmpfs", 0},
		{"tmpfs", "/var/log", "tmpfs", 0},
	}
	for _, m := range mounts {
		if err := unix.Mount(m.source, m.target, m.kind, m.flags, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	if err := unix.Sethostname([]byte(nodeName)); err != nil {
		return fmt.Errorf("set the name of the host: %w", err)
	}
	for _, dir := range groups() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("make a cgroup: %w", err)
		}
	}
	if err := settings(); err != nil {
		return err
	}
	for _, line := range []string{
		"link set lo up", "link add node0 type bridge", "address add " + address + "/32 dev node0", "link set node0 up",
	} {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w\n%s", line, err, out)
		}
	}
	return nil
}

// settings are those of the kernel that a kubelet would change for the whole machine: it sees the values that it wants, and changes nothing.
func settings() error {
	for name, value := range map[string]string{
		"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
		"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
	} {
		file := filepath.Join("/run", strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, filepath.Join("/proc/sys", name), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("hide the setting %s: %w", name, err)
		}
	}
	for _, name := range []string{"net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"} { // these are of this network only
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte("1"), 0o644); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
