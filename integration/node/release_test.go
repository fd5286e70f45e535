// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// release is the chart in a namespace under the restricted Pod Security Standard, installed by the commands that the README has, and a broker of its own.
type release struct {
	*cluster
	t         *testing.T
	namespace string
	chart     string
	values    map[string]any // those of the chart, which a test may change
	nats      *rig.NATS
	log       rig.Log
}

// newRelease prepares one, and installs nothing. All that differs from the chart's values is where the broker is.
func (c *cluster) newRelease(t *testing.T, namespace string) *release {
	t.Helper()
	root := must.Get(controlplane.Root())(t)
	namespace = fmt.Sprintf("%s-%d", namespace, c.releases.Add(1)) // a test may run several times
	r := &release{cluster: c, t: t, namespace: namespace, chart: chartDir(root)}
	r.nats = rig.NATSForTest(t, func(o *server.Options) { o.Host = address })
	url := "nats://" + net.JoinHostPort(address, strconv.Itoa(r.nats.Options().Port))
	conn := must.Get(nats.Connect(url))(t)
	t.Cleanup(conn.Close)
	js := must.Get(jetstream.New(conn))(t)
	r.log = rig.NATSLog(js, "KUBERNETES")
	text, err := os.ReadFile(filepath.Join(r.chart, "values.yaml"))
	require.NoError(t, err)
	require.NoError(t, sigyaml.Unmarshal(bytes.ReplaceAll(text, []byte("nats://nats.nats.svc:4222"), []byte(url)), &r.values))
	_, err = c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			r.tell()
		}
		ctx := context.WithoutCancel(t.Context())
		_, _ = c.command(ctx, "helm", "uninstall", "-n", namespace, "kube-eventbridge")
		_, _ = c.command(ctx, "kubectl", "delete", "namespace", namespace, "--wait=false")
	})
	return r
}

// helm installs or upgrades the release, waits until its Pods are ready, and returns what helm says.
func (r *release) helm(verb string) string {
	r.t.Helper()
	text := must.Get(sigyaml.Marshal(r.values))(r.t)
	path := filepath.Join(r.t.TempDir(), "values.yaml")
	require.NoError(r.t, os.WriteFile(path, text, 0o600))
	return r.run("helm", verb, "kube-eventbridge", r.chart, "-n", r.namespace, "-f", path, "--wait", "--timeout", "90s")
}

// kubectl does something in the release's namespace.
func (r *release) kubectl(args ...string) {
	r.t.Helper()
	r.run("kubectl", append([]string{"-n", r.namespace}, args...)...)
}

// run runs a command, which has to succeed, and returns what it prints.
func (r *release) run(name string, args ...string) string {
	r.t.Helper()
	out := must.Get(r.command(r.t.Context(), name, args...))(r.t)
	return out
}

// command runs kubectl or helm for the cluster's administrator.
func (c *cluster) command(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.programs, name), args...)
	cmd.Env = c.environment()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, stdout.Bytes(), stderr.Bytes())
	}
	return stdout.String(), nil
}

// environment is that of the cluster's administrator.
func (c *cluster) environment() []string {
	return append(os.Environ(), "KUBECONFIG="+c.kubeconfig, "HOME="+state)
}

// set changes a value of the chart.
func (r *release) set(value any, path ...string) {
	at := r.values
	for _, key := range path[:len(path)-1] {
		at = at[key].(map[string]any)
	}
	at[path[len(path)-1]] = value
}

// pods returns those of the release that are not about to end.
func (r *release) pods() []corev1.Pod {
	r.t.Helper()
	list, err := r.kube.CoreV1().Pods(r.namespace).List(r.t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=kube-eventbridge"})
	require.NoError(r.t, err)
	var found []corev1.Pod
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil {
			found = append(found, p)
		}
	}
	return found
}

// event is one of the log.
type event struct {
	op, kind, key, id, version, epoch string
	stored                            time.Time // when the broker had it
}

// events reads those of objects in the release's namespace.
func (r *release) events() []event {
	r.t.Helper()
	log := must.Get(r.log.Read(r.t.Context()))(r.t)
	var found []event
	for _, m := range log {
		h := nats.Header(m.Header)
		if h.Get("ce-namespace") != r.namespace {
			continue
		}
		parts := strings.Split(h.Get("ce-type"), ".")
		found = append(found, event{
			op: parts[len(parts)-2], kind: h.Get("ce-kind"), key: h.Get("ce-name"), id: h.Get("ce-id"),
			version: h.Get("ce-resourceversion"), epoch: h.Get("ce-writerepoch"), stored: m.Time,
		})
	}
	return found
}

// configMap creates one, or changes it, and returns its version.
func (r *release) configMap(name, colour string) string {
	r.t.Helper()
	version := must.Get(r.putConfigMap(r.t.Context(), name, colour))(r.t)
	return version
}

func (r *release) putConfigMap(ctx context.Context, name, colour string) (version string, err error) {
	maps := r.kube.CoreV1().ConfigMaps(r.namespace)
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"colour": colour}}
	made, err := maps.Update(ctx, object, metav1.UpdateOptions{})
	if err != nil {
		made, err = maps.Create(ctx, object, metav1.CreateOptions{})
	}
	if err != nil {
		return "", err
	}
	return made.ResourceVersion, nil
}

// awaitVersion waits until the log has a version of a ConfigMap.
func (r *release) awaitVersion(name, version string) {
	r.t.Helper()
	r.eventually(fmt.Sprintf("version %s of %s in the log", version, name), func() bool {
		for _, e := range r.events() {
			if e.kind == "ConfigMap" && e.key == name && e.version == version {
				return true
			}
		}
		return false
	})
}

// eventually polls.
func (r *release) eventually(what string, ok func() bool) {
	r.t.Helper()
	rig.Poll(r.t, what, func() (bool, string) { return ok(), "" })
}

// tell logs what there is to say about a test that failed.
func (r *release) tell() {
	ctx := context.WithoutCancel(r.t.Context())
	for _, args := range [][]string{
		{"get", "pods,deployments,statefulsets,persistentvolumeclaims,leases", "-o", "wide"},
		{"describe", "pods"},
		{"get", "events"},
		{"logs", "-l", "app.kubernetes.io/instance=kube-eventbridge", "--tail=60", "--prefix"},
	} {
		out, err := r.command(ctx, "kubectl", append([]string{"-n", r.namespace}, args...)...)
		r.t.Logf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}
