// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/rbac"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// granted are objects that the test replicates, of each resource two. NAME is made in the source alone, or is there in
// the target already, as somebody else's.
var granted = []struct {
	resource schema.GroupVersionResource
	manifest string
}{
	{schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}, `{apiVersion: v1, kind: Namespace}`},
	{
		schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"},
		`{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: NAMEs.example.com}, spec: {
  group: example.com, scope: Namespaced, names: {plural: NAMEs, singular: NAME, kind: NAME, listKind: NAMElist},
  versions: [{name: v1, served: true, storage: true, subresources: {status: {}},
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]}}`,
	},
	{
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "mades"},
		`{apiVersion: example.com/v1, kind: made, metadata: {namespace: shop}}`,
	},
	{
		schema.GroupVersionResource{Version: "v1", Resource: "configmaps"},
		`{apiVersion: v1, kind: ConfigMap, metadata: {namespace: shop}}`,
	},
	{
		schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
		`{apiVersion: apps/v1, kind: Deployment, metadata: {namespace: shop}, spec: {selector: {matchLabels: {a: b}},
  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: x}]}}}}`,
	},
	{
		schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: Role, metadata: {namespace: shop},
  rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`,
	},
	{
		schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"},
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: RoleBinding, metadata: {namespace: shop},
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ROLE, name: made},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: a}]}`,
	},
	{
		schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterroles"},
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole,
  rules: [{apiGroups: [""], resources: [pods], verbs: [get]}]}`,
	},
	{
		schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "clusterrolebindings"},
		`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding,
  roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: made},
  subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: a}]}`,
	},
}

// grants are clusters whose target knows what the replica asks for.
type grants struct {
	*clusters
	questions    *questions
	from, to     *dynamic.DynamicClient
	path, server string
}

// The roles that rbac prints are all that a replica is asked for, and it is asked for each rule and verb of them.
func TestRBAC_allows_a_replica_what_it_needs_and_nothing_else(t *testing.T) {
	testtier.Needs(t, testtier.All)
	const account = "system:serviceaccount:default:replica"
	q, target := newQuestions(t, account)
	c := newClustersOn(t, `[{resource: namespaces}, {resource: customresourcedefinitions.apiextensions.k8s.io},
      {resource: "*.example.com"}, {resource: configmaps, labelSelector: "!unselected"}, {resource: deployments.apps},
      {resource: "*.rbac.authorization.k8s.io"}]`, [2]controlplane.Config{{}, target}, "")
	g := &grants{clusters: c, questions: q}
	g.from = must.Get(dynamic.NewForConfig(c.source.RESTConfig()))(t)
	g.to = must.Get(dynamic.NewForConfig(c.target.RESTConfig()))(t)
	namespace(t, c.from, "shop")
	namespace(t, c.to, "copy")
	g.configure(account)

	code, out := c.command("validate", "--config", g.path, "--cluster")
	assert.Equal(t, 2, code, out)
	for _, want := range []string{
		"replicas[0].resources[0]: the user of the kubeconfig may not get, list, watch, create, update, patch namespaces " +
			"in all namespaces; kube-eventbridge rbac prints",
		"replicas[1].resources[0]: the user of the kubeconfig may not patch mades.example.com/status in namespace copy; ",
		"replicas[1].resources[3]: the user of the kubeconfig may not bind clusterroles.rbac.authorization.k8s.io in " +
			"namespace copy; ",
		"leaderElection: the user of the kubeconfig may not get, update leases.coordination.k8s.io " +
			"kube-eventbridge-replicas in namespace default; ",
	} {
		assert.Contains(t, out, want)
	}
	printed := g.grant()
	rig.Poll(t, "roles that the API server knows", func() (bool, string) {
		code, out := c.command("validate", "--config", g.path, "--cluster")
		return code == 0, out
	})

	q.forget()
	g.replicates()
	asked := q.all()
	for _, a := range asked {
		var by []rbac.Access
		for _, p := range printed {
			if allows(p, a) {
				by = append(by, p)
			}
		}
		assert.Len(t, by, 1, "%+v is asked, and allowed by %+v", a, by)
	}
	for _, p := range printed {
		needed := false
		for _, a := range asked {
			needed = needed || allows(p, a)
		}
		assert.True(t, needed, "%+v is allowed, and never asked", p)
	}
}

// configure writes the file of the replicas, which run as an account.
func (g *grants) configure(account string) {
	t, dir := g.t, g.t.TempDir()
	t.Helper()
	kubeconfig := must.Get(controlplane.WriteKubeconfig(g.target.User(account, "system:serviceaccounts"),
		filepath.Join(dir, "kubeconfig")))(t)
	g.path = filepath.Join(dir, "replica.yaml")
	g.server = fmt.Sprintf("127.0.0.1:%d", must.Get(controlplane.FreePort())(t))
	require.NoError(t, os.WriteFile(g.path, fmt.Appendf(nil, `
