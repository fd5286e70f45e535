// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
)

// command runs the bridge's program to its end.
func (r *fixture) command(args ...string) (code int, stdout, stderr string) {
	r.t.Helper()
	var out, err bytes.Buffer
	cmd := exec.CommandContext(r.t.Context(), r.binary, args...)
	cmd.Stdout, cmd.Stderr = &out, &err
	_ = cmd.Run() // the state of the process tells
	return cmd.ProcessState.ExitCode(), out.String(), err.String()
}

// roles are what rbac printed.
type roles struct {
	cluster        []*rbacv1.ClusterRole
	within         []*rbacv1.Role
	clusterBinding []*rbacv1.ClusterRoleBinding
	withinBinding  []*rbacv1.RoleBinding
}

// rolesFor runs rbac for the rig's configuration.
func (r *fixture) rolesFor(name, account string) *roles {
	r.t.Helper()
	code, out, said := r.command("rbac", "--config", r.config, "--name", name, "--service-account", account,
		"--service-account-namespace", "default")
	require.Equal(r.t, 0, code, "rbac ended")
	require.Empty(r.t, said, "rbac ended")
	var all roles
	for _, text := range strings.Split(out, "---\n") {
		var kind metav1.TypeMeta
		require.NoError(r.t, yaml.Unmarshal([]byte(text), &kind))
		switch kind.Kind {
		case "ClusterRole":
			all.cluster = append(all.cluster, read[rbacv1.ClusterRole](r.t, text))
		case "Role":
			all.within = append(all.within, read[rbacv1.Role](r.t, text))
		case "ClusterRoleBinding":
			all.clusterBinding = append(all.clusterBinding, read[rbacv1.ClusterRoleBinding](r.t, text))
		case "RoleBinding":
			all.withinBinding = append(all.withinBinding, read[rbacv1.RoleBinding](r.t, text))
		default:
			r.t.Fatalf("rbac printed a %q", kind.Kind)
		}
	}
	return &all
}

// read takes every field of an object, and no other.
func read[T any](t *testing.T, text string) *T {
	t.Helper()
	o := new(T)
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), o))
	return o
}

// rules are those of all roles. They can be changed.
func (a *roles) rules() (all []*[]rbacv1.PolicyRule) {
	for _, o := range a.cluster {
		all = append(all, &o.Rules)
	}
	for _, o := range a.within {
		all = append(all, &o.Rules)
	}
	return all
}

func (r *fixture) apply(a *roles) {
	r.t.Helper()
	ctx, rbac := r.t.Context(), r.kube.RbacV1()
	for _, o := range a.cluster {
		must.Get(rbac.ClusterRoles().Create(ctx, o, metav1.CreateOptions{}))(r.t)
	}
	for _, o := range a.within {
		must.Get(rbac.Roles(o.Namespace).Create(ctx, o, metav1.CreateOptions{}))(r.t)
	}
	for _, o := range a.clusterBinding {
		must.Get(rbac.ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{}))(r.t)
	}
	for _, o := range a.withinBinding {
		must.Get(rbac.RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{}))(r.t)
	}
	for i, o := range a.clusterBinding {
		r.awaitAllowed(o.Subjects[0], "", a.cluster[i].Rules[0])
	}
	for i, o := range a.withinBinding {
		r.awaitAllowed(o.Subjects[0], o.Namespace, a.within[i].Rules[0])
	}
}

// awaitAllowed waits until the API server allows what a rule says. It learns of a new role a moment later.
func (r *fixture) awaitAllowed(who rbacv1.Subject, namespace string, rule rbacv1.PolicyRule) {
	r.t.Helper()
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: "system:serviceaccount:" + who.Namespace + ":" + who.Name,
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Namespace: namespace, Verb: rule.Verbs[0], Group: rule.APIGroups[0], Resource: rule.Resources[0],
			Name: strings.Join(rule.ResourceNames, ""), // one at most
		},
	}}
	r.eventually("the roles to be known", func() bool {
		reviews := r.kube.AuthorizationV1().SubjectAccessReviews()
		got := must.Get(reviews.Create(r.t.Context(), review, metav1.CreateOptions{}))(r.t)
		return got.Status.Allowed
	})
}

// runAs starts a bridge that knows nothing yet as a service account.
func (r *fixture) runAs(account string) *bridge {
	r.t.Helper()
	user := r.api.User("system:serviceaccount:default:"+account, "system:serviceaccounts",
		"system:serviceaccounts:default")
	must.Get(controlplane.WriteKubeconfig(user, filepath.Join(r.dir, "kubeconfig")))(r.t)
	require.NoError(r.t, os.RemoveAll(filepath.Join(r.dir, "data")))
	return r.run()
}

