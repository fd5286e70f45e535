// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
)

// kafkaLog reads a topic with a client that nothing of the bridge is made of.
type kafkaLog struct {
	cluster *kafkabroker.Cluster
	topic   string
}

// newKafkaRig has brokers of its own, and a bridge that keeps nothing on a disk.
func newKafkaRig(t *testing.T, brokers int) *rig {
	t.Helper()
	return kafkaRigOf(t, brokers, watched)
}

func kafkaRigOf(t *testing.T, brokers int, resources string) *rig {
	t.Helper()
	cluster := kafkabroker.ForTest(t, kafkabroker.Config{Brokers: brokers})
	r := bareRig(t, controlplane.ForTest(t, controlplane.Config{}))
	r.kafka = &kafkaLog{cluster, "kubernetes"}
	r.configureSink(resources, fmt.Sprintf(`sink: {kafka: {brokers: ["%s"], create: {partitions: 3, replicas: %d}}}
    checkpoint: {kafka: {replicas: %d}}`, strings.Join(cluster.Addresses(), `", "`), brokers, brokers))
	return r
}

// entries reads all that the topic has now, one partition after the other; of the markers, which are in each of them, those in the partition of their key.
func (k *kafkaLog) entries(t *testing.T) (log []entry) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(k.cluster.Addresses()...), kgo.ConsumeTopics(k.topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(ctx, k.topic)
	if err != nil || ends.Error() != nil {
		return nil // it is not there yet, or its leader is away
	}
	missing, byPartition := map[int32]int64{}, map[int32][]entry{}
	partitions := 0
	ends.Each(func(o kadm.ListedOffset) {
		partitions++
		if o.Offset > 0 {
			missing[o.Partition] = o.Offset
		}
	})
	home := kgo.StickyKeyPartitioner(nil).ForTopic(k.topic)
	for len(missing) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("read topic %s: %v", k.topic, ctx.Err())
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if e := kafkaEntry(t, r); e.key != "" || int(r.Partition) == home.Partition(r, partitions) {
				byPartition[r.Partition] = append(byPartition[r.Partition], e)
			}
			if r.Offset+1 >= missing[r.Partition] {
				delete(missing, r.Partition)
			}
		})
	}
	for _, p := range slices.Sorted(maps.Keys(byPartition)) {
		log = append(log, byPartition[p]...)
	}
	return log
}

func kafkaEntry(t *testing.T, r *kgo.Record) entry {
	t.Helper()
	e := entry{seq: uint64(r.Offset), data: r.Value, attributes: map[string]string{}} //nolint:gosec // offsets are not negative
	for _, h := range r.Headers {
		value := string(h.Value)
		e.attributes[h.Key] = value
		switch h.Key {
		case "ce_id":
			e.id = value
		case "ce_type":
			parts := strings.Split(value, ".")
			e.op = parts[len(parts)-2]
		case "ce_subject":
			e.key = value
		case "ce_objectuid":
			e.uid = value
		case "ce_resourceversion":
			e.rv = value
		case "ce_reason":
			e.reason = value
		case "ce_kind":
			e.kind = value
		}
	}
	return e
}

func TestBridge_on_Kafka_killed_ten_times_loses_repeats_and_misorders_nothing(t *testing.T) {
	disturbed(newKafkaRig(t, 1), 5000, 10, func(r *rig) {
		r.bridge.kill()
		r.run()
	})
}

func TestBridge_on_Kafka_loses_repeats_and_misorders_nothing_when_brokers_are_killed(t *testing.T) {
	next := 0
	disturbed(newKafkaRig(t, 3), 3000, 4, func(r *rig) {
		broker := next % 3
		next++
		must(r.t, r.kafka.cluster.Kill(broker))
		must(r.t, r.kafka.cluster.Restart(r.t.Context(), broker))
	})
}

// A process that was stopped, as by a machine that swaps or a virtual one that is moved, knows nothing of the one that has taken its place, and wakes with changes to publish.
func TestBridge_on_Kafka_that_wakes_after_another_has_come_is_refused(t *testing.T) {
	r := newKafkaRig(t, 1)
	h := &truth{states: map[string][]string{}}
	first := r.run()
	r.await("the snapshot", func(log []entry) bool {
		return slices.ContainsFunc(log, func(e entry) bool { return e.op == "snapshot-completed" })
	})
	var driving sync.WaitGroup
	for w := range 4 {
		driving.Go(func() {
			if err := drive(t.Context(), r.kube, h, w, 500, uint64(w)); err != nil {
				t.Error(err)
			}
		})
	}
	reached := func(n int) { waitUntil(t, func() bool { return h.count() >= n || t.Failed() }) }
	reached(500)
	first.signal(syscall.SIGSTOP)
	r.listenElsewhere()
	second := r.run()
	reached(1000)
	r.await("events of the second one", func(log []entry) bool {
		return strings.Contains(second.stderr(), `"msg":"publishing"`) && len(log) > 1000
	})
	first.signal(syscall.SIGCONT)
	driving.Wait()
	r.settle(func(log []entry) bool { return countObjects(log, h) >= h.count() })
	select {
	case <-first.ended:
	case <-time.After(90 * time.Second):
		t.Fatal("the first one does not end")
	}
	if code := first.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("the first one ended with code %d, want 1", code)
	}
	// What it tries first, an event or a commit, is what it is refused.
	if said := first.stderr(); !strings.Contains(said, "another process publishes for pipeline test of cluster e2e") && strings.Count(said, "another kube-eventbridge uses checkpoint") != 1 {
		t.Errorf("the first one does not say once why it ended:\n%s", said)
	}
	second.stop()
	if said := second.stderr(); strings.Count(said, `"msg":"publishing"`) != 1 || !strings.Contains(said, `"to":"topic kubernetes"`) {
		t.Errorf("the second one does not say once that it publishes:\n%s", said)
	}
	checkLog(t, r.entries(), h)
}

