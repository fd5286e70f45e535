// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Exclusion names resources that are left out unless a configuration names them.
type Exclusion struct {
	Group     string
	Resources []string // none means all of the group
	Why       string
}

// Exclusions are the resources that are left out by default.
var Exclusions = []Exclusion{
	{"", []string{"nodes"}, "Each kubelet makes its own."},
	{"", []string{"events"}, "They tell what has happened in the source."},
	{"events.k8s.io", nil, "They tell what has happened in the source."},
	{"", []string{"endpoints"}, "A controller makes them of Services and pods. Addresses are of the source."},
	{"discovery.k8s.io", nil, "A controller makes them of Services and pods. Addresses are of the source."},
	{"", []string{"persistentvolumes"}, "They name disks of the source. A deletion in the target may delete the disk."},
	{"", []string{"componentstatuses", "bindings"}, "They are not stored."},
	{"apps", []string{"controllerrevisions"}, "Controllers keep their history in them."},
	{"coordination.k8s.io", nil, "Their holders are processes of the source."},
	{
		"storage.k8s.io",
		[]string{"csinodes", "csistoragecapacities", "volumeattachments"},
		"Drivers and controllers make them for nodes of the source.",
	},
	{"resource.k8s.io", []string{"resourceslices"}, "Drivers make them for nodes of the source."},
	{"networking.k8s.io", []string{"ipaddresses", "servicecidrs"}, "They tell what addresses the source has allocated."},
	{"flowcontrol.apiserver.k8s.io", nil, "They bound the load of one API server, and each makes its own."},
	{"apiregistration.k8s.io", nil, "Each API server makes its own. One whose service is missing fails discovery."},
	{
		"certificates.k8s.io",
		[]string{"certificatesigningrequests", "podcertificaterequests"},
		"They are requests to the signers of the source.",
	},
	{"authentication.k8s.io", nil, "They are questions, and are not stored."},
	{"authorization.k8s.io", nil, "They are questions, and are not stored."},
	{"internal.apiserver.k8s.io", nil, "API servers keep in them how they store objects."},
	{"storagemigration.k8s.io", nil, "They are about how the source stores objects."},
	{"metrics.k8s.io", nil, "They are measured, and not stored."},
	{"custom.metrics.k8s.io", nil, "They are measured, and not stored."},
	{"external.metrics.k8s.io", nil, "They are measured, and not stored."},
	{"cert-manager.io", []string{"certificaterequests"}, "cert-manager makes them of Certificates."},
	{
		"cilium.io",
		[]string{"ciliumendpoints", "ciliumendpointslices", "ciliumidentities", "ciliumnodes"},
		"Cilium makes them for pods and nodes of the source.",
	},
	{"reports.kyverno.io", nil, "Kyverno makes them of what the source has."},
	{
		"kyverno.io",
		[]string{
			"admissionreports", "backgroundscanreports", "clusteradmissionreports", "clusterbackgroundscanreports",
			"updaterequests",
		},
		"Kyverno makes them of what the source has.",
	},
	{"wgpolicyk8s.io", nil, "Policy engines make these reports of what the source has."},
}

// Excluded reports whether a resource is left out unless a configuration names it, and why. Whoever names it gets it.
func Excluded(resource schema.GroupResource) (why string, excluded bool) {
	for _, e := range Exclusions {
		if e.Group == resource.Group && (e.Resources == nil || slices.Contains(e.Resources, resource.Resource)) {
			return e.Why, true
		}
	}
	return "", false
}

// Single says which objects of resources are left out, always.
type Single struct {
	Resources []schema.GroupResource // none means all
	// What says which objects.
	What string
	// Why says why, for people.
	Why string

	is func(r *Rules, resource schema.GroupResource, object map[string]any) bool
}

