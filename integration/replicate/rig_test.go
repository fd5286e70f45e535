// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/natslog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/guard"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/released"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/selection"
)

// clusters are a source that a bridge publishes, its log, and a target.
type clusters struct {
	t              *testing.T
	source, target *controlplane.ControlPlane
	from, to       *kubernetes.Clientset
	nats           *rig.NATS
	bridge         *rig.Bridge
	config         string
	// sink and from are what the bridge's file says of the sink, and the replica's of the log.
	sink, log string
	// kept is what the events have of what is removed from objects otherwise.
	kept string
	// name is the source's; empty is east.
	name string
	// servers say how the two control planes run.
	servers [2]controlplane.Config
}

// newClusters starts all of it. Resources are the entries of the bridge's pipeline.
func newClusters(t *testing.T, resources string) *clusters {
	t.Helper()
	return newClustersOn(t, resources, [2]controlplane.Config{}, "")
}

// newClustersOn is newClusters with control planes as they are asked for, and events that keep what is removed from
// objects otherwise.
func newClustersOn(t *testing.T, resources string, servers [2]controlplane.Config, kept string) *clusters {
	t.Helper()
	c := &clusters{t: t, nats: rig.NATSForTest(t, nil), servers: servers, kept: kept}
	c.sink = fmt.Sprintf("sink: {nats: {servers: [%q]}}", c.nats.URL())
	c.log = fmt.Sprintf("nats: {servers: [%q], stream: KUBERNETES}", c.nats.URL())
	c.start(resources)
	return c
}

// newClustersOnKafka is newClusters with a log on Kafka.
func newClustersOnKafka(t *testing.T, resources string) *clusters {
	t.Helper()
	brokers := strings.Join(kafkabroker.ForTest(t, kafkabroker.Config{}).Addresses(), ", ")
	c := &clusters{t: t}
	c.sink = fmt.Sprintf("sink: {kafka: {brokers: [%q], create: {partitions: 3, replicas: 1}}}", brokers)
	c.log = fmt.Sprintf("kafka: {brokers: [%q]}", brokers)
	c.start(resources)
	return c
}

func (c *clusters) start(resources string) {
	t := c.t
	t.Helper()
	c.source = controlplane.ForTest(t, c.servers[0])
	c.target = controlplane.ForTest(t, c.servers[1])
	c.from = must.Get(kubernetes.NewForConfig(c.source.RESTConfig()))(t)
	c.to = must.Get(kubernetes.NewForConfig(c.target.RESTConfig()))(t)
	dir := t.TempDir()
	kubeconfig := must.Get(c.source.Kubeconfig(dir))(t)
	port := must.Get(controlplane.FreePort())(t)
	c.config = filepath.Join(dir, "bridge.yaml")
	require.NoError(t, os.WriteFile(c.config, fmt.Appendf(nil, `
cluster: east
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: "127.0.0.1:%d"}
pipelines:
  - name: audit
    resources: %s
    encoding: {secrets: {values: true}, keep: [%s]}
    %s
`, kubeconfig, filepath.Join(dir, "data"), port, resources, c.kept, c.sink), 0o600))
	c.startBridge(port)
}

func (c *clusters) startBridge(port int) {
	c.t.Helper()
	c.bridge = rig.StartBridge(c.t, fmt.Sprintf("127.0.0.1:%d", port),
		exec.Command(rig.ProgramForTest(c.t), "run", "--config", c.config))
	c.bridge.AwaitReady(200, "ok")
}

// in returns the same clusters for a test that is a part of another one.
func (c *clusters) in(t *testing.T) *clusters {
	t.Helper()
	part := *c
	part.t = t
	return &part
}

// cluster is the source's name.
func (c *clusters) cluster() string { return cmp.Or(c.name, "east") }

// replicaConfig returns a replica, to be changed by a test.
func (c *clusters) replicaConfig(name string, entries ...selection.Entry) replica.Config {
	c.t.Helper()
	for i := range entries {
		rules := entries[i].Rules.Config
		rules.Replica, rules.Cluster = name, c.cluster()
		entries[i].Rules = must.Get(clean.New(rules))(c.t)
	}
	return replica.Config{
		Name: name, Cluster: c.cluster(), Pipeline: "audit",
		OpenLog: func(bool) (replica.Log, error) {
			return natslog.Connect(natslog.Config{
				Servers: []string{c.nats.URL()}, Stream: "KUBERNETES", SubjectPerObject: true, Durable: name, Wait: true,
				Subjects: []string{"k8s." + c.cluster() + ".>"},
				Whole:    []string{"k8s." + c.cluster() + ".*.*._._gap", "k8s." + c.cluster() + ".*.*._._resync"},
				Notice:   func(line string) { c.t.Log("log: " + line) },
			})
		},
		Target: c.target.RESTConfig(), Entries: entries,
		State:  &released.ConfigMap{Client: c.to.CoreV1().ConfigMaps("default"), Name: "kube-eventbridge-replica-" + name},
		Config: plan.Config{Existing: plan.Refuse, Deletes: true}, Limit: guard.Limit{Percent: 20},
		Logger: slog.New(slog.NewTextHandler(c.t.Output(), nil)),
	}
}

