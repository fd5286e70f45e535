// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// sharedKafka has a topic for each test that does not hurt it.
var sharedKafka = kafkabroker.NewShared(kafkabroker.Config{})

// kafkaLog is a topic.
type kafkaLog struct {
	cluster *kafkabroker.Cluster
	topic   string
	reader  *rig.KafkaTopic
}

// partitions are those of a topic that a test makes.
const partitions = 3

// sharedRigs counts those that share Kafka.
var sharedRigs atomic.Int32

// newKafkaRig has a topic of its own, and a bridge that keeps nothing on a disk.
func newKafkaRig(t *testing.T, resources string) *fixture {
	t.Helper()
	r := bareRig(t, controlplane.ForTest(t, controlplane.Config{}))
	name := fmt.Sprint("e2e-", sharedRigs.Add(1))
	r.cluster = name // a bridge's transactional id has it
	r.onKafka(sharedKafka.ForTest(t), name, resources, 1)
	return r
}

// newClusterRig has brokers of its own, for a test that hurts them.
func newClusterRig(t *testing.T, brokers int) *fixture {
	t.Helper()
	cluster := kafkabroker.ForTest(t, kafkabroker.Config{Brokers: brokers})
	r := bareRig(t, controlplane.ForTest(t, controlplane.Config{}))
	r.onKafka(cluster, "kubernetes", watched, brokers)
	return r
}

// onKafka has the bridge publish to a topic.
func (r *fixture) onKafka(cluster *kafkabroker.Cluster, topic, resources string, replicas int) {
	r.t.Helper()
	r.kafka = &kafkaLog{cluster: cluster, topic: topic}
	r.configureSink(resources,
		fmt.Sprintf(`sink: {kafka: {brokers: ["%s"], topic: %s, create: {partitions: %d, replicas: %d}}}
    checkpoint: {kafka: {topic: %[2]s-checkpoints, replicas: %[4]d}}`, strings.Join(cluster.Addresses(), `", "`), topic, partitions, replicas))
}

// read returns the topic's reader.
func (k *kafkaLog) read(t *testing.T) rig.Log {
	t.Helper()
	if k.reader == nil {
		k.reader = must.Get(rig.KafkaLog(k.topic, k.cluster.Addresses()))(t)
		t.Cleanup(k.reader.Close)
	}
	return k.reader
}

// once leaves out the copies of markers, which are in each partition, that are not in the partition of their key.
func (k *kafkaLog) once(log []entry) (kept []entry) {
	home := kgo.StickyKeyPartitioner(nil).ForTopic(k.topic)
	n := k.reader.Partitions()
	for _, e := range log {
		if e.key != "" || int(e.message.Partition) == home.Partition(&kgo.Record{Key: []byte(e.message.Key)}, n) {
			kept = append(kept, e)
		}
	}
	return kept
}

// What docs/operations.md says that the bridge's user needs is enough: it warns of nothing, and one step less is a
// permission that it misses.
func TestBridge_on_Kafka_needs_no_more_permissions_than_are_documented(t *testing.T) {
	rig.Parallel(t, rig.All)
	cluster := kafkabroker.ForTest(t, kafkabroker.Config{
		Listeners: []kafkabroker.Listener{
			{Protocol: kafkabroker.Plaintext},
			{Protocol: kafkabroker.SASLTLS, Mechanisms: []string{kafkabroker.SCRAM512}},
		},
		Users: map[string]string{"bridge": "secret"}, Authorizer: true,
	})
	r := bareRig(t, controlplane.ForTest(t, controlplane.Config{}))
	r.kafka = &kafkaLog{cluster: cluster, topic: "kubernetes"}
	password := filepath.Join(r.dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("secret\n"), 0o600))
	r.configureSink(watched, fmt.Sprintf(`sink:
      kafka:
        brokers: ["%s"]
        create: {}
        tls: {caFile: %s}
        sasl: {mechanism: scram-sha-512, user: bridge, passwordFile: %s}
    checkpoint: {kafka: {}}`, strings.Join(cluster.AddressesOf(string(kafkabroker.SASLTLS)), `", "`), cluster.CAFile(), password))
	for _, topic := range []string{"kubernetes", "kube-eventbridge-checkpoints"} {
		require.NoError(t, cluster.Allow(t.Context(), "bridge", kafkago.ResourceTypeTopic, topic,
			kafkago.ACLOperationTypeCreate, kafkago.ACLOperationTypeWrite,
			kafkago.ACLOperationTypeRead, kafkago.ACLOperationTypeDescribeConfigs))
	}
	for _, id := range []string{
		"kube-eventbridge.e2e.test.kubernetes",
		"kube-eventbridge.e2e.test.checkpoint.kube-eventbridge-checkpoints",
	} {
		require.NoError(t, cluster.Allow(t.Context(), "bridge", kafkago.ResourceTypeTransactionalID, id,
			kafkago.ACLOperationTypeWrite))
	}
	for range 2 {
		r.run()
		r.awaitStatus(200, "")
		r.bridge.stop()
		for line := range strings.Lines(r.bridge.stderr()) {
			// A broker may not lead a partition yet that was just created.
			known := strings.Contains(line, "min.insync.replicas=1") || strings.Contains(line, "Not Leader For Partition")
			if strings.Contains(line, `"level":"WARN"`) && !known || strings.Contains(line, `"secret"`) {
				t.Errorf("it says: %s", line)
			}
		}
	}
}

