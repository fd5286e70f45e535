// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var (
	configMaps = corev1.SchemeGroupVersion.WithResource("configmaps")
	events     = corev1.SchemeGroupVersion.WithResource("events")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t *testing.T, cfg *rest.Config) *dynamic.DynamicClient {
	t.Helper()
	h := must.Get(rest.HTTPClientFor(cfg))(t)
	t.Cleanup(h.CloseIdleConnections)
	return must.Get(dynamic.NewForConfigAndClient(cfg, h))(t)
}

func create(
	t *testing.T, c *dynamic.DynamicClient, gvr schema.GroupVersionResource, kind, name string, fields map[string]any,
) *unstructured.Unstructured {
	t.Helper()
	o := map[string]any{"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"name": name, "namespace": "default"}}
	maps.Copy(o, fields)
	created, err := c.Resource(gvr).Namespace("default").Create(t.Context(), &unstructured.Unstructured{Object: o},
		metav1.CreateOptions{})
	require.NoError(t, err)
	return created
}

func read(t *testing.T, c *dynamic.DynamicClient, name string) (*unstructured.Unstructured, error) {
	t.Helper()
	return c.Resource(configMaps).Namespace("default").Get(t.Context(), name, metav1.GetOptions{})
}

func TestControlPlane_keeps_data_and_address_across_kills_and_stops(t *testing.T) {
	t.Parallel()
	c := ForTest(t, Config{})
	k := client(t, c.RESTConfig())
	uid := create(t, k, configMaps, "ConfigMap", "kept", nil).GetUID()
	same := func(after string) {
		t.Helper()
		got, err := read(t, k, "kept")
		require.True(t, err == nil && got.GetUID() == uid, "after %s: %v, %v", after, got, err)
	}
	require.NoError(t, c.KillAPIServer())
	assert.Error(t, must.Err(read(t, k, "kept")), "a killed API server answers")
	require.NoError(t, c.StartAPIServer(t.Context()))
	same("the API server was killed")
	assert.Error(t, c.StartAPIServer(t.Context()), "a second API server was started")

	ctx := must.Within(t, time.Minute)
	require.NoError(t, c.StopAPIServer(ctx))
	require.NoError(t, c.KillEtcd())
	require.NoError(t, c.StartEtcd(t.Context()))
	require.NoError(t, c.StartAPIServer(t.Context()))
	same("both ended")

	require.NoError(t, c.KillEtcd())
	require.NoError(t, c.StartEtcd(t.Context()))
	must.Succeed(t, "a change after etcd was killed", func() error {
		_, err := k.Resource(configMaps).Namespace("default").Create(t.Context(),
			&unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"generateName": "after-"},
			}}, metav1.CreateOptions{})
		return err
	})
	same("etcd was killed under a running API server")
}

func TestControlPlane_goes_back_in_time(t *testing.T) {
	t.Parallel()
	c := ForTest(t, Config{})
	k := client(t, c.RESTConfig())
	file := filepath.Join(t.TempDir(), "snapshot.db")
	create(t, k, configMaps, "ConfigMap", "before", nil)
	require.NoError(t, c.Snapshot(t.Context(), file))
	after := create(t, k, configMaps, "ConfigMap", "after", nil)
	for _, bump := range []bool{false, true} {
		require.NoError(t, c.Restore(t.Context(), file, bump))
		assert.NoError(t, must.Err(read(t, k, "before")), "bump %v: what the snapshot", bump)
		_, err := read(t, k, "after")
		assert.True(t, apierrors.IsNotFound(err), "bump %v: what it does not have: %v", bump, err)
		list := must.Get(k.Resource(configMaps).List(t.Context(), metav1.ListOptions{}))(t)
		assert.Equal(t, bump, len(list.GetResourceVersion()) >= len("1000000000"),
			"bump %v: version %s, was %s", bump, list.GetResourceVersion(), after.GetResourceVersion())
	}
}

func TestControlPlane_compaction_ends_old_lists(t *testing.T) {
	t.Parallel()
	c := ForTest(t, Config{})
	k := client(t, c.RESTConfig())
	about := map[string]any{"involvedObject": map[string]any{"namespace": "default", "name": "x"}, "reason": "Test"}
	old := create(t, k, events, "Event", "one", about).GetResourceVersion()
	create(t, k, events, "Event", "two", about)
	exact := metav1.ListOptions{ // the API server may make events of its own
		ResourceVersion: old, ResourceVersionMatch: metav1.ResourceVersionMatchExact, FieldSelector: "reason=Test",
	}
	list := must.Get(k.Resource(events).Namespace("default").List(t.Context(), exact))(t)
	require.Len(t, list.Items, 1, "before: %v", list)
	require.NoError(t, c.Compact(t.Context()))
	_, err := k.Resource(events).Namespace("default").List(t.Context(), exact)
	assert.True(t, apierrors.IsResourceExpired(err), "after: %v, want 410", err)
}

func TestControlPlane_serves_users_and_roles(t *testing.T) {
	t.Parallel()
	c := ForTest(t, Config{RBAC: true})
	alice := client(t, c.User("alice", "people"))
	_, err := alice.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
	assert.True(t, apierrors.IsForbidden(err), "with RBAC: %v, want Forbidden", err)
	admin := client(t, c.RESTConfig())
	role := schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"}
	must.Get(admin.Resource(role).Create(t.Context(), &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "people"},
		"rules": []any{map[string]any{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"list"}}},
	}}, metav1.CreateOptions{}))(t)
	_, err = admin.Resource(role.GroupVersion().WithResource("clusterrolebindings")).Create(t.Context(),
		&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
			"metadata": map[string]any{"name": "people"},
			"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "people"},
			"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "people"}},
		}}, metav1.CreateOptions{})
	require.NoError(t, err)
	must.Succeed(t, "the role", func() error { // roles reach the authorizer through a watch
		_, err := alice.Resource(configMaps).List(t.Context(), metav1.ListOptions{})
		return err
	})
}

func TestControlPlane_kubeconfig_is_private_and_works(t *testing.T) {
	t.Parallel()
	c := ForTest(t, Config{RBAC: true})
	path := must.Get(c.Kubeconfig(t.TempDir()))(t)
	info := must.Get(os.Stat(path))(t)
	assert.EqualValues(t, 0o600, info.Mode().Perm(), "kubeconfig: %v", info)
	cfg := must.Get(clientcmd.BuildConfigFromFlags("", path))(t)
	create(t, client(t, cfg), configMaps, "ConfigMap", "by-kubeconfig", nil)
}

func TestControlPlane_ends_with_Close(t *testing.T) {
	t.Parallel()
	c := ForTest(t, Config{})
	api, etcd, dir := c.apiServer, c.etcd, c.cfg.DataDir
	require.NoError(t, c.Close())
	assert.False(t, api.Running(), "a process outlives Close")
	assert.False(t, etcd.Running(), "a process outlives Close")
	_, err := os.Stat(dir)
	assert.True(t, os.IsNotExist(err), "the temporary directory outlives Close: %v", err)
	assert.Error(t, c.StartAPIServer(t.Context()), "a closed control plane starts")
}
