// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
)

func TestReplicaLog_is_the_topics_of_its_pipeline(t *testing.T) {
	const template = "k8s.{cluster}.{pipeline}.{resource}"
	from := config.LogSource{Kafka: &config.KafkaLog{Brokers: []string{"k:1"}, Topic: template}}
	r := &config.Replica{From: config.From{Cluster: "east", Pipeline: "audit", LogSource: from}}
	got := ReplicaLog(r)
	assert.Equal(t, &config.KafkaLog{Brokers: []string{"k:1"}, Topic: "k8s.east.audit.{resource}"}, got.Kafka)
	assert.Equal(t, template, r.From.Kafka.Topic, "the configuration stays as it is")
	stream := config.LogSource{NATS: &config.NATSLog{Servers: []string{"nats://n"}, Stream: "S"}}
	assert.Equal(t, stream, ReplicaLog(&config.Replica{From: config.From{LogSource: stream}}))
}
