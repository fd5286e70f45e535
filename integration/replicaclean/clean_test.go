// SPDX-License-Identifier: Apache-2.0

// Package replicaclean tests that objects of one API server are taken by another one, once they are cleaned.
package replicaclean

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	pod  = `containers: [{name: a, image: x, env: [{name: e, value: f}]}]`
	near = `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [
  {topologyKey: zone, namespaces: [shop], labelSelector: {}}]}}`
	workload = `selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {` + pod + `, ` + near + `}}`
	once     = `template: {spec: {restartPolicy: Never, ` + pod + `}}`
	claim    = `accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}`
)

// objects are what a user creates, and what controllers of the source then write.
var objects = []struct{ kind, resource, object, patch string }{
	{"v1 ConfigMap", "configmaps", `metadata: {name: a, finalizers: [a/b]}, data: {a: b}`, ``},
	{"v1 Secret", "secrets", `metadata: {name: a}, stringData: {a: b}, immutable: true`, ``},
	{"v1 ServiceAccount", "serviceaccounts", `metadata: {name: a}, secrets: [{name: a-token-abcde}]`, ``},
	{"v1 Service", "services", `metadata: {name: a}, spec: {type: NodePort, ports: [{name: tcp, port: 80}, {name: udp, port: 81, protocol: UDP}]}`, ``},
	{"v1 Service", "services", `metadata: {name: b}, spec: {type: LoadBalancer, externalTrafficPolicy: Local, ports: [{port: 80}]}`, ``},
	{"v1 Service", "services", `metadata: {name: c}, spec: {clusterIP: None, ports: [{port: 80}], selector: {a: b}}`, ``},
	{"v1 Service", "services", `metadata: {name: d}, spec: {type: ExternalName, externalName: example.com}`, ``},
	{
		"v1 PersistentVolumeClaim", "persistentvolumeclaims", `metadata: {name: a}, spec: {` + claim + `}`,
		`metadata: {annotations: {pv.kubernetes.io/bound-by-controller: "yes"}}, spec: {volumeName: pvc-1}`,
	},
	{"v1 PersistentVolume", "persistentvolumes", `metadata: {name: a}, spec: {capacity: {storage: 1Gi}, accessModes: [ReadWriteOnce],
  hostPath: {path: /x}, claimRef: {namespace: shop, name: a, uid: u}}`, ``},
	{"v1 Pod", "pods", `metadata: {name: a}, spec: {serviceAccountName: runs, priorityClassName: system-node-critical, ` + pod + `}`, ``},
	{"v1 PodTemplate", "podtemplates", `metadata: {name: a}, template: {metadata: {labels: {a: b}}, spec: {` + pod + `}}`, ``},
	{"v1 ReplicationController", "replicationcontrollers", `metadata: {name: a}, spec: {selector: {a: b}, template: {metadata: {labels: {a: b}}, spec: {` + pod + `}}}`, ``},
	{"v1 ResourceQuota", "resourcequotas", `metadata: {name: a}, spec: {hard: {pods: 100}}`, ``},
	{"v1 Namespace", "namespaces", `metadata: {name: other}`, ``},
	{"apps/v1 Deployment", "deployments", `metadata: {name: a}, spec: {` + workload + `}`, `metadata: {annotations: {deployment.kubernetes.io/revision: "7"}}`},
	{"apps/v1 ReplicaSet", "replicasets", `metadata: {name: a}, spec: {` + workload + `}`, ``},
	{"apps/v1 DaemonSet", "daemonsets", `metadata: {name: a}, spec: {` + workload + `}`, `spec: {template: {metadata: {labels: {c: d}}}}`},
	{"apps/v1 StatefulSet", "statefulsets", `metadata: {name: a}, spec: {volumeClaimTemplates: [{metadata: {name: d}, spec: {` + claim + `}}], ` + workload + `}`, ``},
	{"batch/v1 Job", "jobs", `metadata: {name: a}, spec: {ttlSecondsAfterFinished: 5, ` + once + `}`, ``},
	{"batch/v1 CronJob", "cronjobs", `metadata: {name: a}, spec: {schedule: '* * * * *', jobTemplate: {spec: {` + once + `}}}`, ``},
	{"autoscaling/v2 HorizontalPodAutoscaler", "horizontalpodautoscalers", `metadata: {name: a}, spec: {maxReplicas: 3,
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: a}}`, ``},
	{"policy/v1 PodDisruptionBudget", "poddisruptionbudgets", `metadata: {name: a}, spec: {minAvailable: 1, selector: {}}`, ``},
	{"networking.k8s.io/v1 Ingress", "ingresses", `metadata: {name: a}, spec: {defaultBackend: {service: {name: a, port: {number: 80}}}}`, ``},
	{"networking.k8s.io/v1 NetworkPolicy", "networkpolicies", `metadata: {name: a}, spec: {podSelector: {}, ingress: [{from: [
  {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}]}]}`, ``},
	{"rbac.authorization.k8s.io/v1 Role", "roles", `metadata: {name: a}, rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]`, ``},
	{"rbac.authorization.k8s.io/v1 RoleBinding", "rolebindings", `metadata: {name: a}, roleRef: {apiGroup: rbac.authorization.k8s.io,
  kind: Role, name: a}, subjects: [{kind: ServiceAccount, name: a, namespace: shop}]`, ``},
	{
		"rbac.authorization.k8s.io/v1 ClusterRole", "clusterroles", `metadata: {name: a}, aggregationRule: {clusterRoleSelectors: [{matchLabels: {a: b}}]}`,
		`rules: [{apiGroups: [''], resources: [pods], verbs: [get]}]`,
	},
	{"storage.k8s.io/v1 StorageClass", "storageclasses", `metadata: {name: a}, provisioner: example.com/x`, ``},
	{"scheduling.k8s.io/v1 PriorityClass", "priorityclasses", `metadata: {name: a}, value: 7`, ``},
	{"admissionregistration.k8s.io/v1 ValidatingWebhookConfiguration", "validatingwebhookconfigurations", `metadata: {name: a}, webhooks: [
  {name: a.example.com, sideEffects: None, admissionReviewVersions: [v1], clientConfig: {service: {namespace: shop, name: a}}}]`, ``},
	{"apiextensions.k8s.io/v1 CustomResourceDefinition", "customresourcedefinitions", `metadata: {name: widgets.example.com}, spec: {
  group: example.com, scope: Namespaced, names: {plural: widgets, kind: Widget}, versions: [
  {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}`, ``},
}

