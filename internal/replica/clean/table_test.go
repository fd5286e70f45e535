// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/builtin"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var update = flag.Bool("update", false, "write the page again")

// decoded returns what a text in YAML says.
func decoded(t must.TB, text string) map[string]any {
	t.Helper()
	var object map[string]any
	d := json.NewDecoder(strings.NewReader(string(must.Get(yaml.YAMLToJSON([]byte(text)))(t))))
	d.UseNumber()
	if err := d.Decode(&object); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return object
}

var mapping = map[string]string{"shop": "copy"}

// Each case has the object of the source and what is written, without what is the same in all.
func TestObject_changes_what_the_table_says(t *testing.T) {
	for _, c := range []struct{ name, resource, source, want string }{
		{"everything", "widgets.example.com", `
metadata: {name: a, namespace: shop, uid: u, resourceVersion: "1", generation: 2, creationTimestamp: x,
  deletionTimestamp: x, deletionGracePeriodSeconds: 0, selfLink: x, managedFields: [{}], generateName: a-,
  finalizers: [x], ownerReferences: [{uid: o}],
  annotations: {kubectl.kubernetes.io/last-applied-configuration: "{}", argocd.argoproj.io/tracking-id: x,
    config.k8s.io/owning-inventory: x, kube-eventbridge.io/origin: x, kube-eventbridge.io/more: x},
  labels: {kustomize.toolkit.fluxcd.io/name: x, objectset.rio.cattle.io/hash: x, kube-eventbridge.io/replica: old,
    app.kubernetes.io/instance: kept}}
spec: {replicas: 1}
status: {replicas: 1}`, `
metadata: {name: a, namespace: copy, labels: {app.kubernetes.io/instance: kept}}
spec: {replicas: 1}`},
		{"a Namespace", "namespaces", `
metadata: {name: shop, labels: {kubernetes.io/metadata.name: shop, team: a}}
spec: {finalizers: [kubernetes]}`, `
metadata: {name: copy, labels: {team: a}}`},
		{"a Pod", "pods", `
metadata: {name: a, namespace: shop}
spec:
  nodeName: n
  priority: 0
  preemptionPolicy: PreemptLowerPriority
  ephemeralContainers: [{name: debug}]
  nodeSelector: {disk: ssd}
  containers: [{name: a, volumeMounts: [{name: default-token-abcde}, {name: kube-api-access-x}]}]
  initContainers: [{name: b, volumeMounts: [{name: default-token-abcde}]}]
  volumes: [{name: default-token-abcde, secret: {secretName: default-token-abcde}}, {name: kube-api-access-x, projected: {}},
    {name: my-token-abcde, secret: {secretName: mine}}]
  affinity:
    podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{namespaces: [shop, other]}]}
    podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{podAffinityTerm: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}}]}`, `
metadata: {name: a, namespace: copy}
spec:
  nodeSelector: {disk: ssd}
  containers: [{name: a, volumeMounts: [{name: kube-api-access-x}]}]
  initContainers: [{name: b}]
  volumes: [{name: kube-api-access-x, projected: {}}, {name: my-token-abcde, secret: {secretName: mine}}]
  affinity:
    podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{namespaces: [copy, other]}]}
    podAntiAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{podAffinityTerm: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: copy}}}}]}`},
		{"a Service", "services", `
metadata: {name: a, namespace: shop}
spec: {type: LoadBalancer, clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1], ipFamilies: [IPv4], healthCheckNodePort: 30000,
  ports: [{port: 80, nodePort: 30001}]}`, `
metadata: {name: a, namespace: copy}
spec: {type: LoadBalancer, ipFamilies: [IPv4], ports: [{port: 80}]}`},
		{"a headless Service", "services", `
metadata: {name: a, namespace: shop}
spec: {clusterIP: None, clusterIPs: [None]}`, `
metadata: {name: a, namespace: copy}
spec: {clusterIP: None, clusterIPs: [None]}`},
		{"a Service whose ports were applied", "services", `
metadata: {name: a, namespace: shop, annotations: {kubectl.kubernetes.io/last-applied-configuration:
  '{"spec":{"healthCheckNodePort":30000,"ports":[{"port":80,"nodePort":30001},{"port":53,"protocol":"UDP","nodePort":30002}]}}'}}
spec: {healthCheckNodePort: 30000, ports: [{port: 80, protocol: TCP, nodePort: 30001}, {port: 53, protocol: UDP, nodePort: 30002},
  {port: 53, protocol: TCP, nodePort: 30003}]}`, `
metadata: {name: a, namespace: copy}
spec: {healthCheckNodePort: 30000, ports: [{port: 80, protocol: TCP, nodePort: 30001}, {port: 53, protocol: UDP, nodePort: 30002},
  {port: 53, protocol: TCP}]}`},
		{"a Service whose ports somebody manages", "services", `
metadata: {name: a, namespace: shop, managedFields: [{fieldsV1: {"f:spec": {"f:healthCheckNodePort": {}, "f:ports": {".": {},
  'k:{"port":80,"protocol":"TCP"}': {"f:nodePort": {}}, 'k:{"port":81,"protocol":"TCP"}': {"f:port": {}}}}}}]}
spec: {healthCheckNodePort: 30000, ports: [{port: 80, protocol: TCP, nodePort: 30001}, {port: 81, protocol: TCP, nodePort: 30002}]}`, `
metadata: {name: a, namespace: copy}
spec: {healthCheckNodePort: 30000, ports: [{port: 80, protocol: TCP, nodePort: 30001}, {port: 81, protocol: TCP}]}`},
		{"a claim that was bound", "persistentvolumeclaims", `
metadata: {name: a, namespace: shop, annotations: {pv.kubernetes.io/bind-completed: "yes", pv.kubernetes.io/bound-by-controller: "yes",
  volume.kubernetes.io/selected-node: n, volume.kubernetes.io/storage-provisioner: p, volume.beta.kubernetes.io/storage-provisioner: p}}
spec: {volumeName: pvc-1, storageClassName: fast, dataSourceRef: {namespace: shop, name: x}}`, `
metadata: {name: a, namespace: copy}
spec: {storageClassName: fast, dataSourceRef: {namespace: copy, name: x}}`},
		{"a claim of a chosen volume", "persistentvolumeclaims", `
metadata: {name: a, namespace: shop, annotations: {pv.kubernetes.io/bind-completed: "yes"}}
spec: {volumeName: mine}`, `
metadata: {name: a, namespace: copy}
spec: {volumeName: mine}`},
		{"a volume", "persistentvolumes", `
metadata: {name: a, annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}
spec: {claimRef: {namespace: shop, name: a, uid: u, resourceVersion: "1"}}`, `
metadata: {name: a}
spec: {claimRef: {namespace: copy, name: a}}`},
		{"a ServiceAccount", "serviceaccounts", `
metadata: {name: a, namespace: shop}
secrets: [{name: a-token-abcde}, {name: mine}]
imagePullSecrets: [{name: registry}]`, `
metadata: {name: a, namespace: copy}
secrets: [{name: mine}]
imagePullSecrets: [{name: registry}]`},
		{"a ServiceAccount with nothing but its token", "serviceaccounts", `
metadata: {name: a, namespace: shop}
secrets: [{name: a-token-abcde}]`, `
metadata: {name: a, namespace: copy}`},
		{"a Deployment", "deployments.apps", `
metadata: {name: a, namespace: shop, annotations: {deployment.kubernetes.io/revision: "3", mine: x}}
spec: {replicas: 2, template: {metadata: {creationTimestamp: null, labels: {a: b}}, spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{namespaces: [shop]}]}}}}}`, `
metadata: {name: a, namespace: copy, annotations: {mine: x}}
spec: {replicas: 2, template: {metadata: {labels: {a: b}}, spec: {affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{namespaces: [copy]}]}}}}}`},
		{"a ReplicaSet", "replicasets.apps", `
metadata: {name: a, namespace: shop, annotations: {deployment.kubernetes.io/revision: "3", deployment.kubernetes.io/desired-replicas: "3"}}`, `
metadata: {name: a, namespace: copy}`},
		{"a DaemonSet", "daemonsets.apps", `
metadata: {name: a, namespace: shop, annotations: {deprecated.daemonset.template.generation: "3"}}`, `
metadata: {name: a, namespace: copy}`},
		{"a StatefulSet", "statefulsets.apps", `
metadata: {name: a, namespace: shop}
spec: {volumeClaimTemplates: [{metadata: {name: data, creationTimestamp: null}}]}`, `
metadata: {name: a, namespace: copy}
spec: {volumeClaimTemplates: [{metadata: {name: data}}]}`},
		{"a Job", "jobs.batch", `
metadata: {name: a, namespace: shop, annotations: {batch.kubernetes.io/job-tracking: ""}, labels: {controller-uid: u, job-name: a, app: b}}
spec: {ttlSecondsAfterFinished: 10, selector: {matchLabels: {batch.kubernetes.io/controller-uid: u}}, template: {metadata: {labels: {
  controller-uid: u, batch.kubernetes.io/controller-uid: u, job-name: a, batch.kubernetes.io/job-name: a}}}}`, `
metadata: {name: a, namespace: copy, labels: {app: b}}
spec: {template: {metadata: {}}}`},
		{"a Job with a selector of its own", "jobs.batch", `
metadata: {name: a, namespace: shop}
spec: {manualSelector: true, selector: {matchLabels: {job-name: x}}, template: {metadata: {labels: {job-name: x}}}}`, `
metadata: {name: a, namespace: copy}
spec: {manualSelector: true, selector: {matchLabels: {job-name: x}}, template: {metadata: {labels: {job-name: x}}}}`},
		{"a request for a certificate", "certificatesigningrequests.certificates.k8s.io", `
metadata: {name: a}
spec: {signerName: s, request: r, username: u, uid: i, groups: [g], extra: {a: [b]}}`, `
metadata: {name: a}
spec: {signerName: s, request: r}`},
		{"a CronJob", "cronjobs.batch", `
metadata: {name: a, namespace: shop}
spec: {jobTemplate: {metadata: {creationTimestamp: null}, spec: {template: {metadata: {creationTimestamp: null}}}}}`, `
metadata: {name: a, namespace: copy}
spec: {jobTemplate: {metadata: {}, spec: {template: {metadata: {}}}}}`},
		{"an aggregated ClusterRole", "clusterroles.rbac.authorization.k8s.io", `
metadata: {name: a}
aggregationRule: {clusterRoleSelectors: []}
rules: [{verbs: [get]}]`, `
metadata: {name: a}
aggregationRule: {clusterRoleSelectors: []}`},
		{"a ClusterRole", "clusterroles.rbac.authorization.k8s.io", `
metadata: {name: a}
rules: [{verbs: [get]}]`, `
metadata: {name: a}
rules: [{verbs: [get]}]`},
		{"a RoleBinding", "rolebindings.rbac.authorization.k8s.io", `
metadata: {name: a, namespace: shop}
subjects: [{kind: ServiceAccount, name: x, namespace: shop}, {kind: ServiceAccount, name: x, namespace: other},
  {kind: Group, name: "system:serviceaccounts:shop"}, {kind: Group, name: shop}, {kind: User, name: "system:serviceaccount:shop:x"}]`, `
metadata: {name: a, namespace: copy}
subjects: [{kind: ServiceAccount, name: x, namespace: copy}, {kind: ServiceAccount, name: x, namespace: other},
  {kind: Group, name: "system:serviceaccounts:copy"}, {kind: Group, name: shop}, {kind: User, name: "system:serviceaccount:copy:x"}]`},
		{"a ClusterRoleBinding", "clusterrolebindings.rbac.authorization.k8s.io", `
metadata: {name: a}
subjects: [{kind: ServiceAccount, name: x, namespace: shop}]`, `
metadata: {name: a}
subjects: [{kind: ServiceAccount, name: x, namespace: copy}]`},
		{"a webhook", "validatingwebhookconfigurations.admissionregistration.k8s.io", `
metadata: {name: a}
webhooks: [{clientConfig: {caBundle: x, service: {namespace: shop}}, namespaceSelector: {matchExpressions: [
  {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, shop]}, {key: team, operator: In, values: [shop]}]}}]`, `
metadata: {name: a}
webhooks: [{clientConfig: {caBundle: x, service: {namespace: copy}}, namespaceSelector: {matchExpressions: [
  {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, copy]}, {key: team, operator: In, values: [shop]}]}}]`},
		{"an admission policy", "validatingadmissionpolicies.admissionregistration.k8s.io", `
metadata: {name: a}
spec: {matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}}`, `
metadata: {name: a}
spec: {matchConstraints: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: copy}}}}`},
		{"an admission policy's binding", "validatingadmissionpolicybindings.admissionregistration.k8s.io", `
metadata: {name: a}
spec: {paramRef: {namespace: shop}, matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}}`, `
metadata: {name: a}
spec: {paramRef: {namespace: copy}, matchResources: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: copy}}}}`},
		{"a NetworkPolicy", "networkpolicies.networking.k8s.io", `
metadata: {name: a, namespace: shop}
spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}]}], egress: [{to: [{namespaceSelector: {}}]}]}`, `
metadata: {name: a, namespace: copy}
spec: {podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: copy}}}]}], egress: [{to: [{namespaceSelector: {}}]}]}`},
		{"a CustomResourceDefinition", "customresourcedefinitions.apiextensions.k8s.io", `
metadata: {name: a}
spec: {conversion: {webhook: {clientConfig: {caBundle: x, service: {namespace: shop}}}}}
status: {storedVersions: [v1]}`, `
metadata: {name: a}
spec: {conversion: {webhook: {clientConfig: {caBundle: x, service: {namespace: copy}}}}}`},
		{"an APIService", "apiservices.apiregistration.k8s.io", `
metadata: {name: a}
spec: {service: {namespace: shop}}`, `
metadata: {name: a}
spec: {service: {namespace: copy}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := must.Get(New(Config{Replica: "r", Namespaces: mapping}))(t)
			got, want := decoded(t, c.source), decoded(t, c.want)
			require.NoError(t, r.Object(schema.ParseGroupResource(c.resource), got))
			set(want["metadata"].(map[string]any), "labels", map[string]string{Label: "r"})
			assert.Equal(t, want, got)
		})
	}
}

func TestTable_is_of_resources_that_there_are_and_says_why(t *testing.T) {
	said := func(rules []Rule, of any) {
		for _, rule := range rules {
			assert.NotEmpty(t, rule.Paths, of)
			assert.NotEmpty(t, rule.Does, "%v", rule.Paths)
			assert.True(t, strings.HasSuffix(rule.Why, "."), "%v: %q", rule.Paths, rule.Why)
		}
	}
	exists := func(group, resource string) {
		_, found := builtin.Find(resource, group, true)
		assert.True(t, found, "%s.%s", resource, group)
	}
	said(Common, "every object")
	for _, k := range Kinds {
		said(k.Rules, k.Resources)
		for _, r := range k.Resources {
			exists(r.Group, r.Resource)
		}
	}
	for _, s := range Singles {
		assert.True(t, strings.HasSuffix(s.Why, "."), s.What)
		for _, r := range s.Resources {
			exists(r.Group, r.Resource)
		}
	}
}

// docs/replicate-fields.md has tables that are made of the code: run with -update to write them again.
func TestPage_is_what_the_table_says(t *testing.T) {
	const page, begin, end = "../../../docs/replicate-fields.md",
		"<!-- made of internal/replica/clean by go test ./internal/replica/clean -update -->\n", "<!-- end of what is made -->\n"
	content := string(must.Get(os.ReadFile(page))(t))
	before, rest, found := strings.Cut(content, begin)
	_, after, ended := strings.Cut(rest, end)
	require.True(t, found && ended, "%s does not say where the tables begin and end", page)
	want := before + begin + tables() + end + after
	if *update {
		require.NoError(t, os.WriteFile(page, []byte(want), 0o600))
	} else if content != want {
		t.Errorf("the tables in %s are not what the code says; run go test ./internal/replica/clean -update", page)
	}
}

func tables() string {
	var out strings.Builder
	out.WriteString("\n## Every object\n\n| fields | change | why |\n|---|---|---|\n")
	for _, rule := range Common {
		fmt.Fprintf(&out, "| %s | %s | %s |\n", ticked(rule.Paths, jsonscan.Path.String), rule.Does, rule.Why)
	}
	out.WriteString("\n## By kind\n\n| kind | fields | change | why |\n|---|---|---|---|\n")
	for _, k := range Kinds {
		for _, rule := range k.Rules {
			fmt.Fprintf(&out, "| %s | %s | %s | %s |\n", ticked(k.Resources, schema.GroupResource.String),
				ticked(rule.Paths, jsonscan.Path.String), rule.Does, rule.Why)
		}
	}
	out.WriteString("\n## Resources that are left out\n\nA resource that the file names is replicated all the same.\n\n" +
		"| resources | why |\n|---|---|\n")
	for _, e := range Exclusions {
		names := slices.Clone(e.Resources)
		if names == nil {
			names = []string{"*"}
		}
		fmt.Fprintf(&out, "| %s | %s |\n", ticked(names, func(name string) string {
			return schema.GroupResource{Group: e.Group, Resource: name}.String()
		}), e.Why)
	}
	out.WriteString("\n## Objects that are left out\n\nThese are never replicated.\n\n" +
		"| kind | objects | why |\n|---|---|---|\n")
	for _, s := range Singles {
		kinds := ticked(s.Resources, schema.GroupResource.String)
		if s.Resources == nil {
			kinds = "every kind"
		}
		fmt.Fprintf(&out, "| %s | %s | %s |\n", kinds, s.What, s.Why)
	}
	return out.String() + "\n"
}

func ticked[T any](all []T, text func(T) string) string {
	texts := make([]string, len(all))
	for i, v := range all {
		texts[i] = "`" + text(v) + "`"
	}
	return strings.Join(texts, "<br>")
}

// What a person has released in one cluster is not released in another one.
func TestSkips_what_a_replica_keeps(t *testing.T) {
	r := must.Get(New(Config{Replica: "store", Cluster: "east"}))(t)
	object := map[string]any{"metadata": map[string]any{"name": StatePrefix + "store", "namespace": "default"}}
	for resource, want := range map[string]bool{"configmaps": true, "secrets": false} {
		_, skips := r.Skips(core(resource), object)
		assert.Equal(t, want, skips, resource)
	}
}
