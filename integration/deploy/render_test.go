// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// manifests are the objects of one way to deploy the bridge.
type manifests []*unstructured.Unstructured

func directory(t *testing.T, path ...string) string {
	t.Helper()
	root := must.Get(controlplane.Root())(t)
	return filepath.Join(append([]string{root, "deploy"}, path...)...)
}

// kustomize builds a directory, as kubectl kustomize does.
func kustomize(t *testing.T, dir string) manifests {
	t.Helper()
	built := must.Get(krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir))(t)
	text := must.Get(built.AsYaml())(t)
	return decode(t, text)
}

// overlay is one of the repository's with components.
func overlay(t *testing.T, name string, components ...string) manifests {
	t.Helper()
	dir := directory(t, "kustomize", "overlays", name)
	if len(components) == 0 {
		return kustomize(t, dir)
	}
	fs := filesys.MakeFsOnDisk()
	own := t.TempDir()
	relative := func(path string) string {
		return must.Get(filepath.Rel(own, path))(t)
	}
	file := map[string]any{"resources": []string{relative(dir)}}
	var with []string
	for _, c := range components {
		with = append(with, relative(directory(t, "kustomize", "components", c)))
	}
	file["components"] = with
	text := must.Get(sigyaml.Marshal(file))(t)
	require.NoError(t, fs.WriteFile(filepath.Join(own, "kustomization.yaml"), text))
	return kustomize(t, own)
}

func decode(t *testing.T, text []byte) manifests {
	t.Helper()
	var all manifests
	for d := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096); ; {
		var o unstructured.Unstructured
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		if len(o.Object) > 0 {
			all = append(all, &o)
		}
	}
}

func (m manifests) of(kind string) manifests {
	var found manifests
	for _, o := range m {
		if o.GetKind() == kind {
			found = append(found, o)
		}
	}
	return found
}

// only returns the object of the kind, of which there has to be one.
func (m manifests) only(t *testing.T, kind string) *unstructured.Unstructured {
	t.Helper()
	found := m.of(kind)
	require.Len(t, found, 1, "there are %d objects of kind %s, want 1", len(found), kind)
	return found[0]
}

// configuration returns the bridge's file.
func (m manifests) configuration(t *testing.T) string {
	t.Helper()
	for _, o := range m.of("ConfigMap") {
		text, found := must.Get2(unstructured.NestedString(o.Object, "data", "bridge.yaml"))(t)
		if found {
			return text
		}
	}
	t.Fatal("no ConfigMap has a bridge.yaml")
	return ""
}

// pod returns what the workload makes Pods of, and the namespace they are in.
func (m manifests) pod(t *testing.T) *corev1.Pod {
	t.Helper()
	var template corev1.PodTemplateSpec
	var namespace string
	if len(m.of("StatefulSet")) > 0 {
		o := into[appsv1.StatefulSet](t, m.only(t, "StatefulSet"))
		template, namespace = o.Spec.Template, o.Namespace
		for _, c := range o.Spec.VolumeClaimTemplates { // the controller does this
			template.Spec.Volumes = append(template.Spec.Volumes, corev1.Volume{Name: c.Name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: c.Name},
			}})
		}
	} else {
		o := into[appsv1.Deployment](t, m.only(t, "Deployment"))
		template, namespace = o.Spec.Template, o.Namespace
	}
	p := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
	p.APIVersion, p.Kind, p.Name, p.Namespace = "v1", "Pod", "kube-eventbridge-0", namespace
	return p
}

// into takes every field of an object, and no other.
func into[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	require.NoError(t, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, out, true),
		"%s %s", o.GetKind(), o.GetName())
	return out
}

// allowed is what a role or a binding says, without what its objects are called: each verb by itself.
func allowed(t *testing.T, o *unstructured.Unstructured) string {
	t.Helper()
	var lines []string
	role := &unstructured.Unstructured{Object: map[string]any{"rules": o.Object["rules"]}}
	for _, r := range into[rbacv1.Role](t, role).Rules {
		names := r.ResourceNames
		if names == nil {
			names = []string{"*"}
		}
		for _, resource := range r.Resources {
			for _, name := range names {
				for _, verb := range r.Verbs {
					lines = append(lines, strings.Join([]string{strings.Join(r.APIGroups, ","), resource, name, verb}, " "))
				}
			}
		}
	}
	slices.Sort(lines)
	text, err := sigyaml.Marshal(map[string]any{
		"namespace": o.GetNamespace(), "rules": lines, "subjects": o.Object["subjects"],
	})
	require.NoError(t, err)
	return string(text)
}

// overlays are the repository's, and the kinds of their workloads.
var overlays = map[string]string{
	"nats": "Deployment", "kafka": "Deployment", "replica": "Deployment", "embedded": "StatefulSet",
}

func ofKustomize(t *testing.T, c *cluster) {
	for name, kind := range overlays {
		t.Run(name, func(t *testing.T) {
			m := overlay(t, name, "monitoring", "dashboard", "network-policy")
			m.only(t, kind)
			c.takes(t, m)
			command(t, "validate", "--config", file(t, m.configuration(t)))
			allowsWhatIsNeeded(t, m)
		})
	}
	isMounted(t, overlay(t, "embedded").pod(t), "/var/lib/kube-eventbridge")
	t.Run("a Pod that is not restricted is refused", func(t *testing.T) {
		pod := overlay(t, "nats").pod(t)
		pod.Spec.Containers[0].SecurityContext = nil
		err := c.create(t, pod)
		assert.True(t, err != nil && strings.Contains(err.Error(), "restricted"), "got %v", err)
	})
	t.Run("a replica runs", func(t *testing.T) {
		m := overlay(t, "replica")
		assert.Equal(t, "replicate", m.pod(t).Spec.Containers[0].Args[0])
		c.runs(t, m)
	})
	t.Run("for two namespaces", func(t *testing.T) {
		m := rewritten(t, mustChart(t, "kube-eventbridge", inNamespaces+"rbac: {create: false}\n").configuration(t))
		allowsWhatIsNeeded(t, m)
		c.takes(t, m)
		c.runs(t, m)
	})
}

// allowsWhatIsNeeded compares the roles with what rbac prints for the configuration.
func allowsWhatIsNeeded(t *testing.T, m manifests) {
	t.Helper()
	pod := m.pod(t)
	want := decode(t, []byte(command(t, "rbac", "--config", file(t, m.configuration(t)),
		"--service-account", pod.Spec.ServiceAccountName, "--service-account-namespace", pod.Namespace)))
	for _, kind := range []string{"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"} {
		var got, needed []string
		for _, o := range m.of(kind) {
			got = append(got, allowed(t, o))
		}
		for _, o := range want.of(kind) {
			needed = append(needed, allowed(t, o))
		}
		a, b := strings.Join(got, "\n"), strings.Join(needed, "\n")
		assert.Equal(t, b, a, "%s: there is\n%s\nand rbac prints", kind, a)
	}
}

func isMounted(t *testing.T, pod *corev1.Pod, path string) {
	t.Helper()
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		if m.MountPath == path && !m.ReadOnly {
			return
		}
	}
	t.Errorf("nothing that can be written is mounted at %s", path)
}
