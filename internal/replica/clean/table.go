// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

// Kind has the rules for some resources.
type Kind struct {
	Resources []schema.GroupResource
	Rules     []Rule
}

// Rule says what happens to the values that its paths name. A resource's rules are applied in their order.
type Rule struct {
	Paths []jsonscan.Path
	// Does says what happens, for people: removed, or more.
	Does string
	// Why says why.
	Why string

	// when reports whether the rule applies to an object; without it, it always does.
	when func(*Rules, map[string]any) bool
	// value returns what a value becomes, and whether it stays. Without it, the value is removed and is the target's.
	value func(r *Rules, object map[string]any, value any) (any, bool)
	// serverKeeps says that an API server keeps what a request that replaces the object does not have.
	serverKeeps bool
}

const (
	removed      = "removed"
	nameMapped   = "mapped to the target's namespace"
	selectMapped = "`kubernetes.io/metadata.name` in it is mapped to the target's namespaces"
	lastApplied  = "kubectl.kubernetes.io/last-applied-configuration"
)

// Common are the rules for every object. Those of [Kinds] are applied before.
var Common = []Rule{
	{
		Paths: paths("metadata.uid", "metadata.resourceVersion", "metadata.generation", "metadata.creationTimestamp",
			"metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds", "metadata.selfLink",
			"metadata.managedFields"),
		Does: removed, Why: "The target's API server sets them, and refuses some of another one.",
	},
	{
		Paths: paths("metadata.generateName"), Does: removed,
		Why: "The object has its name already.",
	},
	{
		Paths: paths("metadata.finalizers"), Does: removed,
		Why: "The controllers that would remove them work on the source's object. A deletion in the target would not end.",
	},
	{
		Paths: paths("metadata.ownerReferences"), Does: "removed, unless `owned` is `remap`",
		Why:  "Owners have other uids in the target. Its garbage collector would delete the object.",
		when: func(r *Rules, _ map[string]any) bool { return r.Owned != Remap },
	},
	{
		Paths: paths("status"), Does: "removed, unless `status` is `true`",
		Why:  "It tells what the controllers of the source have seen. The target has its own.",
		when: func(r *Rules, _ map[string]any) bool { return !r.Status },
	},
	{
		Paths: annotations(lastApplied), Does: removed,
		Why: "kubectl would take it for what was applied to the target.",
	},
	{
		Paths: slices.Concat(
			annotations("argocd.argoproj.io/tracking-id", "argocd.argoproj.io/installation-id",
				"config.k8s.io/owning-inventory"),
			labels("argocd.argoproj.io/instance", "kustomize.toolkit.fluxcd.io/name",
				"kustomize.toolkit.fluxcd.io/namespace", "helm.toolkit.fluxcd.io/name", "helm.toolkit.fluxcd.io/namespace",
				"applyset.kubernetes.io/part-of", "addonmanager.kubernetes.io/mode")),
		Does: removed,
		Why: "A tool deletes objects by this mark that its own source does not have. In the target the same tool would " +
			"delete the copy.",
	},
	{
		Paths: paths("metadata.labels", "metadata.annotations"),
		Does:  "those removed that begin with `" + Domain + "` or `" + rancher + "`",
		Why: "The former say which replica an object belongs to: the source's value is of another one. k3s and Rancher " +
			"delete objects by the latter.",
		value: func(_ *Rules, _ map[string]any, value any) (any, bool) {
			all, _ := value.(map[string]any)
			for name := range all {
				if strings.HasPrefix(name, Domain) || strings.HasPrefix(name, rancher) {
					delete(all, name)
				}
			}
			return value, len(all) > 0
		},
	},
}

const rancher = "objectset.rio.cattle.io/"

var (
	namespaces = core("namespaces")
	bindings   = []schema.GroupResource{rbac("rolebindings"), rbac("clusterrolebindings")}
	webhooks   = []schema.GroupResource{
		admission("mutatingwebhookconfigurations"), admission("validatingwebhookconfigurations"),
	}
)

