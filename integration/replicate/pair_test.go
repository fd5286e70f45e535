// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica"
)

// pair are two clusters that replicate into each other, through one stream.
type pair struct {
	// root is the test that the processes run for, and t a part of it.
	root, t *testing.T
	// there goes from east to west, and back from west to east. The bridge of each publishes its source, and keeps
	// namespace shop as it is in the other one.
	there, back *clusters
	// probes is how many objects were made to see that nothing else changes.
	probes *int
}

func newPair(t *testing.T) *pair {
	t.Helper()
	nats := rig.NATSForTest(t, nil)
	east, west := controlplane.ForTest(t, controlplane.Config{}), controlplane.ForTest(t, controlplane.Config{})
	p := &pair{
		root: t, t: t, there: &clusters{t: t, nats: nats, name: "east", source: east, target: west},
		back: &clusters{t: t, nats: nats, name: "west", source: west, target: east}, probes: new(int),
	}
	for _, c := range []*clusters{p.there, p.back} {
		c.from = must.Get(kubernetes.NewForConfig(c.source.RESTConfig()))(t)
		c.to = must.Get(kubernetes.NewForConfig(c.target.RESTConfig()))(t)
	}
	p.namespace("shop")
	p.start(p.there, "west")
	p.start(p.back, "east")
	return p
}

// start runs a process that publishes a cluster, and replicates the other one into it.
func (p *pair) start(c *clusters, other string) {
	p.t.Helper()
	dir := p.t.TempDir()
	port := must.Get(controlplane.FreePort())(p.t)
	c.config = filepath.Join(dir, "bridge.yaml")
	require.NoError(p.t, os.WriteFile(c.config, fmt.Appendf(nil, `
cluster: %[1]s
kubernetes: {kubeconfig: %[2]q}
dataDir: %[3]q
server: {listen: "127.0.0.1:%[4]d"}
pipelines:
  - name: audit
    resources: [{resource: configmaps}]
    sink: {nats: {servers: [%[5]q]}}
replicas:
  - name: from-%[6]s
    from: {cluster: %[6]s, pipeline: audit, nats: {servers: [%[5]q], stream: KUBERNETES}}
    resources: [{resource: configmaps, namespaces: [shop]}]
`, c.name, must.Get(c.source.Kubeconfig(dir))(p.t), filepath.Join(dir, "data"), port, c.nats.URL(), other), 0o600))
	c.startBridge(port)
}

// restart starts the process of a cluster again.
func (p *pair) restart(c *clusters) {
	p.t.Helper()
	*c.bridge = *rig.StartBridge(p.root, c.bridge.Server,
		exec.Command(rig.ProgramForTest(p.t), "run", "--config", c.config))
	c.bridge.AwaitReady(200, "ok")
}

// in returns the same clusters for a test that is a part of another one.
func (p *pair) in(t *testing.T) *pair {
	t.Helper()
	part := *p
	part.t, part.there, part.back = t, p.there.in(t), p.back.in(t)
	return &part
}

// namespace makes namespaces in both clusters.
func (p *pair) namespace(names ...string) {
	p.t.Helper()
	for _, name := range names {
		namespace(p.t, p.there.from, name)
		namespace(p.t, p.there.to, name)
	}
}

// replicas are two that replicate a namespace into each other's cluster. They have the same name.
type replicas struct {
	*pair
	ns string
	// west writes to the cluster of this name, and so does east.
	west, east         *replica.Replica
	stopWest, stopEast func()
	// configure changes what the file of the one and of the other says.
	configure [2]func(*replica.Config)
}

func (r *replicas) start() {
	r.t.Helper()
	r.startWest()
	r.startEast()
}

func (r *replicas) startWest() {
	r.t.Helper()
	r.west, r.stopWest = r.there.configMaps(r.ns, r.configure[0])
}

func (r *replicas) startEast() {
	r.t.Helper()
	r.east, r.stopEast = r.back.configMaps(r.ns, r.configure[1])
}

// atEast and atWest are clients.
func (p *pair) atEast() *kubernetes.Clientset { return p.there.from }
func (p *pair) atWest() *kubernetes.Clientset { return p.there.to }

// await waits until the clusters have ConfigMaps, besides probes.
func (r *replicas) await(east, west string) {
	r.t.Helper()
	rig.Poll(r.t, fmt.Sprintf("%q in east and %q in west", east, west), func() (bool, string) {
		inEast, inWest := r.values()
		return inEast == east && inWest == west, fmt.Sprintf("%q %q", inEast, inWest)
	})
}

// values returns what the ConfigMaps of both clusters say, without probes.
func (r *replicas) values() (east, west string) {
	r.t.Helper()
	var both [2]string
	for i, client := range []kubernetes.Interface{r.atEast(), r.atWest()} {
		all := strings.Fields(values(r.t, client, r.ns))
		all = slices.DeleteFunc(all, func(pair string) bool { return strings.HasPrefix(pair, probe) })
		both[i] = strings.Join(all, " ")
	}
	return both[0], both[1]
}

// quiet waits until nothing changes any more: objects that are made in either cluster go to the other one, and would
// come back where anything does. Meanwhile all others stay as they are.
func (r *replicas) quiet() {
	r.t.Helper()
	r.probe()
	east, west := versions(r.t, r.atEast(), r.ns), versions(r.t, r.atWest(), r.ns)
	for range 3 {
		r.probe()
		assert.Equal(r.t, east, versions(r.t, r.atEast(), r.ns), "what east has")
		assert.Equal(r.t, west, versions(r.t, r.atWest(), r.ns), "what west has")
	}
}

// probe is what names of objects begin with that are made for this.
const probe = "probe-"

func (r *replicas) probe() {
	r.t.Helper()
	*r.probes++
	for name, c := range map[string]*clusters{probe + "east": r.there, probe + "west": r.back} {
		value := fmt.Sprint(*r.probes)
		create(r.t, c.from, r.ns, name+"="+value)
		rig.Poll(r.t, name+" in the other cluster", func() (bool, string) {
			got, err := c.to.CoreV1().ConfigMaps(r.ns).Get(r.t.Context(), name, metav1.GetOptions{})
			return err == nil && got.Data["value"] == value, fmt.Sprint(err, r.west.Waiting(100), r.east.Waiting(100))
		})
	}
	settled(r.t, r.west)
	settled(r.t, r.east)
}

// versions returns those of the ConfigMaps of a namespace that are no probes.
func versions(t *testing.T, client kubernetes.Interface, ns string) map[string]string {
	t.Helper()
	list := must.Get(client.CoreV1().ConfigMaps(ns).List(t.Context(), metav1.ListOptions{}))(t)
	all := make(map[string]string)
	for i := range list.Items {
		if m := &list.Items[i]; !strings.HasPrefix(m.Name, probe) {
			all[m.Name] = string(m.UID) + "/" + m.ResourceVersion
		}
	}
	return all
}
