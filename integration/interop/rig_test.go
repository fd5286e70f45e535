// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/port"
)

const (
	cluster   = "interop"
	namespace = "interop"
	// apart is the namespace of what is published to a compacted topic, and to no other.
	apart = "compacted"
	// topicCompacted is that topic.
	topicCompacted = "compacted"
)

// The four logs that have the same events. A pipeline has the name of its log.
var logs = []string{"kafka-binary", "kafka-structured", "nats-binary", "nats-structured"}

func onKafka(log string) bool    { return strings.HasPrefix(log, "kafka") }
func structured(log string) bool { return strings.HasSuffix(log, "structured") }

// target returns the topic or JetStream stream of a log.
func target(log string) string {
	if onKafka(log) {
		return log
	}
	return strings.ToUpper(strings.TrimPrefix(log, "nats-"))
}

// world is a control plane, both brokers, and a bridge between them with five pipelines.
type world struct {
	t       *testing.T
	kube    *kubernetes.Clientset
	kafka   *kafkabroker.Cluster
	nats    *rig.NATS
	js      jetstream.JetStream
	dir     string
	config  string
	address string // of the bridge's metrics
	bridge  *rig.Bridge
}

func newWorld(t *testing.T) *world {
	t.Helper()
	api := controlplane.ForTest(t, controlplane.Config{})
	kube := must.Get(kubernetes.NewForConfig(api.RESTConfig()))(t)
	free := must.Get(port.Free())(t)
	r := &world{
		t: t, kube: kube, dir: t.TempDir(), kafka: kafkabroker.ForTest(t, kafkabroker.Config{}),
		nats: rig.NATSForTest(t, nil), address: fmt.Sprintf("127.0.0.1:%d", free),
	}
	r.js = r.nats.Connect(t)
	kubeconfig := must.Get(api.Kubeconfig(r.dir))(t)
	r.config = filepath.Join(r.dir, "bridge.yaml")
	require.NoError(t, os.WriteFile(r.config, []byte(r.configuration(kubeconfig)), 0o600))
	return r
}

func (r *world) configuration(kubeconfig string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster: %s\nkubernetes: {kubeconfig: %q}\ndataDir: %q\nserver: {listen: %s}\npipelines:\n",
		cluster, kubeconfig, filepath.Join(r.dir, "data"), r.address)
	for _, log := range logs {
		mode, sink := "binary",
			fmt.Sprintf(`kafka: {brokers: [%q], topic: "{pipeline}", create: {partitions: 3}, tombstones: true}`,
				r.kafka.Addresses()[0])
		if structured(log) {
			mode = "structured"
		}
		checkpoint := "kafka: {}"
		if !onKafka(log) {
			sink = fmt.Sprintf(`nats: {servers: [%q], stream: %s, subject: "%s.{cluster}.{group}.{resource}.{namespace}.{name}"}`,
				r.nats.URL(), target(log), mode)
			checkpoint = "file: {}"
		}
		fmt.Fprintf(&b, `
  - name: %s
    resources:
      - {resource: configmaps, namespaces: [%s]}
      - {resource: secrets, namespaces: [%s]}
      - {resource: priorityclasses.scheduling.k8s.io, delivery: latest}
    encoding: {mode: %s}
    sink: {%s}
    checkpoint: {%s}
`, log, namespace, namespace, mode, sink, checkpoint)
	}
	// Kafka closes a segment by its time when the next record comes, and cleans what is closed.
	fmt.Fprintf(&b, `
  - name: compacted
    resources: [{resource: configmaps, namespaces: [%s]}]
    sink: {kafka: {brokers: [%q], topic: %s, tombstones: true, create: {partitions: 2, settings: {
      cleanup.policy: compact, segment.ms: 200, min.cleanable.dirty.ratio: 0.01, max.compaction.lag.ms: 200, delete.retention.ms: 0}}}}
    checkpoint: {kafka: {}}
`, apart, r.kafka.Addresses()[0], topicCompacted)
	return b.String()
}

// run starts a bridge and waits until it is ready.
func (r *world) run() {
	r.t.Helper()
	r.bridge = rig.StartBridge(r.t, r.address, exec.Command(rig.ProgramForTest(r.t), "run", "--config", r.config))
	r.bridge.AwaitReady(http.StatusOK, "")
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
