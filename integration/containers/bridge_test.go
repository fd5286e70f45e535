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
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/testcontainers/testcontainers-go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
)

// broker is one in a container, with the log that the bridge writes there.
type broker interface {
	testcontainers.Container
	sink() string // a part of the bridge's file
	log(t *testing.T) rig.Log
}

func TestBridge_between_containers_loses_and_repeats_nothing_when_a_broker_restarts(t *testing.T) {
	needEngine(t)
	kubeconfig := newAPIServer(t)
	cfg := must.Get(clientcmd.BuildConfigFromFlags("", kubeconfig))(t)
	kube := must.Get(kubernetes.NewForConfig(cfg))(t)
	for name, start := range map[string]func(*testing.T) broker{
		"nats":  func(t *testing.T) broker { return newNATS(t) },
		"kafka": func(t *testing.T) broker { return newKafka(t) },
	} {
		t.Run(name, func(t *testing.T) {
			b := start(t)
			log := b.log(t)
			bridge := startBridge(t, kubeconfig, name, b.sink())
			want := map[string]int{}
			change := func(from, to int) {
				for i := range to - from {
					c := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", name, from+i)}}
					made := must.Get(kube.CoreV1().ConfigMaps("default").Create(t.Context(), &c, metav1.CreateOptions{}))(t)
					want["default/"+made.Name+" "+made.ResourceVersion] = 1
				}
			}
			change(0, 10)
			await(t, log, name, want)
			grace := 10 * time.Second
			require.NoError(t, b.Stop(t.Context(), &grace))
			change(10, 30)
			require.NoError(t, b.Start(t.Context()))
			change(30, 40)
			await(t, log, name, want)
			bridge.Stops()
			await(t, log, name, want) // nothing came late
		})
	}
}

// await polls until the log has each of the events, and fails if it has one of them more often than once.
func await(t *testing.T, log rig.Log, name string, want map[string]int) {
	t.Helper()
	rig.Poll(t, "all events in the log", func() (bool, string) {
		ctx := must.Within(t, rig.Patience())
		messages, err := log.Read(ctx)
		got := map[string]int{}
		for _, m := range messages {
			e := event(m.Header)
			if strings.HasPrefix(e["subject"], "default/"+name+"-") {
				got[e["subject"]+" "+e["resourceversion"]]++
			}
		}
		missing := len(want)
		for version, n := range got {
			require.Equal(t, want[version], n, "the log has %s that often", version)
			missing--
		}
		return missing == 0, fmt.Sprintf("%d of %d events are not in the log; reading it gave %v", missing, len(want), err)
	})
}

// event returns the attributes that headers have, in either binding.
func event(headers map[string][]string) map[string]string {
	attributes := map[string]string{}
	for name, values := range headers {
		attributes[strings.TrimPrefix(strings.TrimPrefix(name, "ce-"), "ce_")] = values[0]
	}
	return attributes
}

// startBridge starts a bridge that publishes ConfigMaps.
func startBridge(t *testing.T, kubeconfig, pipeline, sink string) *rig.Bridge {
	t.Helper()
	dir := t.TempDir()
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	config := filepath.Join(dir, "bridge.yaml")
	require.NoError(t, os.WriteFile(config, fmt.Appendf(nil, `
cluster: containers
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: %q}
pipelines:
  - name: %s
    resources: [{resource: configmaps, namespaces: [default]}]
    %s
`, kubeconfig, filepath.Join(dir, "data"), address, pipeline, sink), 0o600))
	return rig.StartBridge(t, address, exec.Command(rig.ProgramForTest(t), "run", "--config", config))
}

// published makes a port of a container that of 127.0.0.1 which was chosen for it. An engine would choose another one
// with each start.
func published(port int, inside string) testcontainers.CustomizeRequestOption {
	return testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
		h.PortBindings = network.PortMap{
			network.MustParsePort(inside): {{HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(port)}},
		}
	})
}

// ended has a container removed when the test ends, also one that could not be started. If the test fails, what it
// printed last is in the log.
func ended(t *testing.T, c testcontainers.Container, err error) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), rig.Patience()) // the test's own has ended
		defer cancel()
		if t.Failed() && !reflect.ValueOf(c).IsNil() {
			t.Logf("the end of what a container printed:\n%s", printed(ctx, c))
		}
		err := testcontainers.TerminateContainer(c, testcontainers.StopContext(ctx), testcontainers.StopTimeout(0))
		assert.NoError(t, err, "end a container")
	})
	require.NoError(t, err)
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
	return must.Get(port.Free())(t)
}

// moduleVersion returns the version of a module that this one requires.
func moduleVersion(t *testing.T, module string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Version}}", module).CombinedOutput()
	require.NoError(t, err, "ask for the version of %s: %v\n%s", module, err, out)
	return strings.TrimSpace(string(out))
}