// Kinds are the rules for built-in kinds. A resource may be in several entries. Custom resources have none: namespaces
// that their fields name are not mapped.
var Kinds = slices.Concat([]Kind{
	{[]schema.GroupResource{namespaces}, []Rule{
		{
			Paths: paths("spec"), Does: removed,
			Why: "It has nothing but the finalizer by which the source's controllers empty the namespace.",
		},
		{
			Paths: labels("kubernetes.io/metadata.name"), Does: removed,
			Why: "The API server sets it, to a name that may differ.",
		},
		{
			Paths: paths("status"), Does: removed, Why: "Its phase is of the source, whatever `status` says.",
		},
	}},
	{[]schema.GroupResource{core("pods")}, []Rule{
		{
			Paths: paths("spec.nodeName"), Does: removed, Why: "The target's scheduler chooses one of its nodes.",
		},
		{
			Paths: paths("spec.priority", "spec.preemptionPolicy"), Does: removed,
			Why: "The API server computes them from the PriorityClass, and refuses other values.",
		},
		{
			Paths: paths("spec.ephemeralContainers"), Does: removed, Why: "A pod cannot be created with them.",
		},
		{
			Paths: paths("spec.containers[*].volumeMounts[*]", "spec.initContainers[*].volumeMounts[*]"),
			Does:  "the mount of a generated token's Secret is removed", Why: "The volume is removed, see below.",
			value: func(_ *Rules, object map[string]any, mount any) (any, bool) {
				spec, _ := object["spec"].(map[string]any)
				volumes, _ := spec["volumes"].([]any)
				return mount, !slices.ContainsFunc(volumes, func(v any) bool {
					return tokenVolume(v) && member(v, "name") == member(mount, "name")
				})
			},
		},
		{
			Paths: paths("spec.volumes[*]"), Does: "the volume of a generated token's Secret is removed",
			Why: "That Secret exists in the source only. A volume `kube-api-access-…` stays: it names nothing of a cluster.",
			value: func(_ *Rules, _ map[string]any, volume any) (any, bool) {
				return volume, !tokenVolume(volume)
			},
		},
	}},
	{[]schema.GroupResource{core("services")}, []Rule{
		{
			Paths: paths("spec.clusterIP", "spec.clusterIPs"), Does: "removed, unless it is `None`",
			Why:         "Addresses are of the source's range. The target allocates its own.",
			when:        func(_ *Rules, o map[string]any) bool { return in(o, "spec", "clusterIP") != "None" },
			serverKeeps: true,
		},
		{
			Paths: paths("spec.healthCheckNodePort"), Does: "removed, unless a user chose it",
			Why:         "The port was allocated among the source's nodes. How to tell: see the next line.",
			when:        func(_ *Rules, o map[string]any) bool { return !chosen(o, "healthCheckNodePort", nil) },
			serverKeeps: true,
		},
		{
			Paths: paths("spec.ports[*]"), Does: "`nodePort` is removed, unless a user chose it",
			Why: "The port was allocated among the source's nodes. A user chose it if managedFields or the annotation " +
				"`" + lastApplied + "` have it. Without both nothing tells so.",
			value: func(_ *Rules, object map[string]any, value any) (any, bool) {
				if port, isMap := value.(map[string]any); isMap && port["nodePort"] != nil && !chosen(object, "nodePort", port) {
					delete(port, "nodePort")
				}
				return value, true
			},
		},
	}},
	{[]schema.GroupResource{core("persistentvolumeclaims")}, []Rule{
		{
			Paths: paths("spec.volumeName"),
			Does:  "removed, if the annotation `pv.kubernetes.io/bound-by-controller` is there",
			Why:   "The source's controller chose the volume. One that a user chose stays.",
			when: func(_ *Rules, o map[string]any) bool {
				return in(o, "metadata", "annotations", "pv.kubernetes.io/bound-by-controller") != nil
			},
		},
		{
			Paths: annotations("pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller",
				"volume.kubernetes.io/selected-node", "volume.kubernetes.io/storage-provisioner",
				"volume.beta.kubernetes.io/storage-provisioner"),
			Does: removed,
			Why:  "With them the target would take the claim for bound, or for one of another node or provisioner.",
		},
		mapsName("spec.dataSourceRef.namespace"),
	}},
	{[]schema.GroupResource{core("persistentvolumes")}, []Rule{
		{
			Paths: paths("spec.claimRef.uid", "spec.claimRef.resourceVersion"), Does: removed,
			Why: "The claim has another uid in the target. The volume would count as released.",
		},
		{
			Paths: annotations("pv.kubernetes.io/bound-by-controller"), Does: removed,
			Why: "The target's controller sets it, if it binds.",
		},
		mapsName("spec.claimRef.namespace"),
	}},
	{[]schema.GroupResource{core("serviceaccounts")}, []Rule{
		{
			Paths: paths("secrets[*]"), Does: "`<name>-token-…` is removed",
			Why: "The Secret was generated, and is not replicated.",
			value: func(_ *Rules, object map[string]any, secret any) (any, bool) {
				name, _ := in(object, "metadata", "name").(string)
				return secret, !strings.HasPrefix(text(member(secret, "name")), name+"-token-")
			},
		},
	}},
	{[]schema.GroupResource{apps("deployments"), apps("replicasets")}, []Rule{{
		Paths: annotations("deployment.kubernetes.io/revision", "deployment.kubernetes.io/revision-history",
			"deployment.kubernetes.io/desired-replicas", "deployment.kubernetes.io/max-replicas"),
		Does: removed, Why: "The deployment controller of the target counts its own revisions.",
	}}},
	{[]schema.GroupResource{apps("daemonsets")}, []Rule{{
		Paths: annotations("deprecated.daemonset.template.generation"), Does: removed,
		Why: "The API server counts it, and would never have the source's number.",
	}}},
	{[]schema.GroupResource{apps("statefulsets")}, []Rule{{
		Paths: paths("spec.volumeClaimTemplates[*].metadata.creationTimestamp"), Does: removed, Why: nullTime,
	}}},
	{[]schema.GroupResource{{Group: "batch", Resource: "jobs"}}, []Rule{
		{
			Paths: slices.Concat(paths("spec.selector"), labels(jobLabels...), labelsOf("spec.template.metadata", jobLabels...)),
			Does:  "removed, unless `spec.manualSelector` is `true`",
			Why:   "They have the uid of the source's Job. The target generates its own.",
			when:  func(_ *Rules, o map[string]any) bool { return in(o, "spec", "manualSelector") != true },
		},
		{
			Paths: annotations("batch.kubernetes.io/job-tracking"), Does: removed, Why: "Only the API server may set it.",
		},
		{
			Paths: paths("spec.ttlSecondsAfterFinished"), Does: removed,
			Why: "The target would delete the Job before the source does, and it would be created, and run, again.",
		},
	}},
	{[]schema.GroupResource{rbac("clusterroles")}, []Rule{{
		Paths: paths("rules"), Does: "removed, if there is an `aggregationRule`",
		Why:  "The target's controller fills them in from its own ClusterRoles.",
		when: func(_ *Rules, o map[string]any) bool { return o["aggregationRule"] != nil },
	}}},
	{bindings, []Rule{{
		Paths: paths("subjects[*]"),
		Does: "the namespace of a ServiceAccount, also within `system:serviceaccount:…` and `system:serviceaccounts:…`, is " +
			nameMapped,
		Why:   "The binding would name the ServiceAccounts of another namespace, which may be somebody else's.",
		value: mapSubject,
	}}},
	{webhooks, []Rule{
		mapsName("webhooks[*].clientConfig.service.namespace"), mapsSelector("webhooks[*].namespaceSelector"),
	}},
	{
		[]schema.GroupResource{admission("mutatingadmissionpolicies"), admission("validatingadmissionpolicies")},
		[]Rule{mapsSelector("spec.matchConstraints.namespaceSelector")},
	},
	{
		[]schema.GroupResource{admission("mutatingadmissionpolicybindings"), admission("validatingadmissionpolicybindings")},
		[]Rule{mapsName("spec.paramRef.namespace"), mapsSelector("spec.matchResources.namespaceSelector")},
	},
	{[]schema.GroupResource{{Group: "networking.k8s.io", Resource: "networkpolicies"}}, []Rule{
		mapsSelector("spec.ingress[*].from[*].namespaceSelector", "spec.egress[*].to[*].namespaceSelector"),
	}},
	{[]schema.GroupResource{{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}}, []Rule{
		{
			Paths: paths("status"), Does: removed,
			Why: "It tells which versions the source has stored, whatever `status` says. The target has its own.",
		},
		mapsName("spec.conversion.webhook.clientConfig.service.namespace"),
	}},
	{[]schema.GroupResource{{Group: "certificates.k8s.io", Resource: "certificatesigningrequests"}}, []Rule{{
		Paths: paths("spec.username", "spec.uid", "spec.groups", "spec.extra"), Does: removed,
		Why: "The API server sets them to who creates the object.",
	}}},
	{[]schema.GroupResource{{Group: "apiregistration.k8s.io", Resource: "apiservices"}}, []Rule{
		mapsName("spec.service.namespace"),
	}},
}, []Kind{
	{[]schema.GroupResource{core("pods")}, podSpec("spec")},
	{[]schema.GroupResource{core("podtemplates")}, podTemplate("template")},
	{
		[]schema.GroupResource{
			core("replicationcontrollers"), apps("deployments"), apps("replicasets"), apps("statefulsets"),
			apps("daemonsets"),
			{Group: "batch", Resource: "jobs"},
		},
		podTemplate("spec.template"),
	},
	{[]schema.GroupResource{{Group: "batch", Resource: "cronjobs"}}, slices.Concat([]Rule{
		{Paths: paths("spec.jobTemplate.metadata.creationTimestamp"), Does: removed, Why: nullTime},
	}, podTemplate("spec.jobTemplate.spec.template"))},
})

