// SPDX-License-Identifier: Apache-2.0

package clean

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestExcluded_names_what_is_of_one_cluster(t *testing.T) {
	for resource, want := range map[string]bool{
		"nodes": true, "events": true, "events.events.k8s.io": true, "leases.coordination.k8s.io": true, "endpoints": true,
		"endpointslices.discovery.k8s.io": true, "csinodes.storage.k8s.io": true, "storageclasses.storage.k8s.io": false,
		"volumeattachments.storage.k8s.io": true, "csistoragecapacities.storage.k8s.io": true, "persistentvolumes": true,
		"flowschemas.flowcontrol.apiserver.k8s.io": true, "apiservices.apiregistration.k8s.io": true,
		"certificatesigningrequests.certificates.k8s.io": true, "clustertrustbundles.certificates.k8s.io": false,
		"tokenreviews.authentication.k8s.io": true, "subjectaccessreviews.authorization.k8s.io": true,
		"componentstatuses": true, "controllerrevisions.apps": true, "deployments.apps": false, "configmaps": false,
		"secrets": false, "nodes.example.com": false, "persistentvolumeclaims": false, "namespaces": false,
		"customresourcedefinitions.apiextensions.k8s.io": false, "pods.metrics.k8s.io": true, "pods": false,
	} {
		why, excluded := Excluded(schema.ParseGroupResource(resource))
		assert.Equal(t, want, excluded, resource)
		assert.Equal(t, want, why != "", resource)
	}
}

func TestSkips_objects_of_one_cluster(t *testing.T) {
	const origin = "kube-eventbridge.io/origin: prod/apps/deployments/shop/a"
	for _, c := range []struct {
		resource, object string
		want             string
	}{
		{"configmaps", "metadata: {name: a}", ""},
		{"configmaps", "metadata: {name: kube-root-ca.crt}", "A controller makes it in each namespace, with the cluster's own certificate."},
		{"secrets", "metadata: {name: kube-root-ca.crt}", ""},
		{
			"configmaps", "metadata: {name: a, annotations: {control-plane.alpha.kubernetes.io/leader: x}}",
			"Its holder is a process of the source. Controllers of the target would wait for it.",
		},
		{"serviceaccounts", "metadata: {name: default}", "A controller makes it in each namespace."},
		{"serviceaccounts", "metadata: {name: mine}", ""},
		{"secrets", "{metadata: {name: a}, type: kubernetes.io/service-account-token}", "The token is valid in the source only."},
		{
			"secrets", "{metadata: {name: a}, type: bootstrap.kubernetes.io/token}",
			"With it a machine joins a cluster. It must not join another one.",
		},
		{"secrets", "{metadata: {name: a}, type: Opaque}", ""},
		{"services", "metadata: {name: kubernetes, namespace: default}", "Each API server makes its own."},
		{"services", "metadata: {name: kubernetes, namespace: other}", ""},
		{"namespaces", "metadata: {name: kube-system}", "Each cluster has its own."},
		{"namespaces", "metadata: {name: shop}", ""},
		{"namespaces", "metadata: {name: copy}", "Two Namespaces would become one."},
		{"namespaces", "metadata: {name: sink}", "Each cluster has its own."},
		{"namespaces", "metadata: {name: default}", "Each cluster has its own."},
		{"namespaces", "metadata: {name: kube-public}", "Two Namespaces would become one."},
		{"configmaps", "metadata: {name: a, namespace: copy}", "Objects of two namespaces would get into one."},
		{
			"pods", "metadata: {name: a, annotations: {kubernetes.io/config.mirror: x}}",
			"A kubelet shows a pod in it that a file of its node describes.",
		},
		{"pods", "{metadata: {name: a}, status: {phase: Succeeded}}", "It would run again."},
		{"pods", "{metadata: {name: a}, status: {phase: Running}}", ""},
		{"jobs.batch", "{metadata: {name: a}, status: {conditions: [{type: Complete, status: 'True'}]}}", "It would run again."},
		{"jobs.batch", "{metadata: {name: a}, status: {conditions: [{type: Suspended, status: 'True'}]}}", ""},
		{
			"clusterroles.rbac.authorization.k8s.io", "metadata: {name: a, labels: {kubernetes.io/bootstrapping: rbac-defaults}}",
			"Each API server makes its own, and changes it back.",
		},
		{
			"priorityclasses.scheduling.k8s.io", "metadata: {name: system-node-critical}",
			"Each API server makes its own, and refuses others.",
		},
		{
			"deployments.apps", "metadata: {name: a, ownerReferences: [{uid: x}, {uid: y, controller: true}]}",
			"The owner's controller makes it in the target.",
		},
		{"deployments.apps", "metadata: {name: a, ownerReferences: [{uid: x}, null, y]}", ""},
		{
			"deployments.apps", "metadata: {name: a, labels: {kube-eventbridge.io/replica: r}, annotations: {" + origin + "}}",
			"It was replicated into the source. It is not replicated out of it again.",
		},
		{"deployments.apps", "metadata: {name: a, annotations: {" + origin + "}}", ""},
		{"deployments.apps", "metadata: {name: a, labels: {kube-eventbridge.io/replica: r}}", ""},
		{"deployments.apps", "metadata: {name: b, labels: {kube-eventbridge.io/replica: r}, annotations: {" + origin + "}}", ""},
		{
			"deployments.apps",
			"metadata: {name: a, namespace: shop, labels: {kube-eventbridge.io/replica: r}, annotations: {" +
				"kube-eventbridge.io/origin: east/apps/deployments/shop/a}}",
			"",
		},
		{
			"deployments.apps",
			"metadata: {name: a, namespace: shop, labels: {kube-eventbridge.io/replica: r}, annotations: {" +
				"kube-eventbridge.io/origin: east/apps/deployments/other/a}}",
			"It was replicated into the source. It is not replicated out of it again.",
		},
		{"statefulsets.apps", "metadata: {name: a, labels: {kube-eventbridge.io/replica: r}, annotations: {" + origin + "}}", ""},
		{
			"namespaces", "metadata: {name: b, labels: {kube-eventbridge.io/replica: r}, annotations: {kube-eventbridge.io/origin: p/core/namespaces/_/a}}",
			"It was replicated into the source. It is not replicated out of it again.",
		},
	} {
		r := must.Get(New(Config{
			Cluster: "east", Namespaces: map[string]string{"shop": "copy", "sink": "kube-public"},
		}))(t)
		why, skip := r.Skips(schema.ParseGroupResource(c.resource), decoded(t, c.object))
		assert.Equal(t, c.want, why, c.object)
		assert.Equal(t, c.want != "", skip, c.object)
	}
	r := must.Get(New(Config{Owned: Drop}))(t)
	_, skip := r.Skips(core("pods"), decoded(t, "metadata: {name: a, ownerReferences: [{uid: y, controller: true}]}"))
	assert.False(t, skip, "owned objects are taken without their owners")
}