// entry selects a resource in namespaces.
func (c *clusters) entry(group, resource string, rules clean.Config, namespaces ...string) selection.Entry {
	c.t.Helper()
	rules.Replica, rules.Selected = "replica", namespaces
	return selection.Entry{
		Group: group, Resource: resource, Namespaces: namespaces, Rules: must.Get(clean.New(rules))(c.t),
	}
}

// logged waits until the log has an event of an object.
func (c *clusters) logged(name, op string) {
	c.t.Helper()
	log := rig.NATSLog(c.nats.Connect(c.t), "KUBERNETES")
	rig.Poll(c.t, op+" of "+name+" in the log", func() (bool, string) {
		all, err := log.Read(c.t.Context())
		return slices.ContainsFunc(all, func(m rig.Message) bool {
			return strings.HasSuffix(m.Subject, "."+name) && strings.Contains(strings.Join(m.Header["ce-type"], ""), op)
		}), fmt.Sprint(len(all), err)
	})
}

// replicate runs a replica until the test ends, or until stop is called.
func (c *clusters) replicate(cfg replica.Config) (r *replica.Replica, stop func()) {
	c.t.Helper()
	r = replica.New(cfg)
	ctx, cancel := context.WithCancel(c.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			require.NoError(c.t, <-ended)
		}
	}
	c.t.Cleanup(stop)
	return r, stop
}

func namespace(t *testing.T, client kubernetes.Interface, name string) {
	t.Helper()
	_, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{})
	require.NoError(t, err)
}

// create makes or changes ConfigMaps, of names and values as in a=1.
func create(t *testing.T, client kubernetes.Interface, ns string, pairs ...string) {
	t.Helper()
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		maps := client.CoreV1().ConfigMaps(ns)
		_, err := maps.Create(t.Context(), configMap(name, value), metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			patch := fmt.Appendf(nil, `{"data":{"value":%q}}`, value)
			_, err = maps.Patch(t.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{})
		}
		require.NoError(t, err)
	}
}

// remove deletes ConfigMaps.
func remove(t *testing.T, client kubernetes.Interface, ns string, names ...string) {
	t.Helper()
	for _, name := range names {
		require.NoError(t, client.CoreV1().ConfigMaps(ns).Delete(t.Context(), name, metav1.DeleteOptions{}))
	}
}

// parked waits until a replica has objects that wait for a reason.
func parked(t *testing.T, r *replica.Replica, reason plan.Reason, n int) {
	t.Helper()
	rig.Poll(t, fmt.Sprintf("%d objects that wait: %s", n, reason), func() (bool, string) {
		s, _ := r.Status()
		return s.Parked[reason] == n && s.Pending == 0, fmt.Sprintf("%+v %+v", s, r.Waiting(100))
	})
}

func configMap(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"value": value}}
}

// values returns what the ConfigMaps of a namespace say that are about the replica.
func values(t *testing.T, client kubernetes.Interface, ns string) string {
	t.Helper()
	list, err := client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, m := range list.Items {
		all = append(all, m.Name+"="+m.Data["value"])
	}
	return strings.Join(all, " ")
}

func awaitValues(t *testing.T, client kubernetes.Interface, ns, want string) {
	t.Helper()
	rig.Poll(t, "ConfigMaps "+want, func() (bool, string) {
		got := values(t, client, ns)
		return got == want, got
	})
}

// reported returns which objects wait, without those that are never replicated.
func reported(r *replica.Replica) []replica.Waiting {
	return slices.DeleteFunc(r.Waiting(1000), func(w replica.Waiting) bool { return w.Reason == "left-out" })
}

// settled waits until a replica has nothing to do.
func settled(t *testing.T, r *replica.Replica) {
	t.Helper()
	rig.Poll(t, "a replica that has nothing to do", func() (bool, string) {
		s, running := r.Status()
		return running && s.CaughtUp && s.Pending == 0, fmt.Sprintf("%+v", s)
	})
}
