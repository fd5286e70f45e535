// SPDX-License-Identifier: Apache-2.0

package asyncapi

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// read is what a program reads of a document.
type read struct {
	Servers map[string]struct {
		Host     string
		Security []struct {
			Ref string `json:"$ref"`
		}
	}
	Channels map[string]struct {
		Address    string
		Parameters map[string]struct{ Enum []string }
		Messages   map[string]struct {
			Ref string `json:"$ref"`
		}
		Bindings struct{ Kafka map[string]any }
	}
	Operations map[string]struct {
		Action   string
		Messages []any
	}
	Components struct {
		Messages map[string]json.RawMessage
		Schemas  map[string]json.RawMessage
	}
}

func documentOf(t *testing.T, cluster string, pipelines ...Pipeline) (d read, text string) {
	t.Helper()
	b := must.Get(json.Marshal(Document(&Config{Cluster: cluster, Pipelines: pipelines})))(t)
	require.NoError(t, json.Unmarshal(b, &d))
	return d, string(b)
}

func pipeline(t *testing.T, name string, b Broker, address string, resources ...Resource) Pipeline {
	t.Helper()
	kind := encode.Subject
	if b == Kafka {
		kind = encode.Topic
	}
	parsed := must.Get(encode.ParseTemplate(kind, address))(t)
	return Pipeline{
		Name: name, Broker: b, Servers: []Server{{Host: string(b) + ":1", Protocol: string(b)}},
		Address: parsed, Stream: "S", Resources: resources,
	}
}

var (
	pods        = Resource{Plural: "pods", Namespaced: true, Payload: "object"}
	nodes       = Resource{Version: "v1", Plural: "nodes", Payload: "metadata"}
	deployments = Resource{
		Group: "apps", Version: "v1", Plural: "deployments", Namespaced: true,
		Namespaces: []string{"web", "shop"}, Payload: "object",
	}
)

func TestDocument_has_a_channel_for_each_address_and_all_that_is_published_there(t *testing.T) {
	d, _ := documentOf(t, "prod", pipeline(t, "audit", NATS, encode.DefaultSubject, deployments, nodes, pods))
	want := map[string]string{
		"audit.deployments.apps": "k8s.prod.apps.deployments.{namespace}.{name}",
		"audit.nodes":            "k8s.prod.core.nodes.{namespace}.{name}",
		"audit.pods":             "k8s.prod.core.pods.{namespace}.{name}",
	}
	for name, enum := range map[string][]string{
		"audit.deployments.apps": {"shop", "web", "_"}, "audit.nodes": {"_"},
		"audit.pods": nil,
	} {
		ch := d.Channels[name]
		assert.True(t, ch.Address == want[name] && slices.Equal(ch.Parameters["namespace"].Enum, enum) &&
			len(ch.Messages) == len(kinds()), "%s: %+v", name, ch)
		o := d.Operations["publish."+name]
		assert.True(t, o.Action == "send" && len(o.Messages) == len(kinds()), "its operation is %+v", o)
		for message := range ch.Messages {
			assert.NotNil(t, d.Components.Messages[message], "there is no message %s", message)
		}
	}
	require.Len(t, d.Channels, 3, "channels, %d operations", len(d.Operations))
	assert.Len(t, d.Operations, 3, "channels, %d operations", len(d.Operations))
}

func TestDocument_leaves_out_what_is_not_published(t *testing.T) {
	some := pods
	some.Operations = []string{"added", "updated"}
	p := pipeline(t, "audit", Kafka, "kubernetes", some)
	p.Tombstones = true
	d, _ := documentOf(t, "prod", p)
	ch := d.Channels["audit"]
	for name, want := range map[string]bool{
		"audit.pods.added": true, "audit.pods.updated": true,
		"audit.pods.deleted": false, "tombstone": false, "audit.pods.rejected": true, "audit.pods.gap": true,
	} {
		_, got := ch.Messages[name]
		assert.Equal(t, want, got, name)
	}
}

