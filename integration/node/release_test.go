// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// release is the chart in a namespace under the restricted Pod Security Standard, installed by the commands that the
// README has, and a broker of its own.
type release struct {
	*cluster
	t         *testing.T
	namespace string
	chart     string
	values    map[string]any // those of the chart, which a test may change
	nats      *rig.NATS
	broker    string // its URL, as Pods reach it
	log       rig.Log
}

// newRelease prepares one, and installs nothing. All that differs from the chart's values is where the broker is.
func (c *cluster) newRelease(t *testing.T, namespace string) *release {
	t.Helper()
	root := must.Get(controlplane.Root())(t)
	namespace = fmt.Sprintf("%s-%d", namespace, c.releases.Add(1)) // a test may run several times
	r := &release{cluster: c, t: t, namespace: namespace, chart: chartDir(root)}
	r.nats = rig.NATSForTest(t, func(o *server.Options) { o.Host = address })
	r.broker = "nats://" + net.JoinHostPort(address, strconv.Itoa(r.nats.Options().Port))
	conn := must.Get(nats.Connect(r.broker))(t)
	t.Cleanup(conn.Close)
	js := must.Get(jetstream.New(conn))(t)
	r.log = rig.NATSLog(js, "KUBERNETES")
	text := must.Get(os.ReadFile(filepath.Join(r.chart, "values.yaml")))(t)
	require.NoError(t, sigyaml.Unmarshal(bytes.ReplaceAll(text, []byte("nats://nats.nats.svc:4222"), []byte(r.broker)),
		&r.values))
	must.Get(c.kube.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}, metav1.CreateOptions{}))(t)
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
	return must.Get(r.command(r.t.Context(), name, args...))(r.t)
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
	list, err := r.kube.CoreV1().Pods(r.namespace).List(r.t.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/instance=kube-eventbridge"})
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
			version: h.Get("ce-resourceversion"), epoch: h.Get("ce-writerterm"), stored: m.Time,
		})
	}
	return found
}

// configMap creates one, or changes it, and returns its version.
func (r *release) configMap(name, colour string) string {
	r.t.Helper()
	return must.Get(r.putConfigMap(r.t.Context(), name, colour))(r.t)
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
		return slices.ContainsFunc(r.events(), func(e event) bool {
			return e.kind == "ConfigMap" && e.key == name && e.version == version
		})
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

func TestChart_installed_by_helm_publishes_and_its_notes_hold(t *testing.T) {
	r := shared.get(t).newRelease(t, "installed")
	notes := r.helm("install")
	r.awaitVersion("wire", r.configMap("wire", "green"))
	r.awaitVersion("wire", r.configMap("wire", "blue"))
	if pods := r.pods(); len(pods) != 1 || pods[0].Status.ContainerStatuses[0].RestartCount != 0 {
		t.Errorf("there are the Pods %+v", pods)
	}
	want := []string{"1/1     Running", "Both streams are live\n", "Forwarding from 127.0.0.1:8080", r.namespace + "/wire"}
	var commands []string
	for line := range strings.Lines(notes) {
		if command, _, _ := strings.Cut(strings.TrimSpace(line), " #"); strings.HasPrefix(command, "kubectl ") {
			commands = append(commands, command)
		}
	}
	require.Len(t, commands, len(want), "the notes have the commands, of which %d are expected", len(want))
	for i, command := range commands {
		r.prints(command, want[i])
	}
}

// prints runs a line, of kubectl, again and again until it prints a text.
func (r *release) prints(line, want string) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 90*time.Second)
	defer cancel()
	require.NoError(r.t, poll(ctx, func() error { return r.printsOnce(ctx, line, want) }))
}

// printsOnce runs a line until it prints a text or ends, for at most 20 s.
func (r *release) printsOnce(ctx context.Context, line, want string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	words := strings.Fields(line)
	cmd := exec.CommandContext(ctx, filepath.Join(r.programs, words[0]), words[1:]...)
	cmd.Env = r.environment()
	said := &awaited{text: want, came: cancel}
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = said, &complaint
	err := cmd.Run()
	if strings.Contains(said.so.String(), want) {
		return nil
	}
	return fmt.Errorf("%s printed %q, want %q in it: %w\n%s", line, said.so.String(), want,
		cmp.Or(err, errors.New("it ended")), complaint.Bytes())
}

// awaited is what a command has printed so far; it tells when a text has come.
type awaited struct {
	text string
	came func()
	so   strings.Builder
}

func (a *awaited) Write(b []byte) (int, error) {
	a.so.Write(b)
	if strings.Contains(a.so.String(), a.text) {
		a.came()
	}
	return len(b), nil
}

func TestBridge_reads_what_an_upgrade_changes_in_its_ConfigMap_and_is_not_restarted(t *testing.T) {
	r := shared.get(t).newRelease(t, "upgraded")
	r.helm("install")
	pod := r.pods()[0]
	must.Get(r.kube.CoreV1().Services(r.namespace).Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "added"}, Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone},
	}, metav1.CreateOptions{}))(t)

	pipeline := r.values["config"].(map[string]any)["pipelines"].([]any)[0].(map[string]any)
	pipeline["resources"] = append(pipeline["resources"].([]any), map[string]any{"resource": "services"})
	rbac := r.values["rbac"].(map[string]any)
	rbac["rules"] = append(rbac["rules"].([]any), map[string]any{
		"apiGroups": []any{""}, "resources": []any{"services"},
		"verbs": []any{"list", "watch"},
	})
	r.helm("upgrade")
	began := time.Now()
	r.eventually("the Service in the log", func() bool {
		for _, e := range r.events() {
			if e.kind == "Service" && e.key == "added" {
				return true
			}
		}
		return false
	})
	t.Logf("the change was read %s after helm upgrade", time.Since(began).Round(100*time.Millisecond))
	after := r.pods()
	assert.True(t, len(after) == 1 && after[0].UID == pod.UID &&
		after[0].Status.ContainerStatuses[0].RestartCount == 0, "%s is not what runs any more: %+v", pod.Name, after)
	r.prints("kubectl -n "+r.namespace+" exec deployment/kube-eventbridge -- kube-eventbridge status",
		"All 3 streams are live\n")

	r.set("another", "config", "cluster")
	r.helm("upgrade")
	after = r.pods()
	assert.True(t, len(after) == 1 && after[0].UID != pod.UID, "what takes a restart leaves the Pod %s", pod.Name)
}
