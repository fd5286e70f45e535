// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
)

// publishing is a pipeline of leases with a sink and a checkpoint in Kafka.
func publishing(name string, k Kafka, c CheckpointKafka) Pipeline {
	leases := value.ResourceName{Plural: "leases", Group: "coordination.k8s.io"}
	return Pipeline{
		Name: name, Resources: []Resource{{
			Resource: leases, Operations: operations, Delivery: Every, Payload: PayloadObject,
			Snapshot: SnapshotInitial, OnFilterError: OnFilterErrorPublish,
		}},
		Encoding: Encoding{Mode: Binary, Profile: ProfileOwn}, Sink: Sink{Kafka: &k}, Checkpoint: Checkpoint{Kafka: &c},
		Recovery: recovery, Audit: daily, OnReject: OnRejectPublish, Oversize: OversizeReject,
	}
}

// onKafka parses a file with pipelines that have these sinks and checkpoints, named a, b and so on.
func onKafka(t *testing.T, top string, pipelines ...string) (warnings, problems string) {
	t.Helper()
	text := top + "\npipelines:\n"
	for i, p := range pipelines {
		text += fmt.Sprintf("- {name: %c, resources: [{resource: pods}], %s}\n", 'a'+i, p)
	}
	_, w, err := Parse("f", []byte(text))
	if err != nil {
		problems = err.Error()
	}
	return w.Error(), problems
}

func TestLoad_warns_of_what_Kafka_takes_and_somebody_pays_for(t *testing.T) {
	const (
		plain = "sasl.mechanism: plain shows the password to whoever reads the network; add tls beside sasl, or use " +
			"scram-sha-512"
		token      = "sasl.mechanism: oauthbearer shows the token to whoever reads the network; add tls beside sasl"
		secret     = "sasl.tokenURL: http shows the client's secret and the token to whoever reads the network; use https"
		tombstones = "create.settings.cleanup.policy: compaction without tombstones keeps the last event of each deleted " +
			"object without an end; set tombstones: true, or cleanup.policy: delete"
	)
	for _, c := range []struct {
		sink string
		want []string
	}{
		{"sasl: {mechanism: plain, user: u, passwordFile: p}", []string{plain}},
		{"sasl: {mechanism: plain, user: u, passwordFile: p}, tls: {}", nil},
		{"sasl: {mechanism: scram-sha-256, user: u, passwordFile: p}", nil},
		{"sasl: {mechanism: scram-sha-512, user: u, passwordFile: p}", nil},
		{"sasl: {mechanism: oauthbearer, tokenFile: p}", []string{token}},
		{"sasl: {mechanism: oauthbearer, tokenFile: p}, tls: {}", nil},
		{"sasl: {mechanism: oauthbearer, tokenURL: \"http://a\", clientID: c, clientSecretEnv: E}", []string{token, secret}},
		{"sasl: {mechanism: oauthbearer, tokenURL: \"HTTPS://a\", clientID: c, clientSecretEnv: E}, tls: {}", nil},
		{"create: {settings: {cleanup.policy: compact}}", []string{tombstones}},
		{"create: {settings: {cleanup.policy: \"compact,delete\"}}", []string{tombstones}},
		{"create: {settings: {cleanup.policy: compact}}, tombstones: true", nil},
		{"create: {settings: {cleanup.policy: delete}}", nil},
		{"create: {replicas: 1}", nil},
	} {
		warnings, problems := onKafka(t, "", `sink: {kafka: {brokers: ["k:1"], `+c.sink+"}}")
		var got []string
		for line := range strings.Lines(warnings) {
			_, message, _ := strings.Cut(strings.TrimSpace(line), ": pipelines[0].sink.kafka.")
			got = append(got, message)
		}
		assert.Empty(t, problems, "%s: got\n%s", c.sink, warnings)
		assert.Equal(t, strings.Join(c.want, "\n"), strings.Join(got, "\n"), "%s: got\n%s", c.sink, warnings)
	}
}

func TestLoad_refuses_a_secret_in_the_URL_that_gives_tokens(t *testing.T) {
	for query, refused := range map[string]bool{
		"": false, "?api-version=2": false, "?scope=a": false, "?client_secret=x": true, "?a=b&API-Key=x": true,
		"?password=x": true, "?sig=x": true,
	} {
		_, problems := onKafka(t, "",
			`sink: {kafka: {brokers: ["k:1"], tls: {}, sasl: {mechanism: oauthbearer, tokenURL: "https://a/b`+query+
				`", clientID: c, clientSecretEnv: E}}}`)
		assert.Equal(t, refused, strings.Contains(problems, "is not the URL of a server that gives tokens"), "%s: %s", query, problems)
		assert.NotContains(t, problems, "=x", "it is repeated")
	}
}

// What is refused is in the bad files; here is what is not, and how far a template reaches.
func TestLoad_keeps_checkpoints_and_events_in_different_topics(t *testing.T) {
	for _, c := range []struct {
		top, topic, checkpoint string
		taken                  bool
	}{
		{"", "events", "checkpoints", true},
		{"", "events", "events", false},
		{"", "events", "Events", true},
		{"", "events", "eventsX", true},
		{"", "events", "Xevents", true},
		{"", "e.ents", "events", true},
		{"", "{pipeline}", "a", false},
		{"", "{pipeline}", "b", true},
		{"", "k8s.{resource}", "k8s.checkpoints", false},
		{"", "k8s.{group}", "k8s-checkpoints", true},
		{"", "k8s.{version}.x", "k8s.checkpoints", true},
		{"", "k8s.{group}.{resource}", "k8s.a.b.c", false},
		{"cluster: prod", "{cluster}.{resource}", "prod.checkpoints", false},
		{"cluster: prod", "{cluster}.{resource}", "test.checkpoints", true},
		{"cluster: p.od", "{cluster}.x", "prod.x", true},
		{"", "{cluster}.{resource}", "prod.checkpoints", true},
		{"", "{cluster}.{resource}", "0f5a3c1e-5d2b-4c0e-9b57-3f0f6a1d2e4c.checkpoints", false},
	} {
		_, problems := onKafka(t, c.top,
			fmt.Sprintf(`sink: {kafka: {brokers: ["k:1"], topic: "%s"}}, checkpoint: {kafka: {topic: "%s"}}`, c.topic,
				c.checkpoint))
		assert.Equal(t, (problems == ""), c.taken,
			"%s, topic %s, checkpoint %s: %s", c.top, c.topic, c.checkpoint, problems)
	}
}

func TestLoad_takes_pipelines_that_share_the_topic_of_their_checkpoints(t *testing.T) {
	on := func(brokers, topic, checkpoint string) string {
		return fmt.Sprintf(`sink: {kafka: {brokers: %s, topic: %s}}, checkpoint: {kafka: {topic: %s}}`, brokers, topic,
			checkpoint)
	}
	for name, pipelines := range map[string][]string{
		"one cluster":    {on(`["k:1"]`, "events", "checkpoints"), on(`["k:1"]`, "others", "checkpoints")},
		"other clusters": {on(`["k:1"]`, "events", "checkpoints"), on(`["l:1", "k:2"]`, "checkpoints", "events")},
	} {
		warnings, problems := onKafka(t, "", pipelines...)
		assert.Empty(t, warnings+problems, "%s: %s%s", name, warnings, problems)
	}
}