// A pipeline whose brokers are away says so at once, and keeps no other one waiting; when they come it goes on.
func TestBridge_with_brokers_that_are_away_runs_the_other_pipelines(t *testing.T) {
	rig.Parallel(t, rig.All)
	cluster := kafkabroker.ForTest(t, kafkabroker.Config{})
	require.NoError(t, cluster.Kill(0))
	r := newRig(t, watched)
	address := cluster.Addresses()[0]
	text := must.Get(os.ReadFile(r.config))(t)
	require.NoError(t, os.WriteFile(r.config, fmt.Appendf(text, `
  - name: late
    resources: %s
    sink: {kafka: {brokers: [%q], create: {replicas: 1}}}
    checkpoint: {kafka: {replicas: 1}}
`, watched, address), 0o600))
	r.run()
	r.configMap("default", "first", nil)
	isThere := func(name string) func([]entry) bool {
		return func(log []entry) bool {
			return slices.ContainsFunc(log, func(e entry) bool { return e.key == "default/"+name })
		}
	}
	r.await("the event in NATS", isThere("first"))
	r.awaitStatus(503, "pipeline late: checkpoint: ")
	r.poll("a warning", func() (bool, string) {
		for line := range strings.Lines(r.bridge.stderr()) {
			if strings.Contains(line, "waiting for the checkpoint") && strings.Contains(line, `"pipeline":"late"`) &&
				strings.Contains(line, address) {
				return true, ""
			}
		}
		return false, r.bridge.stderr()
	})
	require.NoError(t, cluster.Restart(t.Context(), 0))
	r.kafka, r.logs = &kafkaLog{cluster: cluster, topic: "kubernetes"}, nil
	r.await("the event in Kafka", isThere("first"))
	r.awaitStatus(200, "")
	r.bridge.stop()
}

// A bridge that cannot publish must not end the one that does, as in a rolling update with a bad file.
func TestKafka_a_bridge_without_its_topic_leaves_the_checkpoint_to_another(t *testing.T) {
	rig.Parallel(t, rig.All)
	r := newKafkaRig(t, watched)
	b := r.run()
	r.awaitStatus(http.StatusOK, "")
	text := must.Get(os.ReadFile(r.config))(t)
	bad := filepath.Join(r.dir, "bad.yaml")
	text = bytes.Replace(text, []byte("topic: "+r.kafka.topic+", create: {partitions: 3, replicas: 1}"),
		[]byte("topic: missing"), 1)
	require.NoError(t, os.WriteFile(bad, regexp.MustCompile(`server: .*`).ReplaceAll(text,
		[]byte("server: {listen: 127.0.0.1:0}")), 0o600))
	code, _, stderr := r.command("run", "--config", bad)
	assert.Equal(t, 1, code, "the other one ends")
	assert.Contains(t, stderr, "missing cannot be used: it does not exist", "the other one ends")
	known := func() (n int) {
		for _, s := range r.held().Streams {
			n += s.Objects
		}
		return n
	}
	before := known()
	r.configMap("default", "next", nil)
	r.poll("a commit", func() (bool, string) { n := known(); return n > before, fmt.Sprintf("%d objects are known", n) })
	b.stop()
}
