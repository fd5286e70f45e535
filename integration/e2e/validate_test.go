// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane/crd"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// validates checks that validate --cluster ends with a code and says these lines and no other, without the file's name
// before them. A line is a regular expression.
func (r *fixture) validates(code int, lines ...string) {
	r.t.Helper()
	got, out, said := r.command("validate", "--cluster", "--config", r.config)
	fits := got == code && (out != "") == (code == 0)
	rest := strings.Split(strings.TrimSuffix(said, "\n"), "\n")
	if said == "" {
		rest = nil
	}
	fits = fits && len(rest) == len(lines)
	for i := range min(len(rest), len(lines)) {
		fits = fits && regexp.MustCompile("^"+regexp.QuoteMeta(r.config)+`:\d+:\d+: `+lines[i]+"$").MatchString(rest[i])
	}
	assert.True(r.t, fits, "got %d, %s%s\nwant %d, and\n%s", got, out, said, code, strings.Join(lines, "\n"))
}

func TestValidate_asks_the_cluster_and_NATS_and_changes_nothing(t *testing.T) {
	t.Parallel()
	api := controlplane.ForTest(t, controlplane.Config{RBAC: true})
	r := rigOn(t, api, `[{resource: pods}, {resource: cm, namespaces: [default, shop]}]`)
	r.validates(0)
	assert.Error(t, must.Err(r.js.Stream(t.Context(), "KUBERNETES")), "it made the stream")
	assert.Error(t, must.Err(os.Stat(filepath.Join(r.dir, "data"))), "it made the data directory")

	places := crd.Define(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "places"}, "Place")
	places.Spec.Scope = apiextensionsv1.ClusterScoped
	require.NoError(t, crd.Install(t.Context(), api.RESTConfig(), places))
	r.configure(`[{resource: widgets.example.com}, {resource: places.example.com, namespaces: [default]}, {resource: ` +
		`componentstatuses}, {resource: pods}]`)
	r.validates(2,
		`pipelines\[0\].resources\[0\].resource: the cluster has no resource widgets.example.com now; kubectl api-resources lists those that it has`,
		`pipelines\[0\].resources\[1\].namespaces: resource places.example.com is cluster-scoped and cannot be read in namespace "default"; remove its namespaces`,
		`pipelines\[0\].resources\[2\].resource: componentstatuses cannot be listed and watched; name a resource that has the verbs .*`)

	r.configure(`[{resource: cm}, {resource: configmaps, namespaces: [shop]}]`)
	r.validates(2, `pipelines\[0\].resources\[1\].resource: configmaps may name the same objects as cm before it, .*`)
	// A singular that only the cluster knows.
	r.configure(`[{resource: networkpolicy}, {resource: networkpolicies, namespaces: [shop]}]`)
	r.validates(2,
		`pipelines\[0\].resources\[1\].resource: networkpolicies and networkpolicy before it are one resource, .*; remove one, or give them different namespaces`)

	// Who may do nothing is told each thing; what rbac prints is enough.
	r.configure(`[{resource: secrets}, {resource: configmaps, namespaces: [default]}]`)
	as := func() {
		_, err := controlplane.WriteKubeconfig(api.User("system:serviceaccount:default:bridge"),
			filepath.Join(r.dir, "kubeconfig"))
		require.NoError(t, err)
	}
	as()
	const granted = "; kube-eventbridge rbac prints the roles that allow it"
	r.validates(2, `kubernetes: identify the cluster by the namespace kube-system: .* is forbidden: .*`+granted,
		`pipelines\[0\].resources\[0\]: the user of the kubeconfig may not list, watch secrets in all namespaces`+granted,
		`pipelines\[0\].resources\[1\]: the user of the kubeconfig may not list, watch configmaps in namespace default`+granted)
	r.apply(r.rolesFor("bridge", "bridge"))
	r.validates(0)

	// What is too large has a bucket, which the bridge makes when it needs it.
	r.configureSink(`[{resource: pods}]`, fmt.Sprintf("oversize: store\n    sink: {nats: {servers: [%q]}}",
		r.broker.url()))
	r.validates(0)
	_, err := r.js.CreateObjectStore(t.Context(), jetstream.ObjectStoreConfig{
		Bucket: "KUBERNETES-objects",
		TTL:    time.Hour,
	})
	require.NoError(t, err)
	r.validates(0,
		`pipelines\[0\].oversize: bucket KUBERNETES-objects keeps objects for 1h0m0s, and the stream events .* \(warning\)`)

	// A stream that must not be used, one that costs something, and none to ask about.
	r.configure(`[{resource: pods}]`)
	_, err = r.js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "KUBERNETES", Subjects: []string{"k8s.>"},
		Storage: jetstream.MemoryStorage,
	})
	require.NoError(t, err)
	r.validates(2,
		`pipelines\[0\].sink.nats: stream KUBERNETES cannot be used: it is kept in the memory of one server: .*`,
		`pipelines\[0\].sink.nats: stream KUBERNETES is kept in memory: its messages end with the servers \(warning\)`)
	r.broker.stop()
	r.validates(1,
		`pipelines\[0\].sink.nats: nats://127.0.0.1:\d+ cannot be asked: connect to nats://127.0.0.1:\d+: dial .*`)
	r.configure(`[{resource: widgets.example.com}]`)
	r.validates(2, `pipelines\[0\].resources\[0\].resource: the cluster has no resource .*`,
		`pipelines\[0\].sink.nats: nats://127.0.0.1:\d+ cannot be asked: .*`)
	require.NoError(t, api.StopAPIServer(t.Context()))
	r.validates(1, `kubernetes: the API server https://127.0.0.1:\d+ cannot be asked: .*connection refused`,
		`pipelines\[0\].sink.nats: .* cannot be asked: .*`)
}

