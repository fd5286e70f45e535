// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// inNamespaces is a configuration that reads two namespaces, and inThose the rules that it takes there.
const (
	inNamespaces = `
config:
  pipelines:
    - name: audit
      resources: [{resource: deployments.apps, namespaces: [web, shop]}, {resource: configmaps, namespaces: [web]}]
      sink: {nats: {servers: ["nats://nats.nats.svc:4222"]}}
      checkpoint: {nats: {}}
`
	inThose = `
    shop: [{apiGroups: [apps], resources: [deployments], verbs: [list, watch]}]
    web:
      - {apiGroups: [""], resources: [configmaps], verbs: [list, watch]}
      - {apiGroups: [apps], resources: [deployments], verbs: [list, watch]}
`
	identify = `{apiGroups: [""], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}`
)

func forTwoNamespaces(t *testing.T, c *cluster) {
	t.Run("with the values that rbac prints", func(t *testing.T) {
		allowsWhatIsNeeded(t, mustChart(t, "read", withRules(t, inNamespaces)))
	})
	t.Run("as one of two", func(t *testing.T) {
		const replicas = "  leaderElection: {resourceNamespace: web}\nreplicas: 2\n"
		m := mustChart(t, "read", inNamespaces+replicas+"rbac:\n  rules: ["+identify+"]\n  namespacedRules:"+inThose)
		allowsWhatIsNeeded(t, m)
		c.runs(t, m)
	})
	t.Run("without anything in the cluster", func(t *testing.T) {
		m := mustChart(t, "closed",
			inNamespaces+"rbac:\n  rules: []\n  namespacedRules:\n    kube-system: ["+identify+"]"+inThose)
		for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
			if found := m.of(kind); len(found) > 0 {
				t.Errorf("there is %s %s", kind, found[0].GetName())
			}
		}
		c.runs(t, m)
	})
}

// withRules returns values with the rules that rbac prints for their configuration.
func withRules(t *testing.T, values string) string {
	t.Helper()
	config := file(t, mustChart(t, "read", values+"rbac: {create: false}\n").configuration(t))
	return values + command(t, "rbac", "--config", config, "--helm-values")
}

// rewritten is the overlay for NATS with a configuration of one's own, and the permissions that rbac prints for it.
func rewritten(t *testing.T, config string) manifests {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(directory(t, "kustomize"))))
	bridge := filepath.Join(dir, "overlays", "nats", "bridge.yaml")
	require.NoError(t, os.WriteFile(bridge, []byte(config), 0o600))
	roles := command(t, "rbac", "--config", bridge,
		"--service-account", "kube-eventbridge", "--service-account-namespace", "kube-eventbridge")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlays", "nats", "rbac.yaml"), []byte(roles), 0o600))
	return kustomize(t, filepath.Join(dir, "overlays", "nats"))
}

func TestChart_names_roles_as_no_other_release_does(t *testing.T) {
	t.Parallel()
	const values = inNamespaces +
		"rbac:\n  rules: [{apiGroups: [''], resources: [namespaces], resourceNames: [kube-system], verbs: [get]}]\n  " +
		"namespacedRules:" + inThose
	names := map[string]string{}
	for _, r := range []struct{ release, namespace string }{
		{"kube-eventbridge", "a"}, {"kube-eventbridge", "a-b"}, {"b-kube-eventbridge", "a"}, {"other-kube-eventbridge", "a"},
	} {
		m := must.Get(chartedAs(t, r.release, r.namespace, values))(t)
		for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
			for _, o := range m.of(kind) {
				key := kind + " " + o.GetNamespace() + "/" + o.GetName()
				of := names[key]
				assert.Empty(t, of, "%s is that of %s and of %s in %s", key, of, r.release, r.namespace)
				names[key] = r.release + " in " + r.namespace
			}
		}
	}
}

// What shares a Lease has one leader, and whatever another release reads would not be published.
func TestChart_has_a_Lease_for_each_release(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ release, election, want string }{
		{"kube-eventbridge", "{}", "kube-eventbridge"},
		{"other", "", "other-kube-eventbridge"},
		{"other", "{resourceName: own}", "own"},
	} {
		m := must.Get(chartedAs(t, c.release, "events", "{replicas: 2, config: {leaderElection: "+c.election+"}}"))(t)
		assert.Contains(t, m.configuration(t), "resourceName: "+c.want+"\n",
			"%s with %q: the configuration", c.release, c.election)
		role := must.Get(sigyaml.Marshal(m.only(t, "Role").Object["rules"]))(t)
		assert.Contains(t, string(role), "- "+c.want+"\n", "%s with %q: the Role is\n%s", c.release, c.election, role)
	}
}

func TestChart_leaves_permissions_to_others_where_asked_to(t *testing.T) {
	t.Parallel()
	m := mustChart(t, "events", inNamespaces+"  leaderElection: {}\nrbac:\n  create: false\n  namespacedRules:"+inThose)
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"} {
		text, err := sigyaml.Marshal(m.of(kind))
		assert.True(t, err == nil && len(m.of(kind)) <= 0, "%v there is %s", err, text)
	}
	m.only(t, "ServiceAccount")
}
