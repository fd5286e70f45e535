// SPDX-License-Identifier: Apache-2.0

// Package builtin knows the resources that an API server of Kubernetes has by itself, without asking one.
package builtin

import (
	"slices"
	"strings"
)

// scope has the plurals of a group's resources.
type scope struct{ group, namespaced, global string }

// scopes are the resources that an API server of Kubernetes 1.36 has by itself; older ones lack some. Names that two
// groups have are those of the first one, as for kubectl.
var scopes = []scope{
	{
		"", "configmaps endpoints events limitranges persistentvolumeclaims pods podtemplates replicationcontrollers " +
			"resourcequotas secrets serviceaccounts services",
		"namespaces nodes persistentvolumes",
	},
	{
		"admissionregistration.k8s.io", "",
		"mutatingadmissionpolicies mutatingadmissionpolicybindings mutatingwebhookconfigurations " +
			"validatingadmissionpolicies validatingadmissionpolicybindings validatingwebhookconfigurations",
	},
	{"apiextensions.k8s.io", "", "customresourcedefinitions"},
	{"apiregistration.k8s.io", "", "apiservices"},
	{"apps", "controllerrevisions daemonsets deployments replicasets statefulsets", ""},
	{"autoscaling", "horizontalpodautoscalers", ""},
	{"batch", "cronjobs jobs", ""},
	{"certificates.k8s.io", "", "certificatesigningrequests"},
	{"coordination.k8s.io", "leases", ""},
	{"discovery.k8s.io", "endpointslices", ""},
	{"events.k8s.io", "events", ""},
	{"flowcontrol.apiserver.k8s.io", "", "flowschemas prioritylevelconfigurations"},
	{"networking.k8s.io", "ingresses networkpolicies", "ingressclasses ipaddresses servicecidrs"},
	{"node.k8s.io", "", "runtimeclasses"},
	{"policy", "poddisruptionbudgets", ""},
	{"rbac.authorization.k8s.io", "rolebindings roles", "clusterrolebindings clusterroles"},
	{"resource.k8s.io", "resourceclaims resourceclaimtemplates", "deviceclasses resourceslices"},
	{"scheduling.k8s.io", "", "priorityclasses"},
	{
		"storage.k8s.io", "csistoragecapacities",
		"csidrivers csinodes storageclasses volumeattachments volumeattributesclasses",
	},
}

// Known is what is known of a resource without a cluster.
type Known struct {
	Group      string
	Namespaced bool
	// Status: the status of its objects is a subresource.
	Status bool
}

// withStatus are the resources whose objects have a status. No two groups have a plural of them in common.
const withStatus = "namespaces nodes persistentvolumeclaims persistentvolumes pods replicationcontrollers " +
	"resourcequotas services validatingadmissionpolicies customresourcedefinitions apiservices daemonsets deployments " +
	"replicasets statefulsets horizontalpodautoscalers cronjobs jobs certificatesigningrequests csinodes flowschemas " +
	"prioritylevelconfigurations ingresses servicecidrs poddisruptionbudgets resourceclaims volumeattachments"

// members are what the objects of scopes have at their top.
const members = "action addressType aggregationRule allowVolumeExpansion allowedTopologies apiVersion " +
	"automountServiceAccountToken binaryData capacity count data deprecatedCount deprecatedFirstTimestamp " +
	"deprecatedLastTimestamp deprecatedSource description driverName endpoints eventTime firstTimestamp globalDefault " +
	"handler imagePullSecrets immutable involvedObject kind lastTimestamp maximumVolumeSize message metadata " +
	"mountOptions nodeTopology note overhead parameters ports preemptionPolicy provisioner reason reclaimPolicy " +
	"regarding related reportingComponent reportingController reportingInstance revision roleRef rules scheduling " +
	"secrets series source spec status storageClassName stringData subjects subsets template type value " +
	"volumeBindingMode webhooks"

// Member reports whether an object of a resource that an API server has by itself may have a member of that name at its
// top.
func Member(name string) bool { return slices.Contains(strings.Fields(members), name) }

// Find looks among the resources that an API server has by itself for the plural. In tells whether only a group was
// looked in, which may be the empty one.
func Find(plural, group string, in bool) (k Known, found bool) {
	for _, s := range scopes {
		if in && s.group != group {
			continue
		}
		namespaced := slices.Contains(strings.Fields(s.namespaced), plural)
		if namespaced || slices.Contains(strings.Fields(s.global), plural) {
			return Known{s.group, namespaced, slices.Contains(strings.Fields(withStatus), plural)}, true
		}
	}
	return Known{}, false
}

// shorts has short names, each with its plural.
const shorts = "cm configmaps ep endpoints ev events limits limitranges ns namespaces no nodes pv persistentvolumes " +
	"pvc persistentvolumeclaims po pods rc replicationcontrollers quota resourcequotas sa serviceaccounts svc services " +
	"crd customresourcedefinitions crds customresourcedefinitions ds daemonsets deploy deployments rs replicasets sts " +
	"statefulsets hpa horizontalpodautoscalers cj cronjobs csr certificatesigningrequests ing ingresses netpol " +
	"networkpolicies ip ipaddresses pdb poddisruptionbudgets pc priorityclasses sc storageclasses vac " +
	"volumeattributesclasses"

// Plural returns the plural, which [Find] knows, of a short name or a singular; nothing for another name.
func Plural(name, group string, in bool) string {
	candidates := []string{name + "s", name + "es"}
	if words := strings.Fields(shorts); slices.Contains(words, name) {
		if i := slices.Index(words, name); i%2 == 0 {
			candidates = append(candidates, words[i+1])
		}
	}
	for _, plural := range candidates {
		if _, found := Find(plural, group, in); found {
			return plural
		}
	}
	return ""
}

// Every returns the resources that [Find] knows, by group.
func Every() map[string][]string {
	all := map[string][]string{}
	for _, s := range scopes {
		all[s.group] = append(strings.Fields(s.namespaced), strings.Fields(s.global)...)
	}
	return all
}
