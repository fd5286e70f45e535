// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What replication changes, written down a second time: docs/replicate-fields.md is made of a table that the program
// uses. A path has a step for each member; * is each element or member.

// absent are fields that no object of the target has.
var absent = [][]string{
	{"metadata", "generateName"},
	{"metadata", "finalizers"},
	{"metadata", "ownerReferences"},
	{"metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration"},
	{"metadata", "annotations", "argocd.argoproj.io/tracking-id"},
	{"metadata", "labels", "argocd.argoproj.io/instance"},
	{"metadata", "annotations", "pv.kubernetes.io/bound-by-controller"},
	{"metadata", "annotations", "pv.kubernetes.io/bind-completed"},
	{"metadata", "annotations", "volume.kubernetes.io/selected-node"},
	{"metadata", "annotations", "volume.kubernetes.io/storage-provisioner"},
	{"metadata", "annotations", "deployment.kubernetes.io/revision"},
	{"metadata", "annotations", "deployment.kubernetes.io/desired-replicas"},
}

// unlike are the fields in which objects differ, by resource, or by resource and name.
var unlike = map[string][][]string{
	"": slices.Concat(absent, [][]string{
		{"metadata", "uid"},
		{"metadata", "resourceVersion"},
		{"metadata", "generation"},
		{"metadata", "creationTimestamp"},
		{"metadata", "managedFields"},
		{"metadata", "deletionTimestamp"},
		{"metadata", "deletionGracePeriodSeconds"},
		{"status"},
	}),
	"namespaces": {{"spec"}, {"metadata", "labels", "kubernetes.io/metadata.name"}},
	"pods":       {{"spec", "priority"}, {"spec", "preemptionPolicy"}},
	"pods old-token": {
		{"spec", "containers", "*", "volumeMounts", "name=runs-token-abcde"}, {"spec", "volumes", "name=runs-token-abcde"},
	},
	"serviceaccounts": {{"secrets", "name=runs-token-abcde"}},
	"services node-port": {
		{"spec", "clusterIP"}, {"spec", "clusterIPs"}, {"spec", "ports", "*", "nodePort"},
	},
	"services chosen":             {{"spec", "clusterIP"}, {"spec", "clusterIPs"}},
	"persistentvolumeclaims full": {{"spec", "volumeName"}},
	"persistentvolumes":           {{"spec", "claimRef", "uid"}, {"spec", "claimRef", "resourceVersion"}},
	"daemonsets":                  {{"metadata", "annotations", "deprecated.daemonset.template.generation"}},
	"jobs":                        {{"spec", "ttlSecondsAfterFinished"}},
	"jobs full": {
		{"spec", "selector"},
		{"spec", "template", "metadata", "labels", "batch.kubernetes.io/controller-uid"},
		{"spec", "template", "metadata", "labels", "controller-uid"},
		{"spec", "template", "metadata", "labels", "batch.kubernetes.io/job-name"},
		{"spec", "template", "metadata", "labels", "job-name"},
		{"metadata", "labels", "batch.kubernetes.io/controller-uid"},
		{"metadata", "labels", "controller-uid"},
		{"metadata", "labels", "batch.kubernetes.io/job-name"},
		{"metadata", "labels", "job-name"},
	},
	"clusterroles example.com:aggregated": {{"rules"}},
	"certificatesigningrequests": {
		{"spec", "username"}, {"spec", "uid"}, {"spec", "groups"}, {"spec", "extra"},
	},
	"pods bound": {{"spec", "nodeName"}, {"spec", "ephemeralContainers"}},
}

const metadataName = "kubernetes.io/metadata.name"

// inSelector are the places in a selector of namespaces that have names.
func inSelector(at ...string) [][]string {
	return [][]string{
		slices.Concat(at, []string{"matchLabels", metadataName}),
		slices.Concat(at, []string{"matchExpressions", "key=" + metadataName, "values", "*"}),
	}
}

// inPod are the places in the spec of a pod that name namespaces.
func inPod(at ...string) (all [][]string) {
	for _, which := range []string{"podAffinity", "podAntiAffinity"} {
		required := slices.Concat(at, []string{"affinity", which, "requiredDuringSchedulingIgnoredDuringExecution", "*"})
		preferred := slices.Concat(at, []string{
			"affinity", which, "preferredDuringSchedulingIgnoredDuringExecution", "*", "podAffinityTerm",
		})
		for _, term := range [][]string{required, preferred} {
			all = append(all, slices.Concat(term, []string{"namespaces", "*"}))
			all = append(all, inSelector(slices.Concat(term, []string{"namespaceSelector"})...)...)
		}
	}
	return all
}