cluster: west
kubernetes: {kubeconfig: %q}
server: {listen: %q, admin: ""}
leaderElection: {resourceNamespace: default}
replicas:
  - name: wide
    from: {cluster: east, pipeline: audit, %[3]s}
    resources:
      - {resource: namespaces}
      - {resource: customresourcedefinitions.apiextensions.k8s.io}
      - {resource: clusterroles.rbac.authorization.k8s.io}
      - {resource: clusterrolebindings.rbac.authorization.k8s.io}
    existing: overwrite
    deletes: {limit: 100%%}
  - name: narrow
    from: {cluster: east, pipeline: audit, %[3]s}
    resources:
      - {resource: mades.example.com, namespaces: [shop]}
      - {resource: configmaps, namespaces: [shop]}
      - {resource: deployments.apps, namespaces: [shop]}
      - {resource: rolebindings.rbac.authorization.k8s.io, namespaces: [shop]}
      - {resource: roles.rbac.authorization.k8s.io, namespaces: [shop]}
    into: {namespaces: {shop: copy}}
    existing: overwrite
    deletes: {enabled: false} # what is created again is replaced nevertheless
    status: true
`, kubeconfig, g.server, g.log), 0o600))
}

// grant gives the account the roles that rbac prints, and returns what they allow.
func (g *grants) grant() (all []rbac.Access) {
	g.t.Helper()
	code, out := g.command("rbac", "--config", g.path, "--service-account", "replica")
	require.Equal(g.t, 0, code, out)
	for d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(out), 4096); ; {
		var o unstructured.Unstructured
		err := d.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(g.t, err, out)
		resource := schema.GroupVersionResource{
			Group: "rbac.authorization.k8s.io", Version: "v1", Resource: strings.ToLower(o.GetKind()) + "s",
		}
		must.Get(g.to.Resource(resource).Namespace(o.GetNamespace()).Create(g.t.Context(), &o, metav1.CreateOptions{}))(g.t)
		rules, _, err := unstructured.NestedSlice(o.Object, "rules")
		require.NoError(g.t, err)
		for _, rule := range rules {
			all = append(all, accesses(o.GetNamespace(), rule)...)
		}
	}
}

// accesses returns what a rule of a role allows, each verb by itself.
func accesses(namespace string, rule any) (all []rbac.Access) {
	texts := func(member string) []string {
		found, _, _ := unstructured.NestedStringSlice(rule.(map[string]any), member)
		return found
	}
	names := texts("resourceNames")
	if names == nil {
		names = []string{""}
	}
	for _, group := range texts("apiGroups") {
		for _, resource := range texts("resources") {
			for _, name := range names {
				for _, verb := range texts("verbs") {
					all = append(all, rbac.Access{
						Group: group, Resource: resource, Namespace: namespace, Name: name, Verb: verb,
					})
				}
			}
		}
	}
	return all
}

// allows reports whether what a rule allows is what was asked.
func allows(rule, asked rbac.Access) bool {
	return rule.Verb == asked.Verb && rule.Group == asked.Group && rule.Resource == asked.Resource &&
		(rule.Namespace == "" || rule.Namespace == asked.Namespace) && (rule.Name == "" || rule.Name == asked.Name)
}

// replicates has the replicas do all that they can do with objects of each resource.
func (g *grants) replicates() {
	t := g.t
	b := g.startReplica(g.path, g.server)
	for i := range granted {
		g.put(g.to, i, "taken")
		g.put(g.from, i, "taken")
		g.put(g.from, i, "made")
	}
	for i := range granted {
		g.await(i, "taken", "the replica's", isOurs)
		g.await(i, "made", "the replica's", isOurs)
		g.patch(i, "made", `{"metadata":{"labels":{"changed":"yes"}}}`)
		g.await(i, "made", "changed", func(o *unstructured.Unstructured) bool { return o.GetLabels()["changed"] == "yes" })
	}
	for i, status := range map[int]string{2: `{"status":{"replicas":3}}`, 4: `{"status":{"replicas":3}}`} {
		g.patch(i, "made", status, "status")
		g.await(i, "made", "with its status", func(o *unstructured.Unstructured) bool {
			n, _, _ := unstructured.NestedInt64(o.Object, "status", "replicas")
			return n == 3
		})
	}
	// What a complete resync does not tell is looked for among the objects that a label selector selects.
	code, out := g.command("resync", "--server", g.bridge.Server)
	require.Equal(t, 0, code, out)
	for i := len(granted) - 1; i >= 0; i-- {
		if i > 1 { // namespaces end when controllers let them
			uid := g.again(i, "made")
			g.await(i, "made", "created again", func(o *unstructured.Unstructured) bool {
				return o.GetAnnotations()[clean.OriginUID] == uid
			})
		}
		// What a namespace or a definition has may not be listed, so that these are left.
		_, o := g.object(g.from, i, "taken")
		if o.GetNamespace() == "" && o.GetKind() != "CustomResourceDefinition" && o.GetKind() != "Namespace" {
			g.delete(i, "taken")
			g.await(i, "taken", "gone", func(o *unstructured.Unstructured) bool { return o.GetDeletionTimestamp() != nil })
		}
	}
	for range 2 { // the first one creates what the second one changes
		code, out := g.command("replicate", "resume", "--server", g.server)
		assert.Equal(t, 0, code, out)
	}
	b.Stops()
	assert.NotContains(t, b.Stderr(), "forbidden")
}

func isOurs(o *unstructured.Unstructured) bool { return o.GetLabels()[clean.Label] != "" }

// object returns an object of granted, as it is created, and where.
func (g *grants) object(
	c *dynamic.DynamicClient, i int, name string,
) (dynamic.ResourceInterface, *unstructured.Unstructured) {
	g.t.Helper()
	role := map[string]string{"made": "Role", "taken": "ClusterRole"}[name]
	text := strings.NewReplacer("NAME", name, "ROLE", role).Replace(granted[i].manifest)
	var o unstructured.Unstructured
	require.NoError(g.t, yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096).Decode(&o.Object))
	if o.GetName() == "" {
		o.SetName(name)
	}
	if c == g.to && o.GetNamespace() == "shop" {
		o.SetNamespace("copy")
	}
	return c.Resource(granted[i].resource).Namespace(o.GetNamespace()), &o
}

// put makes an object, once its resource is served.
func (g *grants) put(c *dynamic.DynamicClient, i int, name string) {
	g.t.Helper()
	in, o := g.object(c, i, name)
	rig.Poll(g.t, fmt.Sprintf("%s of %s to be made", name, granted[i].resource.Resource), func() (bool, string) {
		_, err := in.Create(g.t.Context(), o, metav1.CreateOptions{})
		return err == nil || apierrors.IsAlreadyExists(err), fmt.Sprint(err)
	})
}

func (g *grants) patch(i int, name, patch string, subresources ...string) {
	g.t.Helper()
	in, o := g.object(g.from, i, name)
	must.Get(in.Patch(g.t.Context(), o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{},
		subresources...))(g.t)
}

// delete deletes an object of the source. A namespace ends, as its controller would let it.
func (g *grants) delete(i int, name string) {
	g.t.Helper()
	in, o := g.object(g.from, i, name)
	require.NoError(g.t, in.Delete(g.t.Context(), o.GetName(), metav1.DeleteOptions{}))
	if o.GetKind() == "Namespace" {
		ns := must.Get(g.clusters.from.CoreV1().Namespaces().Get(g.t.Context(), name, metav1.GetOptions{}))(g.t)
		ns.Spec.Finalizers = nil
		must.Get(g.clusters.from.CoreV1().Namespaces().Finalize(g.t.Context(), ns, metav1.UpdateOptions{}))(g.t)
	}
}

// again deletes an object of the source, makes another one of its name, and returns its uid.
func (g *grants) again(i int, name string) string {
	g.t.Helper()
	g.delete(i, name)
	g.put(g.from, i, name)
	in, o := g.object(g.from, i, name)
	return string(must.Get(in.Get(g.t.Context(), o.GetName(), metav1.GetOptions{}))(g.t).GetUID())
}

// await waits until the target has an object as it shall be, or until it is gone.
func (g *grants) await(i int, name, what string, ok func(*unstructured.Unstructured) bool) {
	g.t.Helper()
	in, o := g.object(g.to, i, name)
	rig.Poll(g.t, fmt.Sprintf("%s of %s to be %s", name, granted[i].resource.Resource, what), func() (bool, string) {
		got, err := in.Get(g.t.Context(), o.GetName(), metav1.GetOptions{})
		if err != nil {
			return what == "gone" && apierrors.IsNotFound(err), err.Error()
		}
		return ok(got), fmt.Sprint(got)
	})
}
