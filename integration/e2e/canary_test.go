// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// planted are values that are to be found nowhere, each by what it stands in.
type planted map[string]string

func plant(names ...string) planted {
	p := planted{}
	for _, name := range names {
		p[name] = rand.Text()
	}
	return p
}

// found names the values that text has a piece of.
func (p planted) found(text []byte) (names []string) {
	for name, value := range p {
		if len(oracle.NewCanaries(value).Find(text)) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// canaries plants values wherever a configuration can say that they are to stay, and looks for them in all that leaves
// the process.
func canaries(ns, payload string) func(*testing.T, *controlplane.ControlPlane) {
	return func(t *testing.T, api *controlplane.ControlPlane) { findCanaries(t, api, ns, payload) }
}

func findCanaries(t *testing.T, api *controlplane.ControlPlane, ns, payload string) {
	p := plant("data", "stringData", "secret annotation", "changed data", "applied", "kapp", "annotation", "env",
		"changed env", "config", "binary", "key", "huge")
	open := rand.Text() // what may leave, and is to be found
	r := bareRig(t, api)
	r.connect()
	r.namespace(ns)
	r.configureCanaries(ns, p["key"], payload)
	b := r.run()
	r.awaitOp("snapshot-completed", 4)

	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Annotations: map[string]string{
			"kubectl.kubernetes.io/last-applied-configuration": `{"spec":{"env":"` + p["applied"] + `"}}`,
			"kapp.k14s.io/original":                            p["kapp"], "example.com/token": p["annotation"], "open": open,
		}}
	}
	secrets, pods := r.kube.CoreV1().Secrets(ns), r.kube.CoreV1().Pods(ns)
	deployments, maps := r.kube.AppsV1().Deployments(ns), r.kube.CoreV1().ConfigMaps(ns)
	var err error
	create, patch, remove := metav1.CreateOptions{}, metav1.PatchOptions{}, metav1.DeleteOptions{}
	for _, name := range []string{"live", "later"} {
		secretMeta := meta(name)
		secretMeta.Annotations["example.com/password"] = p["secret annotation"]
		_, err = secrets.Create(t.Context(), &corev1.Secret{
			ObjectMeta: secretMeta, Data: map[string][]byte{"a": []byte(p["data"])},
			StringData: map[string]string{"b": p["stringData"]},
		}, create)
		require.NoError(t, err)
		template := corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i", Env: []corev1.EnvVar{
				{Name: "SECRET", Value: p["env"]}, {
					Name:      "REF",
					ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}},
				},
			}}}},
		}
		must.Get(pods.Create(t.Context(), &corev1.Pod{ObjectMeta: meta(name), Spec: template.Spec}, create))(t)
		_, err = deployments.Create(t.Context(), &appsv1.Deployment{
			ObjectMeta: meta(name), Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
				Template: template,
			},
		}, create)
		require.NoError(t, err)
		_, err = maps.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: meta(name), Data: map[string]string{"token": p["config"]},
			BinaryData: map[string][]byte{"b": []byte(p["binary"])},
		}, create)
		require.NoError(t, err)
		_, err = secrets.Patch(t.Context(), name, types.MergePatchType,
			fmt.Appendf(nil, `{"stringData":{"a":%q}}`, p["changed data"]), patch)
		require.NoError(t, err)
		_, err = deployments.Patch(t.Context(), name, types.StrategicMergePatchType,
			fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"c","env":[{"name":"SECRET","value":%q}]}]}}}}`,
				p["changed env"]), patch)
		require.NoError(t, err)
	}
	// The broker takes no message of this size.
	must.Get(maps.Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: meta("huge"), Data: map[string]string{"token": p["huge"], "rest": strings.Repeat("x", 1<<20-1000)},
	}, create))(t)
	r.await("the rejection", func(log []entry) bool { return len(story(log, ns+"/huge")) > 0 })
	removeAll := func(name string) {
		require.NoError(t, secrets.Delete(t.Context(), name, remove))
		require.NoError(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)}))
		require.NoError(t, deployments.Delete(t.Context(), name, remove))
		require.NoError(t, maps.Delete(t.Context(), name, remove))
	}
	removeAll("live")
	deleted := func(n int) func([]entry) bool {
		return func(log []entry) bool {
			for _, e := range log {
				if e.op == "deleted" {
					n--
				}
			}
			return n <= 0
		}
	}
	r.await("the deletions", deleted(4))
	out := r.served()
	b.stop()
	removeAll("later")
	again := r.run()
	log := r.await("the deletions while it was away", deleted(8))
	out += r.served()
	again.stop()

	left := map[string][]byte{"HTTP": []byte(out), "stderr": []byte(b.stderr() + again.stderr()), "validate": r.validate()}
	for _, m := range r.messages() {
		left["the log"] = append(append(append(left["the log"], m.Subject...), fmt.Sprint(m.Header)...), m.Data...)
	}
	r.broker.stop()
	for _, dir := range []string{filepath.Join(r.dir, "data"), r.broker.Dir} {
		readAll(t, dir, left)
	}
	for where, text := range left {
		assert.Empty(t, p.found(text), "in %s", where)
	}
	require.True(t, bytes.Contains(left["the log"], []byte(open)), "the log has not even what may leave")
	assert.True(t, bytes.Contains(left["the log"], []byte("[redacted]")), "the log has not even what may leave")
	assert.Contains(t, b.stderr(), "event published", "the log of the process is not one for debugging")
	if payload != "json-patch" {
		checkHashes(t, log, ns+"/live")
	}
}

// checkHashes looks whether the updates of a Secret show that a value changed, and that the other did not.
func checkHashes(t *testing.T, log []entry, key string) {
	t.Helper()
	var states []corev1.Secret
	for _, e := range log {
		if e.kind == "Secret" && e.key == key {
			var s corev1.Secret
			data := e.data
			if e.attribute("payload") == "change" {
				var change struct{ Object json.RawMessage }
				require.NoError(t, json.Unmarshal(data, &change))
				data = change.Object
			}
			require.NoError(t, json.Unmarshal(data, &s))
			states = append(states, s)
		}
	}
	require.Len(t, states, 3, "the log has %d states of the Secret", len(states))
	first, then := states[0].Data, states[1].Data
	assert.True(t, !bytes.Equal(first["a"], then["a"]) && bytes.Equal(first["b"], then["b"]) &&
		bytes.HasPrefix(then["a"], []byte("[redacted hmac-sha256:")), "%q became %q", first, then)
}

// configureCanaries writes a configuration that redacts what canaries plants.
func (r *fixture) configureCanaries(ns, key, payload string) {
	r.t.Helper()
	kubeconfig := must.Get(r.api.Kubeconfig(r.dir))(r.t)
	r.config = filepath.Join(r.dir, "bridge.yaml")
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, "key"), []byte(key), 0o600))
	require.NoError(r.t, os.WriteFile(r.config, fmt.Appendf(nil, `