// mapped are the fields that name namespaces, by resource.
var mapped = map[string][][]string{
	"":                       {{"metadata", "namespace"}},
	"namespaces":             {{"metadata", "name"}},
	"pods":                   inPod("spec"),
	"podtemplates":           inPod("template", "spec"),
	"replicationcontrollers": inPod("spec", "template", "spec"),
	"deployments":            inPod("spec", "template", "spec"),
	"replicasets":            inPod("spec", "template", "spec"),
	"daemonsets":             inPod("spec", "template", "spec"),
	"statefulsets":           inPod("spec", "template", "spec"),
	"jobs":                   inPod("spec", "template", "spec"),
	"cronjobs":               inPod("spec", "jobTemplate", "spec", "template", "spec"),
	"persistentvolumes":      {{"spec", "claimRef", "namespace"}},
	"rolebindings":           {{"subjects", "kind=ServiceAccount", "namespace"}},
	"clusterrolebindings":    {{"subjects", "kind=ServiceAccount", "namespace"}},
	"networkpolicies": slices.Concat(inSelector("spec", "ingress", "*", "from", "*", "namespaceSelector"),
		inSelector("spec", "egress", "*", "to", "*", "namespaceSelector")),
	"validatingwebhookconfigurations": append(inSelector("webhooks", "*", "namespaceSelector"),
		[]string{"webhooks", "*", "clientConfig", "service", "namespace"}),
	"mutatingwebhookconfigurations": append(inSelector("webhooks", "*", "namespaceSelector"),
		[]string{"webhooks", "*", "clientConfig", "service", "namespace"}),
	"validatingadmissionpolicies": inSelector("spec", "matchConstraints", "namespaceSelector"),
	"mutatingadmissionpolicies":   inSelector("spec", "matchConstraints", "namespaceSelector"),
	"validatingadmissionpolicybindings": append(inSelector("spec", "matchResources", "namespaceSelector"),
		[]string{"spec", "paramRef", "namespace"}),
	"mutatingadmissionpolicybindings": append(inSelector("spec", "matchResources", "namespaceSelector"),
		[]string{"spec", "paramRef", "namespace"}),
	"customresourcedefinitions": {{"spec", "conversion", "webhook", "clientConfig", "service", "namespace"}},
}

// expected returns what the target shall have of an object of the source.
func expected(id kindID, object map[string]any) map[string]any {
	object = alike(id, object)
	for _, resource := range []string{"", id.resource.Resource} {
		for _, path := range mapped[resource] {
			edit(object, path, func(v any) (any, bool) {
				name, _ := v.(string)
				if to, known := kindsNamespaces[name]; known {
					return to, true
				}
				return v, true
			})
		}
	}
	for _, prefix := range []string{"system:serviceaccount:", "system:serviceaccounts:"} {
		edit(object, []string{"subjects", "*", "name"}, func(v any) (any, bool) {
			name, _ := v.(string)
			if name == prefix+"shop" || strings.HasPrefix(name, prefix+"shop:") {
				return prefix + "copy" + strings.TrimPrefix(name, prefix+"shop"), true
			}
			return v, true
		})
	}
	return object
}

// actual returns an object of the target without what the replica has added.
func actual(id kindID, object map[string]any) map[string]any {
	object = alike(id, object)
	unstructured.RemoveNestedField(object, "metadata", "labels", "kube-eventbridge.io/replica")
	for _, name := range []string{"origin", "origin-uid", "origin-sequence"} {
		unstructured.RemoveNestedField(object, "metadata", "annotations", "kube-eventbridge.io/"+name)
	}
	return withoutEmpty(object)
}

// alike returns an object without the fields in which source and target differ.
func alike(id kindID, object map[string]any) map[string]any {
	object = (&unstructured.Unstructured{Object: object}).DeepCopy().Object
	for _, of := range []string{"", id.resource.Resource, id.resource.Resource + " " + id.name} {
		for _, path := range unlike[of] {
			edit(object, path, func(any) (any, bool) { return nil, false })
		}
	}
	return withoutEmpty(object)
}

// withoutEmpty removes what is left of labels and annotations that had nothing else.
func withoutEmpty(object map[string]any) map[string]any {
	for _, name := range []string{"labels", "annotations"} {
		if texts, found, _ := unstructured.NestedMap(object, "metadata", name); found && len(texts) == 0 {
			unstructured.RemoveNestedField(object, "metadata", name)
		}
	}
	return object
}

// find returns the values at a path.
func find(object map[string]any, path []string) (all []any) {
	edit(object, path, func(v any) (any, bool) {
		all = append(all, v)
		return v, true
	})
	return all
}

// edit replaces the values at a path, or removes them, and returns v.
func edit(v any, path []string, f func(any) (any, bool)) any {
	change := func(v any) (any, bool) {
		if len(path) == 1 {
			return f(v)
		}
		return edit(v, path[1:], f), true
	}
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if path[0] == "*" || path[0] == name {
				if changed, stays := change(value); stays {
					v[name] = changed
				} else {
					delete(v, name)
				}
			}
		}
	case []any:
		kept := make([]any, 0, len(v))
		member, value, byMember := strings.Cut(path[0], "=")
		for _, element := range v {
			if of, _ := element.(map[string]any); path[0] == "*" || byMember && of[member] == value {
				changed, stays := change(element)
				if !stays {
					continue
				}
				element = changed
			}
			kept = append(kept, element)
		}
		return kept
	}
	return v
}
