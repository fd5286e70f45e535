// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/child"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

const (
	nodeName  = "node"
	clusterIP = "10.0.0.1" // of the Service kubernetes
	state     = "/run/node"
)

// cluster is one with a node, and what its users type. Each test has a namespace and a broker of its own.
type cluster struct {
	programs   string // a directory
	kubeconfig string
	api        *controlplane.ControlPlane
	kube       *kubernetes.Clientset
	processes  []*child.Process
	gone       context.CancelCauseFunc // ends the start with what a program ended with
	releases   atomic.Int32
}

// shared is the cluster of all tests; the first that needs it starts it.
var shared lazy

type lazy struct {
	once    sync.Once
	cluster *cluster
	err     error
}

// get returns the cluster, and skips the test where there can be none.
func (l *lazy) get(t *testing.T) *cluster {
	t.Helper()
	needNode(t)
	l.once.Do(func() {
		began := time.Now()
		l.cluster = &cluster{}
		l.err = l.cluster.start(context.WithoutCancel(t.Context()), os.Getenv(inside))
		t.Logf("the cluster took %s to start", time.Since(began).Round(100*time.Millisecond))
	})
	require.NoError(t, l.err, "start a cluster")
	return l.cluster
}

// stop ends what belongs to this process; the rest ends with the world.
func (l *lazy) stop() {
	if l.cluster == nil {
		return
	}
	for _, p := range l.cluster.processes {
		_ = p.Kill() // it may have ended
	}
	if l.cluster.api != nil {
		_ = l.cluster.api.Close() // it is killed, and its files are in memory
	}
}

// start starts all of it, and fails as soon as one of its programs has ended.
func (c *cluster) start(ctx context.Context, prepared string) (err error) {
	if err := os.MkdirAll(state, 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	ctx, c.gone = context.WithCancelCause(ctx)
	defer c.gone(nil)
	defer func() {
		if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
	}()
	var g errgroup.Group
	g.Go(func() error { return c.startContainerd(ctx, prepared) })
	g.Go(func() error { return c.startAPI(ctx) })
	if err := g.Wait(); err != nil {
		return err
	}
	if err := c.startNode(); err != nil {
		return err
	}
	return c.awaitNode(ctx)
}

// awaitNode waits until Pods can run.
func (c *cluster) awaitNode(ctx context.Context) error {
	return poll(ctx, func() error {
		node, err := c.kube.CoreV1().Nodes().Get(ctx, nodeName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("the node is not ready: %v", node.Status.Conditions)
	})
}

// startAPI starts a control plane that Pods and the node can reach.
func (c *cluster) startAPI(ctx context.Context) (err error) {
	if c.programs, err = controlplane.NodeBinaries(ctx, os.Stderr); err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(state, "kube-apiserver.log"))
	if err != nil {
		return err
	}
	c.api, err = controlplane.Start(ctx, controlplane.Config{
		DataDir: filepath.Join(state, "controlplane"), RBAC: true, ServiceAccounts: true, Log: log,
		Addresses: []net.IP{net.ParseIP(address), net.ParseIP(clusterIP)},
		APIServerArgs: []string{
			"--bind-address=0.0.0.0", "--advertise-address=" + address, "--endpoint-reconciler-type=lease",
			"--kubelet-preferred-address-types=InternalIP",
		},
	})
	if err != nil {
		return err
	}
	return c.connect()
}

// connect makes the clients.
func (c *cluster) connect() (err error) {
	admin := c.api.RESTConfig()
	if c.kube, err = kubernetes.NewForConfig(admin); err != nil {
		return err
	}
	c.kubeconfig, err = c.api.Kubeconfig(state)
	return err
}

// background starts a program that is to run as long as the cluster does. What it prints is in a file under its name.
func (c *cluster) background(path string, args ...string) error {
	name := filepath.Base(path)
	log, err := os.Create(filepath.Join(state, name+".log"))
	if err != nil {
		return err
	}
	cmd := exec.Command(path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	p, err := child.Start(name, cmd)
	if err := errors.Join(err, log.Close()); err != nil {
		return err
	}
	c.processes = append(c.processes, p)
	go func() {
		<-p.Ended()
		c.gone(fmt.Errorf("%s has ended: %s\n%s", name, p.State(), tail(log.Name())))
	}()
	return nil
}

// tail returns the last lines of a log.
func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// poll tries until there is no error, or the context ends.
func poll(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func TestStart_ends_with_the_log_of_a_program_that_has_ended(t *testing.T) {
	needNode(t)
	require.NoError(t, os.MkdirAll(state, 0o755))
	ctx := must.Within(t, 30*time.Second)
	c := &cluster{}
	ctx, c.gone = context.WithCancelCause(ctx)
	require.NoError(t, c.background("/bin/sh", "-c", "echo no >&2; exit 3"))
	err := poll(ctx, func() error { return errors.New("not yet") })
	assert.Equal(t, "sh has ended: exit status 3\nno: not yet", err.Error(), "the error is %q", err)
}

const (
	noNode = "KUBE_EVENTBRIDGE_NO_NODE"
	inside = "KUBE_EVENTBRIDGE_TEST_WORLD" // the directory that the world before has prepared
	try    = "KUBE_EVENTBRIDGE_TEST_TRY"   // if set, nothing is tested but whether there can be a node
	tried  = "KUBE_EVENTBRIDGE_TEST_TRIED" // the cgroup of a world that is left at once
)

// address is the node's, and that of everything that runs beside its Pods: of the API server, and of the broker.
const address = "192.0.2.1"

// plugins is where Debian has the CNI plugins.
const plugins = "/usr/lib/cni"

// obstacle returns what a node cannot be without.
func obstacle() error {
	if os.Geteuid() != 0 {
		return errors.New("it takes root")
	}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc", "iptables", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	for _, plugin := range []string{"bridge", "host-local", "loopback", "portmap"} {
		if _, err := os.Stat(filepath.Join(plugins, plugin)); err != nil {
			return err
		}
	}
	return isolates()
}

// needNode skips the test with the reason where there can be no node, and fails it where there has to be one.
func needNode(t *testing.T) {
	t.Helper()
	if os.Getenv(inside) != "" {
		return
	}
	testtier.Possible(t, "a node", noNode, obstacle)
}