cluster: e2e
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: %s}
log: {level: debug}
pipelines:
  - name: test
    resources:
      - {resource: secrets, namespaces: [%[4]s], payload: %[6]s, filter: "object.data != oldObject.data || true"}
      - {resource: pods, namespaces: [%[4]s], payload: %[6]s, redact: ["spec.containers[*].env[*].value"]}
      - {resource: deployments.apps, namespaces: [%[4]s], payload: %[6]s, redact: ["spec.template.spec.containers[*].env[*].value"]}
      - {resource: configmaps, namespaces: [%[4]s], payload: %[6]s, redact: [data.token, "binaryData[*]"]}
    encoding:
      keep: [managedFields, lastApplied]
      redact: ['metadata.annotations["example.com/token"]']
      secrets: {hashes: {keyFile: key}}
    sink: {nats: {servers: [%[5]q]}}
`, kubeconfig, filepath.Join(r.dir, "data"), r.server, ns, r.broker.url(), payload), 0o600))
}

// served is all that the bridge serves.
func (r *fixture) served() (all string) {
	r.t.Helper()
	r.awaitStatus(200, "")
	for _, path := range []string{"/metrics", "/livez", "/readyz", "/"} {
		code, body := r.status(path)
		assert.Equal(r.t, 200, code, "%s: %d %s", path, code, body)
		all += body
	}
	return all
}

// validate is what checking the configuration prints.
func (r *fixture) validate() []byte {
	r.t.Helper()
	out := must.Get(exec.CommandContext(r.t.Context(), r.binary, "validate", "--config", r.config).CombinedOutput())(r.t)
	return out
}

// readAll adds the files below a directory, and checks that only their owner may read those that are the bridge's.
func readAll(t *testing.T, dir string, to map[string][]byte) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if filepath.Base(dir) == "data" && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		to[path], err = os.ReadFile(path)
		return err
	}))
}