func TestDocument_pipelines_share_servers_and_topics(t *testing.T) {
	first, second := pipeline(t, "first", Kafka, "kubernetes", pods),
		pipeline(t, "second", Kafka, "kubernetes", nodes, deployments)
	first.Servers[0].Security = []Security{{Name: "plain", Type: "plain"}}
	second.Servers[0].Security = []Security{{Name: "plain", Type: "plain"}, {Name: "certificate", Type: "X509"}}
	first.Tombstones, second.Tombstones, first.Partitions = true, true, 12
	d, _ := documentOf(t, "prod", first, second)
	ch, one := d.Channels["first"]
	require.True(t, one && len(d.Channels) == 1 && len(d.Servers) == 1,
		"channels %v, servers %v", d.Channels, d.Servers)
	if n := 3*len(kinds()) + 2 + 1; len(ch.Messages) != n { // and what writers begin with, and the tombstone
		t.Errorf("%d messages, want %d: %v", len(ch.Messages), n, slices.Sorted(maps.Keys(ch.Messages)))
	}
	assert.True(t, ch.Bindings.Kafka["topic"] == "kubernetes" && ch.Bindings.Kafka["partitions"] == 12.0,
		"bindings %v", ch.Bindings)
	assert.Len(t, d.Servers["kafka-kafka-1"].Security, 2, "servers %+v", d.Servers)
}

func TestDocument_leaves_open_what_only_a_cluster_knows(t *testing.T) {
	d, text := documentOf(t, "", pipeline(t, "audit", Kafka, "{cluster}-{version}-{resource}", pods, nodes))
	if a := d.Channels["audit.pods"]; a.Address != "{cluster}-{version}-pods" || len(a.Parameters) != 2 ||
		a.Bindings.Kafka["topic"] != nil {
		t.Errorf("pods: %+v", a)
	}
	a := d.Channels["audit.nodes"]
	assert.True(t, a.Address == "{cluster}-v1-nodes" && len(a.Parameters) == 1, "nodes: %+v", a)
	assert.Contains(t, text, `"pattern":"^/clusters/[^/]+/api/[^/]+/pods$"`, "not in it")
}

func TestDocument_tells_payloads_of_a_resource_apart(t *testing.T) {
	there, here := pods, pods
	there.Namespaces, here.Namespaces, here.Payload = []string{"a"}, []string{"b"}, "metadata"
	d, _ := documentOf(t, "prod", pipeline(t, "audit", NATS, encode.DefaultSubject, there, here))
	for _, name := range []string{"audit.pods.added.object", "audit.pods.added.metadata", "audit.pods.gap"} {
		assert.NotEmpty(t, d.Channels["audit"].Messages[name].Ref,
			"there is no %s in %v", name, slices.Sorted(maps.Keys(d.Channels["audit"].Messages)))
	}
}

func TestDocument_says_what_data_made_from_what_was_before_can_be(t *testing.T) {
	merge, ops, change := pods, nodes, deployments
	merge.Payload, ops.Payload, change.Payload = "merge-patch", "json-patch", "change"
	p := pipeline(t, "audit", NATS, encode.DefaultSubject, merge, ops, change)
	d, _ := documentOf(t, "prod", p)
	p.Reduced = true
	reduced, _ := documentOf(t, "prod", p)
	const at = `{"$ref":"#/components/schemas/`
	for name, want := range map[string][]string{
		"audit.pods.added": {`"ce-payload":{"const":"object"}`, `"payload":` + at + `object"}`},
		"audit.pods.updated": {
			`"ce-payload":{"enum":["merge-patch","object"]}`,
			`"payload":{"anyOf":[` + at + `mergePatch"},` + at + `object"}]}`,
		},
		"audit.nodes.updated": {
			`"ce-payload":{"enum":["json-patch","object"]}`,
			`"payload":{"anyOf":[` + at + `jsonPatch"},` + at + `object"}]}`,
		},
		"audit.nodes.deleted":            {`"ce-payload":{"const":"object"}`},
		"audit.deployments.apps.added":   {`"ce-payload":{"const":"change"}`, `"payload":` + at + `change"}`},
		"audit.deployments.apps.deleted": {`"ce-payload":{"const":"change"}`, `"payload":` + at + `change"}`},
	} {
		for _, part := range want {
			assert.Contains(t, string(d.Components.Messages[name]), part, name)
		}
	}
	for name, want := range map[string]string{
		"audit.pods.updated":           `"ce-payload":{"enum":["merge-patch","object","metadata"]}`,
		"audit.nodes.deleted":          `"ce-payload":{"enum":["object","metadata"]}`,
		"audit.deployments.apps.added": `"anyOf":[` + at + `change"},` + at + `metadata"}]`,
	} {
		assert.Contains(t, string(reduced.Components.Messages[name]), want, name)
	}
}