// An object is applied, is what was applied, and neither a second apply nor a replacement changes it.
func TestClean_objects_are_taken_by_another_API_server_and_stay_as_they_are(t *testing.T) {
	testtier.Needs(t, testtier.All)
	source := connect(t, "shop", "--service-cluster-ip-range=10.1.0.0/24", "--service-node-port-range=20000-20100")
	target := connect(t, "copy", "--service-cluster-ip-range=10.2.0.0/24", "--service-node-port-range=30000-30100")
	rules := must.Get(clean.New(clean.Config{
		Replica: "r", Namespaces: map[string]string{"shop": "copy", "other": "elsewhere"}, Ignore: []jsonscan.Path{
			jsonscan.MustParsePath("spec.replicas"), jsonscan.MustParsePath("spec.template.spec.containers[*].env"),
		},
	}))(t)
	for _, o := range objects {
		t.Run(o.kind, func(t *testing.T) {
			api, kind, _ := strings.Cut(o.kind, " ")
			object := source.send(t, "POST", api, o.resource, "", "{apiVersion: "+api+", kind: "+kind+", "+o.object+"}")
			if o.patch != "" {
				object = source.send(t, "PATCH", api, o.resource, name(object), "{"+o.patch+"}")
			}
			group, _, grouped := strings.Cut(api, "/")
			resource := schema.GroupResource{Resource: o.resource}
			if grouped {
				resource.Group = group
			}
			require.NoError(t, rules.Object(resource, object))

			apply := func() map[string]any {
				return target.send(t, "APPLY", api, o.resource, name(object), text(t, object))
			}
			written := apply()
			assert.True(t, clean.Covers(object, written), "%v\n%v", object, clean.Project(object, written))
			assert.Equal(t, clean.Digest(object), clean.Digest(clean.Project(object, written)))
			if o.resource == "customresourcedefinitions" {
				return // its API server writes the status meanwhile
			}
			again := apply() // the API server writes a new claim once more
			assert.Equal(t, again, apply(), "applied again")

			rules.Retain(resource, object, again)
			replaced := target.send(t, "PUT", api, o.resource, name(object), text(t, object))
			assert.Equal(t, again, replaced, "replaced")
		})
	}
}

// server is an API server with a namespace.
type server struct {
	*rest.RESTClient
	namespace string
}

func connect(t *testing.T, namespace string, args ...string) *server {
	t.Helper()
	c := controlplane.ForTest(t, controlplane.Config{ServiceAccounts: true, APIServerArgs: args})
	cfg := rest.CopyConfig(c.RESTConfig())
	cfg.GroupVersion, cfg.NegotiatedSerializer = &schema.GroupVersion{}, scheme.Codecs.WithoutConversion()
	cfg.QPS = -1
	h := must.Get(rest.HTTPClientFor(cfg))(t)
	t.Cleanup(h.CloseIdleConnections)
	s := &server{must.Get(rest.UnversionedRESTClientForConfigAndClient(cfg, h))(t), namespace}
	s.send(t, "POST", "v1", "namespaces", "", "{metadata: {name: "+namespace+"}}")
	s.send(t, "POST", "v1", "serviceaccounts", "", "{metadata: {name: runs}}")
	return s
}

var global = map[string]bool{
	"namespaces": true, "persistentvolumes": true, "clusterroles": true, "storageclasses": true, "priorityclasses": true,
	"validatingwebhookconfigurations": true, "customresourcedefinitions": true,
}

// send returns what the API server answers to a body in YAML.
func (s *server) send(t *testing.T, verb, api, resource, name, body string) map[string]any {
	t.Helper()
	kind := map[string]string{"APPLY": "application/apply-patch+yaml", "PATCH": "application/merge-patch+json"}[verb]
	if kind == "" {
		kind = "application/json"
	}
	if verb == "APPLY" {
		verb = "PATCH"
	}
	r := s.Verb(verb).AbsPath(map[bool]string{true: "apis", false: "api"}[strings.Contains(api, "/")], api)
	if !global[resource] {
		r.Namespace(s.namespace)
	}
	if r.Resource(resource); name != "" {
		r.Name(name)
	}
	answer, err := r.Param("fieldManager", "kube-eventbridge").SetHeader("Content-Type", kind).SetHeader("Accept", "application/json").
		Body(must.Get(yaml.YAMLToJSON([]byte(body)))(t)).DoRaw(t.Context())
	require.NoError(t, err, "%s %s\n%s", verb, body, answer)
	var object map[string]any
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	require.NoError(t, d.Decode(&object))
	return object
}

func name(object map[string]any) string { return object["metadata"].(map[string]any)["name"].(string) }

func text(t *testing.T, object map[string]any) string {
	t.Helper()
	return string(must.Get(json.Marshal(object))(t))
}