// Singles are the objects that are left out.
var Singles = []Single{
	{
		nil, "an object of another replica", "It was replicated into the source. It is not replicated out of it again.",
		(*Rules).Replicated,
	},
	{
		[]schema.GroupResource{{Resource: "configmaps"}},
		"what a replica keeps, `kube-eventbridge-replica-*`",
		"It says what a person has released in the cluster where the replica writes.",
		func(_ *Rules, _ schema.GroupResource, o map[string]any) bool {
			return strings.HasPrefix(text(in(o, "metadata", "name")), StatePrefix)
		},
	},
	{
		nil, "an object with a controlling owner, if `owned` is `skip`", "The owner's controller makes it in the target.",
		func(r *Rules, _ schema.GroupResource, o map[string]any) bool {
			references, _ := in(o, "metadata", "ownerReferences").([]any)
			return r.Owned == Skip &&
				slices.ContainsFunc(references, func(v any) bool { return member(v, "controller") == true })
		},
	},
	{
		nil, "an object of a namespace that keeps its name, if another one is mapped to that",
		"Objects of two namespaces would get into one.",
		func(r *Rules, _ schema.GroupResource, o map[string]any) bool {
			_, ok := r.TargetNamespace(text(in(o, "metadata", "namespace")))
			return !ok
		},
	},
	{
		[]schema.GroupResource{namespaces},
		"the Namespace itself, if another one is mapped to its name",
		"Two Namespaces would become one.",
		func(r *Rules, _ schema.GroupResource, o map[string]any) bool {
			_, ok := r.TargetNamespace(text(in(o, "metadata", "name")))
			return !ok
		},
	},
	{
		[]schema.GroupResource{namespaces},
		"`default`, `kube-system`, `kube-public` and `kube-node-lease`, also as the target of another one",
		"Each cluster has its own.",
		func(r *Rules, _ schema.GroupResource, o map[string]any) bool {
			target, _ := r.TargetNamespace(text(in(o, "metadata", "name")))
			return slices.Contains([]string{"default", "kube-system", "kube-public", "kube-node-lease"}, target)
		},
	},
	{
		[]schema.GroupResource{core("serviceaccounts")}, "`default`", "A controller makes it in each namespace.", named("default"),
	},
	{
		[]schema.GroupResource{core("configmaps")},
		"`kube-root-ca.crt`",
		"A controller makes it in each namespace, with the cluster's own certificate.", named("kube-root-ca.crt"),
	},
	{
		[]schema.GroupResource{core("configmaps")},
		"one with the annotation `" + leader + "`",
		"Its holder is a process of the source. Controllers of the target would wait for it.",
		func(_ *Rules, _ schema.GroupResource, o map[string]any) bool {
			return in(o, "metadata", "annotations", leader) != nil
		},
	},
	{
		[]schema.GroupResource{core("secrets")},
		"one of type `kubernetes.io/service-account-token`",
		"The token is valid in the source only.", typed("kubernetes.io/service-account-token"),
	},
	{
		[]schema.GroupResource{core("secrets")},
		"one of type `bootstrap.kubernetes.io/token`",
		"With it a machine joins a cluster. It must not join another one.", typed("bootstrap.kubernetes.io/token"),
	},
	{
		[]schema.GroupResource{core("services")},
		"`default/kubernetes`", "Each API server makes its own.",
		func(_ *Rules, _ schema.GroupResource, o map[string]any) bool {
			return in(o, "metadata", "name") == "kubernetes" && in(o, "metadata", "namespace") == "default"
		},
	},
	{
		[]schema.GroupResource{core("pods")},
		"one with the annotation `" + mirror + "`",
		"A kubelet shows a pod in it that a file of its node describes.",
		func(_ *Rules, _ schema.GroupResource, o map[string]any) bool {
			return in(o, "metadata", "annotations", mirror) != nil
		},
	},
	{
		[]schema.GroupResource{core("pods")},
		"one that has ended (phase `Succeeded` or `Failed`)", "It would run again.",
		func(_ *Rules, _ schema.GroupResource, o map[string]any) bool {
			phase := in(o, "status", "phase")
			return phase == "Succeeded" || phase == "Failed"
		},
	},
	{
		[]schema.GroupResource{{Group: "batch", Resource: "jobs"}},
		"one that has ended (condition `Complete` or `Failed`)",
		"It would run again.",
		func(_ *Rules, _ schema.GroupResource, o map[string]any) bool {
			conditions, _ := in(o, "status", "conditions").([]any)
			return slices.ContainsFunc(conditions, func(c any) bool {
				kind := member(c, "type")
				return (kind == "Complete" || kind == "Failed") && member(c, "status") == "True"
			})
		},
	},
	{
		[]schema.GroupResource{rbac("roles"), rbac("rolebindings"), rbac("clusterroles"), rbac("clusterrolebindings")},
		"one with the label `" + bootstrapping + "`", "Each API server makes its own, and changes it back.",
		func(_ *Rules, _ schema.GroupResource, o map[string]any) bool {
			return in(o, "metadata", "labels", bootstrapping) != nil
		},
	},
	{
		[]schema.GroupResource{{Group: "scheduling.k8s.io", Resource: "priorityclasses"}},
		"one whose name begins with `system-`",
		"Each API server makes its own, and refuses others.",
		func(_ *Rules, _ schema.GroupResource, o map[string]any) bool {
			return strings.HasPrefix(text(in(o, "metadata", "name")), "system-")
		},
	},
}

// StatePrefix is before the name of a replica in the name of the ConfigMap, the NATS consumer and the Kafka group that
// it has.
const StatePrefix = "kube-eventbridge-replica-"

const (
	leader        = "control-plane.alpha.kubernetes.io/leader"
	mirror        = "kubernetes.io/config.mirror"
	bootstrapping = "kubernetes.io/bootstrapping"
)

// Skips reports whether an object of the source, which is not yet cleaned, is left out, and why.
func (r *Rules) Skips(resource schema.GroupResource, object map[string]any) (why string, skip bool) {
	for _, s := range Singles {
		if (s.Resources == nil || slices.Contains(s.Resources, resource)) && s.is(r, resource, object) {
			return s.Why, true
		}
	}
	return "", false
}

// Replicated reports whether an object of the source was replicated into it. Such a one has the label of a replica and
// an origin with its own resource and name. Once one of them is taken away it is the source's own. So is a copy under
// another name, and one that says to be a copy of itself: somebody has brought it back from a target.
func (r *Rules) Replicated(resource schema.GroupResource, object map[string]any) bool {
	metadata := object["metadata"]
	origin := strings.Split(text(in(metadata, "annotations", Origin)), "/")
	if in(metadata, "labels", Label) == nil || len(origin) != 5 {
		return false
	}
	name, namespace := text(member(metadata, "name")), cmp.Or(text(member(metadata, "namespace")), "_")
	if origin[1] != cmp.Or(resource.Group, "core") || origin[2] != resource.Resource {
		return false
	}
	if origin[0] == r.Cluster && origin[3] == namespace && origin[4] == name {
		return false
	}
	return origin[4] == name || resource == namespaces
}

func named(name string) func(*Rules, schema.GroupResource, map[string]any) bool {
	return func(_ *Rules, _ schema.GroupResource, o map[string]any) bool {
		return in(o, "metadata", "name") == name
	}
}

func typed(name string) func(*Rules, schema.GroupResource, map[string]any) bool {
	return func(_ *Rules, _ schema.GroupResource, o map[string]any) bool { return o["type"] == name }
}
