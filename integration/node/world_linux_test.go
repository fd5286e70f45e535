// SPDX-License-Identifier: Apache-2.0

package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// TestMain runs the tests in the world that they need, or here where that cannot be, so that they say so. If it is
// asked to try a world only, it says in its exit code whether there can be one.
func TestMain(m *testing.M) {
	os.Exit(run(context.Background(), m)) //nolint:forbidigo // there is no test yet
}

func run(ctx context.Context, m *testing.M) int {
	if dir := os.Getenv(inside); dir != "" {
		if err := enter(ctx, cmp.Or(os.Getenv(tried), group)); err != nil {
			fmt.Fprintln(os.Stderr, "make a world for the tests:", err)
			return 1
		}
		if os.Getenv(tried) != "" {
			return 0
		}
		code := m.Run()
		shared.stop()
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}
	if os.Getenv(try) != "" {
		if err := obstacle(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	}
	if os.Getenv(noNode) != "" || obstacle() != nil {
		return m.Run()
	}
	return outside(ctx)
}

// world returns this program as what will be the first process of a world, which ends with the thread that starts it.
func world(ctx context.Context, environment ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	return cmd
}

// isolates makes a world as the tests have it, and leaves it again.
func isolates() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	name := fmt.Sprintf("%s-try-%d", group, os.Getpid())
	defer removeGroups(name)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) //nolint:forbidigo // TestMain has no test's
	defer cancel()
	if out, err := world(ctx, inside+"=none", tried+"="+name).CombinedOutput(); err != nil {
		return errors.New(strings.TrimSpace(fmt.Sprintf("processes cannot have a world of their own: %v\n%s", err, out)))
	}
	return nil
}

// outside runs this program in a world, and returns its exit code. Who ends this process ends the world, and leaves
// nothing.
func outside(ctx context.Context) int {
	ctx, stop := signal.NotifyContext(ctx, unix.SIGTERM, os.Interrupt)
	defer stop()
	dir, err := os.MkdirTemp("", "kube-eventbridge-node-")
	if err == nil {
		defer os.RemoveAll(dir) //nolint:errcheck // what is left in a temporary directory does no harm
		err = prepare(ctx, dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare a node:", err)
		return 1
	}
	unlock, err := alone(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "wait for another node:", err)
		return 1
	}
	defer unlock()
	removeGroups(group)
	defer removeGroups(group)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := world(ctx, inside+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, "start the tests in a world of their own:", err)
		return 1
	}
	return max(cmd.ProcessState.ExitCode(), -cmd.ProcessState.ExitCode())
}

// alone waits until no other tests have a node on this machine, and says so if it has to.
func alone(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(os.TempDir(), "kube-eventbridge-node.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	lock := func() error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
	if err = lock(); errors.Is(err, unix.EWOULDBLOCK) {
		fmt.Fprintln(os.Stderr, "other tests have a node on this machine; these wait until they have ended")
		err = poll(ctx, lock)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// enter makes the world that this process is the first in: nothing that is mounted or set here is seen outside of it.
// Its containers will be in the cgroup of that name.
func enter(ctx context.Context, group string) error {
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
	if err := makeGroups(group); err != nil {
		return err
	}
	if err := settings(); err != nil {
		return err
	}
	for _, line := range []string{
		"ip link set lo up", "ip link add node0 type bridge", "ip address add " + address + "/32 dev node0",
		"ip link set node0 up", "iptables -w -t nat -L -n",
	} {
		words := strings.Fields(line)
		if out, err := exec.CommandContext(ctx, words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", line, err, out)
		}
	}
	return nil
}

// settings are those of the kernel that a kubelet would change for the whole machine: it sees the values that it wants,
// and changes nothing.
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
	// These are of this network only.
	for _, name := range []string{"net/ipv4/ip_forward", "net/bridge/bridge-nf-call-iptables"} {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte("1"), 0o644); err != nil {
			return fmt.Errorf("set %s, which may take modprobe br_netfilter: %w", name, err)
		}
	}
	return nil
}