const nullTime = "Older API servers write `null` there, newer ones nothing."

var jobLabels = []string{
	"controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name",
}

func podTemplate(at string) []Rule {
	return slices.Concat([]Rule{
		{Paths: paths(at + ".metadata.creationTimestamp"), Does: removed, Why: nullTime},
	}, podSpec(at+".spec"))
}

func podSpec(at string) []Rule {
	var names, selectors []string
	for _, term := range []string{
		".affinity[*].requiredDuringSchedulingIgnoredDuringExecution[*]",
		".affinity[*].preferredDuringSchedulingIgnoredDuringExecution[*].podAffinityTerm",
	} {
		names = append(names, at+term+".namespaces[*]")
		selectors = append(selectors, at+term+".namespaceSelector")
	}
	return []Rule{mapsName(names...), mapsSelector(selectors...)}
}

// ofResource has the rules of [Kinds].
var ofResource = func() map[schema.GroupResource][]*Rule {
	all := map[schema.GroupResource][]*Rule{}
	for _, kind := range Kinds {
		for _, resource := range kind.Resources {
			for i := range kind.Rules {
				all[resource] = append(all[resource], &kind.Rules[i])
			}
		}
	}
	return all
}()

// rulesOf returns the rules for a resource in the order in which they are applied: a rule of [Kinds] may look at what
// one of [Common] removes.
func rulesOf(resource schema.GroupResource) iter.Seq[*Rule] {
	return func(yield func(*Rule) bool) {
		for _, rule := range ofResource[resource] {
			if !yield(rule) {
				return
			}
		}
		for i := range Common {
			if !yield(&Common[i]) {
				return
			}
		}
	}
}