func TestValidate_asks_Kafka_and_disturbs_no_bridge(t *testing.T) {
	rig.Parallel(t, rig.All)
	cluster := kafkabroker.ForTest(t, kafkabroker.Config{
		Listeners: []kafkabroker.Listener{
			{Protocol: kafkabroker.Plaintext},
			{Protocol: kafkabroker.SASLTLS, Mechanisms: []string{kafkabroker.SCRAM512}},
		},
		Users: map[string]string{"bridge": "secret"},
	})
	r := bareRig(t, controlplane.ForTest(t, controlplane.Config{}))
	r.kafka = &kafkaLog{cluster: cluster, topic: "kubernetes"}
	configure := func(sink string) {
		r.configureSink(watched, fmt.Sprintf("sink: {kafka: {brokers: [%q]%s}}\n    checkpoint: {kafka: {}}",
			cluster.Addresses()[0], sink))
	}
	configure("")
	r.validates(2,
		`pipelines\[0\].sink.kafka: topic kubernetes cannot be used: it does not exist, .*; create it, for example with kafka-topics.sh .*`)
	configure(", create: {partitions: 3}")
	r.validates(0)
	client, done := r.kafkaAdmin()
	defer done()
	topics := func() map[string]bool {
		res := must.Get(client.Metadata(t.Context(), &kafkago.MetadataRequest{}))(t)
		found := map[string]bool{}
		for _, topic := range res.Topics {
			found[topic.Name] = true
		}
		return found
	}
	found := topics()
	assert.True(t, !found["kubernetes"] && !found["kube-eventbridge-checkpoints"], "it made topics: %v", found)

	// A bridge that runs stays the one that publishes.
	b := r.run()
	r.awaitStatus(200, "")
	const durable = `pipelines\[0\].sink.kafka: topic kubernetes loses events: min.insync.replicas=1: .* \(warning\)`
	before := r.kafka.writer(t)
	for range 2 {
		r.validates(0, durable)
	}
	assert.Equal(t, before, r.kafka.writer(t), "the writer")
	r.configMap("default", "later", nil)
	r.awaitStory("default/later", "added")
	b.stop()

	require.NoError(t, cluster.CreateTopic(t.Context(), "audit", 3, 0,
		map[string]string{"cleanup.policy": "compact", "min.insync.replicas": "2"}))
	configure(", topic: audit")
	r.validates(0, `.*: topic audit loses events: cleanup.policy=compact: .* \(warning\)`,
		`.*: topic audit loses events: cleanup.policy=compact without tombstones: .* \(warning\)`)

	// Checkpoints in a topic that forgets them.
	r.configureSink(watched,
		fmt.Sprintf("sink: {kafka: {brokers: [%q], topic: audit, tombstones: true}}\n    checkpoint: {kafka: {topic: "+
			"kubernetes}}", cluster.Addresses()[0]))
	r.validates(2, `.*: topic audit loses events: cleanup.policy=compact: .* \(warning\)`,
		`pipelines\[0\].checkpoint.kafka: check of checkpoint .*: topic kubernetes cannot keep checkpoints: cleanup.policy=delete deletes what is old, .*`)

	password := filepath.Join(r.dir, "password")
	require.NoError(t, os.WriteFile(password, []byte("wrong\n"), 0o600))
	guarded := cluster.AddressesOf(string(kafkabroker.SASLTLS))[0]
	as := func(tls string) {
		r.configureSink(watched,
			fmt.Sprintf(`sink: {kafka: {brokers: [%q]%s, sasl: {mechanism: scram-sha-512, user: bridge, passwordFile: %s}, `+
				`create: {}}}`, guarded, tls, password))
	}
	as(fmt.Sprintf(", tls: {caFile: %s}", cluster.CAFile()))
	r.validates(2, `pipelines\[0\].sink.kafka: `+guarded+`: .*the broker refuses the credentials: .*`)
	as("")
	r.validates(2, `pipelines\[0\].sink.kafka: `+guarded+`: .*expects TLS on this port, and none is configured.*`)
	as(", tls: {}")
	r.validates(2, `pipelines\[0\].sink.kafka: `+guarded+`: .*signed by an unknown CA; name that CA.*`)
	require.NoError(t, os.WriteFile(password, []byte("secret\n"), 0o600))
	as(fmt.Sprintf(", tls: {caFile: %s}", cluster.CAFile()))
	r.validates(0, durable)
	require.NoError(t, cluster.Kill(0))
	r.validates(1, `pipelines\[0\].sink.kafka: `+guarded+` cannot be asked: .*`)
}

// writer returns the producer id and the epoch of the pipeline.
func (k *kafkaLog) writer(t *testing.T) string {
	t.Helper()
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(k.cluster.Addresses()...)))(t)
	defer client.Close()
	id := "kube-eventbridge.e2e.test." + k.topic
	all := must.Get(kadm.NewClient(client).DescribeTransactions(t.Context(), id))(t)
	require.NoError(t, all[id].Err)
	return fmt.Sprintf("%d/%d", all[id].ProducerID, all[id].ProducerEpoch)
}

// kafkaAdmin returns a client that leaves nothing running when it is done.
func (r *fixture) kafkaAdmin() (c *kafkago.Client, done func()) {
	transport := &kafkago.Transport{}
	return &kafkago.Client{Addr: kafkago.TCP(r.kafka.cluster.Addresses()...), Transport: transport},
		transport.CloseIdleConnections
}