// What rbac prints is enough, and each rule and verb of it is needed.
func TestRBAC_allows_a_bridge_what_it_needs_and_nothing_else(t *testing.T) {
	t.Parallel()
	r := bareRig(t, controlplane.ForTest(t, controlplane.Config{RBAC: true}))
	_, err := r.kube.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	r.configureSink(`
    - {resource: secrets}
    - {resource: configmaps, namespaces: [default, shop]}
    - {resource: deployments.apps, namespaces: [shop]}`, "sink: {stdout: {}}")
	lacks := func(b *bridge) bool {
		_, ready := r.status("/readyz")
		return strings.Contains(b.stderr()+ready, "forbidden")
	}

	r.apply(r.rolesFor("whole", "whole"))
	b := r.runAs("whole")
	r.awaitStatus(http.StatusOK, "")
	for _, namespace := range []string{"default", "shop"} {
		r.configMap(namespace, "new", nil)
	}
	_, err = r.kube.CoreV1().Secrets("kube-system").Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, metav1.CreateOptions{})
	require.NoError(t, err)
	r.poll("the events", func() (bool, string) {
		_, metrics := r.status("/metrics")
		n := 0
		for _, stream := range []string{"configmaps.v1/default", "configmaps.v1/shop", "secrets.v1"} {
			if strings.Contains(metrics,
				fmt.Sprintf(`events_published_total{op="added",pipeline="test",reason="watch",stream=%q} 1`, stream)) {
				n++
			}
		}
		return n == 3, fmt.Sprintf("%d of 3 streams have theirs", n)
	})
	b.stop()
	assert.False(t, lacks(b), "something is forbidden:\n%s", b.stderr())

	n := 0
	for role, rules := range r.rolesFor("x", "x").rules() {
		for rule := range *rules {
			for verb := range (*rules)[rule].Verbs {
				n++
				name := fmt.Sprintf("less-%d", n)
				reduced := r.rolesFor(name, name)
				from := &(*reduced.rules()[role])[rule]
				what := fmt.Sprintf("%s %v", from.Verbs[verb], from.Resources)
				if len(from.Verbs) > 1 {
					from.Verbs = append(from.Verbs[:verb:verb], from.Verbs[verb+1:]...)
				} else {
					from.Resources = []string{"none"}
				}
				r.apply(reduced)
				b := r.runAs(name)
				r.poll("it to miss "+what, func() (bool, string) { return lacks(b), b.stderr() })
				b.kill()
			}
		}
	}
	assert.Equal(t, 1+2*4, n, "verbs are allowed in all rules, want 9")
}

// Names of resources that are not looked up stand for what the API server takes them for.
func TestRBAC_knows_the_resources_that_an_API_server_has_by_itself(t *testing.T) {
	t.Parallel()
	api := controlplane.ForTest(t, controlplane.Config{})
	discovery := must.Get(catalog.NewDiscovery(rest.CopyConfig(api.RESTConfig())))(t)
	n := 0
	for group, plurals := range builtin.Every() {
		for _, plural := range plurals {
			for _, in := range []bool{false, true} {
				name := plural
				if in {
					name += "." + group
				}
				known, found := builtin.Find(plural, group, in)
				got, err := discovery.Resolve(name)
				if !found || err != nil || got.Resource != plural || got.Group != known.Group ||
					got.Namespaced != known.Namespaced || in && got.Group != group {
					t.Errorf("%s: the API server has %+v, %v; expected %+v", name, got, err, known)
				}
				n++
			}
		}
	}
	assert.GreaterOrEqual(t, n, 80, "only %d names were looked at", n)
	client := must.Get(clientdiscovery.NewDiscoveryClientForConfig(api.RESTConfig()))(t)
	lists := must.Get(client.ServerPreferredResources())(t)
	for _, list := range lists {
		of := must.Get(schema.ParseGroupVersion(list.GroupVersion))(t)
		for _, r := range list.APIResources {
			watched := slices.Contains(r.Verbs, "list") && slices.Contains(r.Verbs, "watch")
			_, known := builtin.Find(r.Name, of.Group, true)
			assert.True(t, !watched || known, "%s.%s can be watched, and is not known", r.Name, of.Group)
		}
	}
}

// What only a cluster knows is looked up in it.
func TestRBAC_looks_names_up_in_a_cluster(t *testing.T) {
	t.Parallel()
	api := controlplane.ForTest(t, controlplane.Config{})
	r := bareRig(t, api)
	kubeconfig := must.Get(api.Kubeconfig(r.dir))(t)
	code, out, said := r.command("rbac", "po", "deploy", "--kubeconfig", kubeconfig)
	assert.True(t, code == 0 && strings.Contains(out, "resources: [pods]") &&
		strings.Contains(out, "resources: [deployments]"), "got %d, %s%s", code, out, said)
	for args, want := range map[string]string{
		"rbac nothings --kubeconfig ":  `no matches for /, Resource=nothings; the cluster has no such resource now`,
		"rbac no -n web --kubeconfig ": `resource no is cluster-scoped and cannot be read in namespace "web"`,
	} {
		code, _, said := r.command(strings.Fields(args + kubeconfig)...)
		assert.True(t, code == 2 && strings.Contains(said, want), "%s: got %d, %s", args, code, said)
	}
	require.NoError(t, api.StopAPIServer(context.WithoutCancel(t.Context())))
	if code, _, said := r.command("rbac", "po", "--kubeconfig", kubeconfig); code != 1 ||
		!strings.Contains(said, "connection refused") {
		t.Errorf("without an API server: got %d, %s", code, said)
	}
}