func mapsName(at ...string) Rule {
	return Rule{
		Paths: paths(at...), Does: nameMapped, Why: "It names a namespace of the source.",
		value: func(r *Rules, _ map[string]any, value any) (any, bool) { return r.reference(value), true },
	}
}

// reference returns the target of a value that names a namespace.
func (r *Rules) reference(value any) any {
	if name, isText := value.(string); isText {
		if target, mapped := r.Namespaces[name]; mapped {
			return target
		}
	}
	return value
}

func mapsSelector(at ...string) Rule {
	return Rule{
		Paths: paths(at...), Does: selectMapped, Why: "It names namespaces of the source.",
		value: func(r *Rules, _ map[string]any, selector any) (any, bool) {
			const name = "kubernetes.io/metadata.name"
			if matches, _ := member(selector, "matchLabels").(map[string]any); matches[name] != nil {
				matches[name] = r.reference(matches[name])
			}
			expressions, _ := member(selector, "matchExpressions").([]any)
			for _, e := range expressions {
				values, _ := member(e, "values").([]any)
				for i := range values {
					if member(e, "key") == name {
						values[i] = r.reference(values[i])
					}
				}
			}
			return selector, true
		},
	}
}

func mapSubject(r *Rules, _ map[string]any, value any) (any, bool) {
	subject, isMap := value.(map[string]any)
	if !isMap {
		return value, true
	}
	name := text(subject["name"])
	switch subject["kind"] {
	case "ServiceAccount":
		if subject["namespace"] != nil {
			subject["namespace"] = r.reference(subject["namespace"])
		}
	case "Group":
		if namespace, found := strings.CutPrefix(name, "system:serviceaccounts:"); found {
			subject["name"] = "system:serviceaccounts:" + r.reference(namespace).(string)
		}
	case "User":
		if rest, found := strings.CutPrefix(name, "system:serviceaccount:"); found {
			namespace, account, _ := strings.Cut(rest, ":")
			subject["name"] = "system:serviceaccount:" + r.reference(namespace).(string) + ":" + account
		}
	}
	return value, true
}