// What docs/events.md says that the bridge's user needs is enough: it warns of nothing, and one step less is a permission that it misses.
func TestBridge_on_Kafka_needs_no_more_permissions_than_are_documented(t *testing.T) {
	cluster := kafkabroker.ForTest(t, kafkabroker.Config{
		Listeners: []kafkabroker.Listener{{Protocol: kafkabroker.Plaintext}, {Protocol: kafkabroker.SASLTLS, Mechanisms: []string{kafkabroker.SCRAM512}}},
		Users:     map[string]string{"bridge": "secret"}, Authorizer: true,
	})
	r := bareRig(t, controlplane.ForTest(t, controlplane.Config{}))
	r.kafka = &kafkaLog{cluster, "kubernetes"}
	password := filepath.Join(r.dir, "password")
	must(t, os.WriteFile(password, []byte("secret\n"), 0o600))
	r.configureSink(watched, fmt.Sprintf(`sink:
      kafka:
        brokers: ["%s"]
        create: {}
        tls: {caFile: %s}
        sasl: {mechanism: scram-sha-512, user: bridge, passwordFile: %s}
    checkpoint: {kafka: {}}`, strings.Join(cluster.AddressesOf(string(kafkabroker.SASLTLS)), `", "`), cluster.CAFile(), password))
	for _, topic := range []string{"kubernetes", "kube-eventbridge-checkpoints"} {
		must(t, cluster.Allow(t.Context(), "bridge", kafkago.ResourceTypeTopic, topic, kafkago.ACLOperationTypeCreate, kafkago.ACLOperationTypeWrite,
			kafkago.ACLOperationTypeRead, kafkago.ACLOperationTypeDescribeConfigs))
	}
	for _, id := range []string{"kube-eventbridge.e2e.test", "kube-eventbridge.e2e.test.checkpoint"} {
		must(t, cluster.Allow(t.Context(), "bridge", kafkago.ResourceTypeTransactionalID, id, kafkago.ACLOperationTypeWrite))
	}
	for range 2 {
		r.run()
		r.awaitStatus(200, "")
		r.bridge.stop()
		for line := range strings.Lines(r.bridge.stderr()) {
			if strings.Contains(line, `"level":"WARN"`) && !strings.Contains(line, "min.insync.replicas=1") || strings.Contains(line, `"secret"`) {
				t.Errorf("it says: %s", line)
			}
		}
	}
}

// A pipeline whose brokers are away says so at once, and keeps no other one waiting; when they come it goes on.
func TestBridge_with_brokers_that_are_away_runs_the_other_pipelines(t *testing.T) {
	cluster := kafkabroker.ForTest(t, kafkabroker.Config{})
	must(t, cluster.Kill(0))
	r := newRig(t, watched)
	address := cluster.Addresses()[0]
	text, err := os.ReadFile(r.config)
	must(t, err)
	must(t, os.WriteFile(r.config, fmt.Appendf(text, `
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
			if strings.Contains(line, "waiting for the checkpoint") && strings.Contains(line, `"pipeline":"late"`) && strings.Contains(line, address) {
				return true, ""
			}
		}
		return false, r.bridge.stderr()
	})
	must(t, cluster.Restart(t.Context(), 0))
	r.kafka = &kafkaLog{cluster, "kubernetes"}
	r.await("the event in Kafka", isThere("first"))
	r.awaitStatus(200, "")
	r.bridge.stop()
}

// A bridge that cannot publish must not end the one that does, as in a rolling update with a bad file.
func TestKafka_a_bridge_without_its_topic_leaves_the_checkpoint_to_another(t *testing.T) {
	r := newKafkaRig(t, 1)
	b := r.run()
	r.awaitStatus(http.StatusOK, "")
	text, err := os.ReadFile(r.config)
	must(t, err)
	bad := filepath.Join(r.dir, "bad.yaml")
	text = bytes.Replace(text, []byte("create: {partitions: 3, replicas: 1}"), []byte("topic: missing"), 1)
	must(t, os.WriteFile(bad, regexp.MustCompile(`server: .*`).ReplaceAll(text, []byte("server: {listen: 127.0.0.1:0}")), 0o600))
	code, _, stderr := r.command("run", "--config", bad)
	if code != 1 || !strings.Contains(stderr, "missing cannot be used: it does not exist") {
		t.Errorf("the other one ends with %d and %s", code, stderr)
	}
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
