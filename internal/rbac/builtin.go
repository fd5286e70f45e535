// SPDX-License-Identifier: Apache-2.0

package rbac

import (
	"slices"
	"strings"
)

// scope has the plurals of a group's resources.
type scope struct{ group, namespaced, global string }

// scopes are the resources that an API server of Kubernetes 1.36 has by itself; older ones lack some. Names that two groups have are those of the first one, as for kubectl.
var scopes = []scope{
	{
		"", "configmaps endpoints events limitranges persistentvolumeclaims pods podtemplates replicationcontrollers resourcequotas secrets serviceaccounts services",
		"namespaces nodes persistentvolumes",
	},
	{"admissionregistration.k8s.io", "", "mutatingadmissionpolicies mutatingadmissionpolicybindings mutatingwebhookconfigurations validatingadmissionpolicies validatingadmissionpolicybindings validatingwebhookconfigurations"},
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
	{"storage.k8s.io", "csistoragecapacities", "csidrivers csinodes storageclasses volumeattachments volumeattributesclasses"},
}

// Known is what is known of a resource without a cluster.
type Known struct {
	Group      string
	Namespaced bool
}

// members are what the objects of scopes have at their top.
const members = "action addressType aggregationRule allowVolumeExpansion allowedTopologies apiVersion automountServiceAccountToken binaryData capacity count data " +
	"deprecatedCount deprecatedFirstTimestamp deprecatedLastTimestamp deprecatedSource description driverName endpoints eventTime firstTimestamp globalDefault handler " +
	"imagePullSecrets immutable involvedObject kind lastTimestamp maximumVolumeSize message metadata mountOptions nodeTopology note overhead parameters ports preemptionPolicy " +
	"provisioner reason reclaimPolicy regarding related reportingComponent reportingController reportingInstance revision roleRef rules scheduling secrets series source spec " +
	"status storageClassName stringData subjects subsets template type value volumeBindingMode webhooks"

// Member reports whether an object of a resource that an API server has by itself may have a member of that name at its top.
func Member(name string) bool { return slices.Contains(strings.Fields(members), name) }

// Find looks among the resources that an API server has by itself for the plural. In tells whether only a group was looked in, which may be the empty one.
func Find(plural, group string, in bool) (k Known, found bool) {
	for _, s := range scopes {
		if in && s.group != group {
			continue
		}
		namespaced := slices.Contains(strings.Fields(s.namespaced), plural)
		if namespaced || slices.Contains(strings.Fields(s.global), plural) {
			return Known{s.group, namespaced}, true
		}
	}
	return Known{}, false
}

// Every returns the resources that [Find] knows, by group.
func Every() map[string][]string {
	all := map[string][]string{}
	for _, s := range scopes {
		all[s.group] = append(strings.Fields(s.namespaced), strings.Fields(s.global)...)
	}
	return all
}