// tokenName is what the names of Secrets end with that a controller generated for a ServiceAccount.
var tokenName = regexp.MustCompile(`-token-[a-z0-9]{5}$`)

// tokenVolume reports whether a volume is one that older API servers mounted into each pod: named as its Secret.
func tokenVolume(volume any) bool {
	name := text(member(volume, "name"))
	return tokenName.MatchString(name) && member(member(volume, "secret"), "secretName") == name
}

// chosen reports whether a user chose the value that spec of a Service, or its port, has in a field.
func chosen(service map[string]any, field string, port map[string]any) bool {
	applied, _ := in(service, "metadata", "annotations", lastApplied).(string)
	var last map[string]any
	if json.Unmarshal([]byte(applied), &last) == nil && has(in(last, "spec"), field, port, "") {
		return true
	}
	entries, _ := in(service, "metadata", "managedFields").([]any)
	return slices.ContainsFunc(entries, func(e any) bool {
		return has(member(member(e, "fieldsV1"), "f:spec"), field, port, "f:")
	})
}

// has reports whether spec, or the port in it that is the same as port, has a field. Names begin with the prefix.
func has(spec any, field string, port map[string]any, prefix string) bool {
	if port == nil {
		return member(spec, prefix+field) != nil
	}
	switch ports := member(spec, prefix+"ports").(type) {
	case []any:
		return slices.ContainsFunc(ports, func(p any) bool {
			return portKey(p) == portKey(port) && member(p, field) != nil
		})
	case map[string]any:
		for name, fields := range ports {
			var key any
			if json.Unmarshal([]byte(strings.TrimPrefix(name, "k:")), &key) == nil && portKey(key) == portKey(port) &&
				member(fields, prefix+field) != nil {
				return true
			}
		}
	}
	return false
}

// portKey has the number and the protocol of a port, which an API server tells ports of a Service apart by.
func portKey(port any) string {
	return fmt.Sprint(member(port, "port"), "/", cmp.Or(text(member(port, "protocol")), "TCP"))
}

// member returns a member of an object, or nil.
func member(object any, name string) any {
	m, _ := object.(map[string]any)
	return m[name]
}

// in returns what is in an object below some names, or nil.
func in(object any, names ...string) any {
	for _, name := range names {
		object = member(object, name)
	}
	return object
}

func paths(all ...string) []jsonscan.Path {
	parsed := make([]jsonscan.Path, len(all))
	for i, s := range all {
		parsed[i] = jsonscan.MustParsePath(s)
	}
	return parsed
}

func labels(names ...string) []jsonscan.Path { return labelsOf("metadata", names...) }

func labelsOf(metadata string, names ...string) []jsonscan.Path {
	return keys(metadata+".labels", names)
}

func annotations(names ...string) []jsonscan.Path { return keys("metadata.annotations", names) }

func keys(at string, names []string) []jsonscan.Path {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = at + `["` + name + `"]`
	}
	return paths(all...)
}

func core(resource string) schema.GroupResource { return schema.GroupResource{Resource: resource} }

func apps(resource string) schema.GroupResource {
	return schema.GroupResource{Group: "apps", Resource: resource}
}

func rbac(resource string) schema.GroupResource {
	return schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: resource}
}

func admission(resource string) schema.GroupResource {
	return schema.GroupResource{Group: "admissionregistration.k8s.io", Resource: resource}
}
