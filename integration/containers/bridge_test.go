// SPDX-License-Identifier: Apache-2.0

package containers

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// patience is how long anything is waited for, on a machine that has other things to do.
const patience = 60 * time.Second

// programs is where the bridge is built for all tests.
var programs string

var bridgeBinary = sync.OnceValues(func() (string, error) {
	root, err := controlplane.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(programs, "kube-eventbridge")
	cmd := exec.Command("go", "build", "-o", path, "./cmd/kube-eventbridge")
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the bridge: %w\n%s", err, out)
	}
	return path, nil
})

// entry is what the tests read of an event.
type entry struct{ id, subject string }

// broker is one in a container, with the log that the bridge writes there.
type broker interface {
	testcontainers.Container
	sink() string // a part of the bridge's file
	entries(ctx context.Context) ([]entry, error)
}

func TestBridge_between_containers_loses_and_repeats_nothing_when_a_broker_restarts(t *testing.T) {
	needEngine(t)
	kubeconfig := newAPIServer(t)
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	kube, err := kubernetes.NewForConfig(cfg)
	must(t, err)
	for name, start := range map[string]func(*testing.T) broker{
		"nats":  func(t *testing.T) broker { return newNATS(t) },
		"kafka": func(t *testing.T) broker { return newKafka(t) },
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			runBridge(t, kubeconfig, name, b.sink())
			want := map[string]int{}
			change := func(from, to int) {
				for i := range to - from {
					c := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, from+i)}}
					made, err := kube.CoreV1().ConfigMaps("default").Create(t.Context(), &c, metav1.CreateOptions{})
					must(t, err)
					want[fmt.Sprintf("%s.%s", made.UID, made.ResourceVersion)] = 1
				}
			}
			change(0, 10)
			await(t, b, name, want)
			grace := 10 * time.Second
			must(t, b.Stop(t.Context(), &grace))
			change(10, 30)
			must(t, b.Start(t.Context()))
			change(30, 40)
			await(t, b, name, want)
		})
	}
}

// await polls until the log has each of the events, and fails if it has one of them more often than once.
func await(t *testing.T, b broker, name string, want map[string]int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		log, err := b.entries(ctx)
		got := map[string]int{}
		for _, e := range log {
			if strings.HasPrefix(e.subject, "default/"+name+"-") {
				got[e.id]++
			}
		}
		missing := len(want)
		for id, n := range got {
			if n > 1 || want[id] == 0 {
				t.Fatalf("the log has %s %d times; that exists %d times", id, n, want[id])
			}
			missing--
		}
		if missing == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%d of %d events are not in the log; reading it gave %v", missing, len(want), err)
		case <-tick.C:
		}
	}
}

// runBridge runs a bridge until the test ends; then it has to end by itself, in order.
func runBridge(t *testing.T, kubeconfig, pipeline, sink string) {
	t.Helper()
	binary, err := bridgeBinary()
	must(t, err)
	dir := t.TempDir()
	config := filepath.Join(dir, "bridge.yaml")
	must(t, os.WriteFile(config, fmt.Appendf(nil, `
cluster: containers
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: "127.0.0.1:%d"}
pipelines:
  - name: %s
    resources: [{resource: configmaps, namespaces: [default]}]
    %s
`, kubeconfig, filepath.Join(dir, "data"), freePort(t), pipeline, sink), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	cmd := exec.Command(binary, "run", "--config", config)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, finished := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the death signal comes with the end of the thread that started the child
		err := cmd.Start()
		started <- err
		if err == nil {
			finished <- cmd.Wait()
		}
	}()
	must(t, <-started)
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // one that has ended is reported below
		select {
		case err := <-finished:
			if err != nil {
				t.Errorf("the bridge: %v", err)
			}
		case <-time.After(patience):
			_ = cmd.Process.Kill()
			t.Errorf("the bridge does not end: %v", <-finished)
		}
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); t.Failed() && err == nil {
			t.Logf("stderr of the bridge:\n%s", text)
		}
	})
}

// published makes a port of a container that of 127.0.0.1 which was chosen for it. An engine would choose another one with each start.
func published(port int, inside string) testcontainers.CustomizeRequestOption {
	return testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
		h.PortBindings = network.PortMap{
			network.MustParsePort(inside): {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(port)}},
		}
	})
}

// ended has a container removed when the test ends, also one that could not be started. If the test fails, what it printed last is in the log.
func ended(t *testing.T, c testcontainers.Container, err error) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience) // the test's own has ended
		defer cancel()
		if t.Failed() && !reflect.ValueOf(c).IsNil() {
			t.Logf("the end of what a container printed:\n%s", printed(ctx, c))
		}
		if err := testcontainers.TerminateContainer(c, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0)); err != nil {
			t.Errorf("end a container: %v", err)
		}
	})
	must(t, err)
}

func printed(ctx context.Context, c testcontainers.Container) string {
	r, err := c.Logs(ctx)
	if err != nil {
		return err.Error()
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-8192):])
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := controlplane.FreePort()
	must(t, err)
	return port
}

// moduleVersion returns the version of a module that this one requires.
func moduleVersion(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module).CombinedOutput()
	if err != nil {
		t.Fatalf("ask for the version of %s: %v\n%s", module, err, out)
	}
	return strings.TrimSpace(string(out))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
