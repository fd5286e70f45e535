// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestLoad_reads_replicas_without_pipelines(t *testing.T) {
	got, warnings := must.Get2(Parse("f", []byte(`
cluster: prod-eu-2
replicas:
  - name: shop
    from: {cluster: prod-eu-1, pipeline: audit, nats: {servers: ["tls://n:4222"], credsFile: /creds}}
    resources:
      - {resource: configmaps, namespaces: [shop, web]}
      - {resource: deployments.apps, namespaces: [shop], ignore: [spec.replicas]}
    into: {namespaces: {shop: web, web: shop}, labels: {example.com/from: 1, empty: ""}, annotations: {a: "b c"}}
    existing: adopt
    conflicts: force
    owned: remap
    deletes: {enabled: false, deselected: delete, limit: 50}
    onEpoch: follow
    immutable: recreate
    status: true
  - name: defaults
    from: {cluster: prod-eu-1, pipeline: audit, kafka: {brokers: ["k:9092"]}}
    resources: [{resource: widgets.example.com}]
`)))(t)
	require.Nil(t, warnings)
	want := Default()
	want.Cluster = "prod-eu-2"
	want.Replicas = []Replica{
		{
			Name: "shop",
			From: From{Cluster: "prod-eu-1", Pipeline: "audit", LogSource: LogSource{NATS: &NATSLog{
				Servers: []string{"tls://n:4222"}, Stream: "KUBERNETES", NATSAccess: NATSAccess{CredsFile: "/creds"},
			}}},
			Resources: []ReplicaResource{
				{Resource: value.ResourceName{Plural: "configmaps"}, Namespaces: []string{"shop", "web"}},
				{
					Resource: value.ResourceName{Plural: "deployments", Group: "apps"}, Namespaces: []string{"shop"},
					Ignore: []string{"spec.replicas"},
				},
			},
			Into: Into{
				Namespaces: map[string]string{"shop": "web", "web": "shop"},
				Labels:     map[string]string{"example.com/from": "1", "empty": ""}, Annotations: map[string]string{"a": "b c"},
			},
			Existing: ExistingAdopt, Conflicts: ConflictsForce, Owned: OwnedRemap,
			Deletes: Deletes{Deselected: DeselectedDelete, Limit: value.Limit{Number: 50}, MinAge: time.Hour}, OnEpoch: OnEpochFollow,
			Immutable: ImmutableRecreate, Status: true,
		},
		{
			Name: "defaults",
			From: From{Cluster: "prod-eu-1", Pipeline: "audit", LogSource: LogSource{Kafka: &KafkaLog{
				Brokers: []string{"k:9092"}, Topic: encode.DefaultTopic,
			}}},
			Resources: []ReplicaResource{{Resource: value.ResourceName{Plural: "widgets", Group: "example.com"}}},
			Existing:  ExistingRefuse, Conflicts: ConflictsYield, Owned: OwnedSkip,
			Deletes:   Deletes{Enabled: true, Deselected: DeselectedKeep, Limit: value.Limit{Number: 20, Percent: true}, MinAge: time.Hour},
			OnEpoch:   OnEpochHold,
			Immutable: ImmutablePark,
		},
	}
	assert.Equal(t, want, got)
}

func TestReplicas_of_their_own_cluster_move_every_namespace(t *testing.T) {
	const file = "cluster: c\nreplicas: [{name: a, from: {cluster: c, pipeline: p, nats: {}}, resources: [{resource: " +
		"configmaps, namespaces: [x, y]}, {resource: secrets, namespaces: [x]}], into: {namespaces: {x: a, y: b}}}]"
	_, warnings := must.Get2(Parse("f", []byte(file)))(t)
	assert.Nil(t, warnings)
}

// Which namespaces there are is not known where a resource lists none.
func TestReplicas_are_warned_of_where_a_namespace_may_be_left_out(t *testing.T) {
	const warning = "f:1:%d: replicas[0].into.namespaces.x: objects of a namespace \"y\" in the log's cluster are left out, as " +
		"others are written there; map it, too, if there is one"
	for text, want := range map[string]string{
		"widgets.example.com}], into: {namespaces: {x: y}":                          fmt.Sprintf(warning, 131),
		"secrets}], into: {namespaces: {x: y}":                                      fmt.Sprintf(warning, 119),
		"namespaces}], into: {namespaces: {x: y}":                                   fmt.Sprintf(warning, 122),
		"widgets.example.com}], into: {namespaces: {x: y, y: x}":                    "",
		"widgets.example.com, namespaces: [x]}], into: {namespaces: {x: y}":         "",
		"clusterroles},{resource: cm, namespaces: [x]}], into: {namespaces: {x: y}": "",
	} {
		_, warnings := must.Get2(Parse("f", []byte(replicaOf(text))))(t)
		assert.Equal(t, want, warnings.Error(), text)
	}
}

// replicaOf is a file with a replica of a resource, and what follows it.
func replicaOf(resource string) string {
	return "replicas: [{name: a, from: {cluster: c, pipeline: p, nats: {}}, resources: [{resource: " + resource + "}}]"
}

func TestReplicas_are_warned_of_resources_that_each_cluster_makes(t *testing.T) {
	for resource, want := range map[string]string{
		"endpoints": "endpoints is rarely of use in another cluster: A controller makes them of Services and pods. " +
			"Addresses are of the source",
		"pv":       "pv is rarely of use in another cluster: They name disks of the source. A deletion in the target may delete the disk",
		"services": "",
		"endpointslices": "endpointslices is rarely of use in another cluster: A controller makes them of Services and pods. " +
			"Addresses are of the source",
	} {
		_, warnings := must.Get2(Parse("f", []byte(replicaOf(resource+"}], into: {"))))(t)
		if want != "" {
			want = "f:1:88: replicas[0].resources[0].resource: " + want
		}
		assert.Equal(t, want, warnings.Error(), resource)
	}
}