func TestDocument_has_no_schema_that_nothing_refers_to(t *testing.T) {
	patches, changes := pods, deployments
	patches.Payload, changes.Payload = "json-patch", "change"
	structured := pipeline(t, "b", Kafka, "t", nodes)
	structured.Structured = true
	for _, pipelines := range [][]Pipeline{
		{pipeline(t, "a", NATS, encode.DefaultSubject, pods)},
		{structured},
		{pipeline(t, "a", Kafka, "u", deployments), structured},
		{pipeline(t, "a", NATS, encode.DefaultSubject, patches)},
		{pipeline(t, "a", NATS, encode.DefaultSubject, changes)},
	} {
		d, text := documentOf(t, "prod", pipelines...)
		for name := range d.Components.Schemas {
			assert.Contains(t, text, `"#/components/schemas/`+name+`"`, "nothing refers to %s", name)
		}
		for part := range strings.SplitSeq(text, `"#/components/schemas/`) {
			if name, _, _ := strings.Cut(part, `"`); part != text && d.Components.Schemas[name] == nil &&
				!strings.HasPrefix(part, "{") {
				t.Errorf("there is no schema %s", name)
			}
		}
	}
}

func TestDocument_names_all_reasons_and_causes(t *testing.T) {
	d, _ := documentOf(t, "prod", pipeline(t, "audit", NATS, encode.DefaultSubject, pods))
	var reasons, causes struct {
		Properties struct {
			Reason struct{ Examples []source.Reason } `json:"ce-reason"`
			Cause  struct{ Examples []source.Cause }
		}
	}
	require.NoError(t, json.Unmarshal(d.Components.Schemas["natsEvent"], &reasons))
	require.NoError(t, json.Unmarshal(d.Components.Schemas["gap"], &causes))
	assert.ElementsMatch(t, []source.Reason{
		source.ReasonWatch, source.ReasonSnapshot, source.ReasonRelist, source.ReasonRecovered, source.ReasonResync,
		source.ReasonRepair, source.ReasonDeselected,
	}, reasons.Properties.Reason.Examples)
	assert.ElementsMatch(t, []source.Cause{
		source.CauseExpired, source.CauseRestored, source.CauseRebuilt, source.CauseLogLost, source.CauseCheckpointLost,
		source.CauseSelection, source.CauseResourceGone, source.CauseAudit,
	}, causes.Properties.Cause.Examples)
}

func TestDocument_every_event_of_an_object_has_a_sequence_and_no_marker_has_one(t *testing.T) {
	p := pipeline(t, "audit", NATS, encode.DefaultSubject, pods)
	p.Structured = true
	d, _ := documentOf(t, "prod", p)
	for name, want := range map[string]bool{"structuredEvent": true, "structuredMarker": false} {
		var schema struct {
			Required   []string
			Properties map[string]struct{ Pattern string }
		}
		require.NoError(t, json.Unmarshal(d.Components.Schemas[name], &schema))
		for _, attribute := range []string{"sequence", "resource"} {
			_, there := schema.Properties[attribute]
			assert.True(t, there == want && slices.Contains(schema.Required, attribute) == want, "%s: %s", name, attribute)
		}
		if want {
			text := sequence.Sequence{Epoch: sequence.MaxEpoch, Version: 1<<64 - 1, Step: sequence.End}.String()
			assert.Regexp(t, regexp.MustCompile(schema.Properties["sequence"].Pattern), text)
		}
	}
}

func TestDocument_is_the_same_each_time(t *testing.T) {
	pipelines := []Pipeline{
		pipeline(t, "a", NATS, encode.DefaultSubject, pods, nodes, deployments),
		pipeline(t, "b", Kafka, "t-{resource}", pods, nodes),
	}
	_, first := documentOf(t, "prod", pipelines...)
	for range 20 {
		_, again := documentOf(t, "prod", pipelines...)
		require.Equal(t, first, again)
	}
}

func TestDocument_knows_profiles_and_what_is_reduced(t *testing.T) {
	p := pipeline(t, "audit", NATS, encode.DefaultSubject, pods, nodes)
	p.Profile, p.Reduced = encode.Knative, true
	d, _ := documentOf(t, "prod", p)
	for name, want := range map[string][]string{
		"audit.pods.added": {
			`"ce-type":{"const":"dev.knative.apiserver.resource.add"}`,
			`"ce-source":{"pattern":"^https?://"}`, `"ce-payload":{"enum":["object","metadata"]}`,
		},
		"audit.nodes.added": {`"ce-type":{"const":"dev.knative.apiserver.ref.add"}`, `"ce-payload":{"const":"metadata"}`},
		"audit.pods.gap": {
			`"ce-type":{"const":"io.kube-eventbridge.stream.gap.v1"}`,
			`"ce-source":{"pattern":"^/clusters/`, `"ce-payload":{"const":"marker"}`,
		},
		"audit.pods.rejected": {`"ce-source":{"pattern":"^/clusters/`, `"ce-payload":{"const":"object"}`},
	} {
		for _, part := range want {
			assert.Contains(t, string(d.Components.Messages[name]), part, name)
		}
	}
}
