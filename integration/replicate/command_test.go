// SPDX-License-Identifier: Apache-2.0

package replicate

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// replicaFile writes a file with a replica of the ConfigMaps of namespace shop, and returns its path and the address of
// the process's server.
func (c *clusters) replicaFile(more string) (path, server string) {
	c.t.Helper()
	dir := c.t.TempDir()
	kubeconfig := must.Get(c.target.Kubeconfig(dir))(c.t)
	path = filepath.Join(dir, "replica.yaml")
	server = fmt.Sprintf("127.0.0.1:%d", must.Get(controlplane.FreePort())(c.t))
	require.NoError(c.t, os.WriteFile(path, fmt.Appendf(nil, `
cluster: west
kubernetes: {kubeconfig: %q}
server: {listen: %q, admin: ""}
replicas:
  - name: shop
    from: {cluster: east, pipeline: audit, %s}
    resources: [{resource: configmaps, namespaces: [shop]}]
    %s
`, kubeconfig, server, c.log, more), 0o600))
	return path, server
}

func (c *clusters) startReplica(path, server string) *rig.Bridge {
	c.t.Helper()
	b := rig.StartBridge(c.t, server, exec.Command(rig.ProgramForTest(c.t), "replicate", "--config", path))
	b.AwaitReady(200, "ok")
	return b
}

// command runs the program to its end.
func (c *clusters) command(args ...string) (code int, out string) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), rig.ProgramForTest(c.t), args...)
	text, _ := cmd.CombinedOutput() // the exit code says it
	return cmd.ProcessState.ExitCode(), string(text)
}

func TestCommand_keeps_a_namespace_through_kills(t *testing.T) {
	for name, make := range map[string]func(*testing.T, string) *clusters{"NATS": newClusters, "Kafka": newClustersOnKafka} {
		t.Run(name, func(t *testing.T) {
			c := make(t, "[{resource: configmaps}]")
			c.both("shop")
			create(t, c.from, "shop", "a=1", "b=1")
			keepsThroughKills(c)
		})
	}
}

func keepsThroughKills(c *clusters) {
	t := c.t
	path, server := c.replicaFile("")

	code, out := c.command("replicate", "--config", path, "--dry-run")
	assert.Equal(t, 1, code, out)
	assert.Contains(t, out, "create configmaps shop/a", out)
	b := c.startReplica(path, server)
	awaitValues(t, c.to, "shop", "a=1 b=1")
	for i := range 5 {
		b.Crash()
		create(t, c.from, "shop", fmt.Sprintf("a=%d", i+2))
		remove(t, c.from, "shop", "b")
		b = c.startReplica(path, server)
		awaitValues(t, c.to, "shop", fmt.Sprintf("a=%d", i+2))
		create(t, c.from, "shop", "b=1")
		awaitValues(t, c.to, "shop", fmt.Sprintf("a=%d b=1", i+2))
	}
	code, out = c.command("replicate", "status", "--server", server)
	assert.Equal(t, 0, code, out)
	assert.Contains(t, out, "shop: 2 objects, 0 pending", out)
	code, out = c.command("replicate", "--config", path, "--dry-run")
	assert.Equal(t, 0, code, out)
	assert.Empty(t, strings.TrimSpace(out))
	n, found := b.Metric("replica_objects", `replica="shop"`)
	assert.True(t, found)
	assert.InDelta(t, 2, n, 0)
	b.Stops()
}

func TestValidate_says_that_a_log_has_no_whole_objects(t *testing.T) {
	c := newClusters(t, "[{resource: configmaps, payload: metadata}]")
	c.both("shop")
	create(t, c.from, "shop", "a=1")
	c.logged("a", "added")
	path, _ := c.replicaFile("")
	code, out := c.command("validate", "--config", path, "--cluster")
	assert.Equal(t, 2, code, out)
	assert.Contains(t, out, "replicas[0].resources[0].resource: the log's newest events of configmaps have no whole object")
	text := must.Get(os.ReadFile(path))(t)
	require.NoError(t, os.WriteFile(path, bytes.ReplaceAll(text, []byte("pipeline: audit"), []byte("pipeline: other")), 0o600))
	code, out = c.command("validate", "--config", path, "--cluster")
	assert.Equal(t, 2, code, out)
	assert.Contains(t, out, "the log has no event of cluster east and pipeline other; it has those of cluster east, pipeline audit")
}

// One process publishes a cluster, and keeps a copy of one of its namespaces in another one.
func TestRun_publishes_and_replicates(t *testing.T) {
	c := newClusters(t, "[{resource: secrets}]")
	namespace(t, c.from, "shop")
	namespace(t, c.from, "copy")
	dir := t.TempDir()
	path := filepath.Join(dir, "both.yaml")
	server := fmt.Sprintf("127.0.0.1:%d", must.Get(controlplane.FreePort())(t))
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
cluster: north
kubernetes: {kubeconfig: %q}
dataDir: %q
server: {listen: %q, admin: ""}
leaderElection: {resourceNamespace: default}
pipelines:
  - name: both
    resources: [{resource: configmaps}]
    sink: {nats: {servers: [%q], stream: NORTH, subject: "north.{group}.{resource}.{namespace}.{name}"}}
    checkpoint: {nats: {}}
replicas:
  - name: copy
    from: {cluster: north, pipeline: both, nats: {servers: [%q], stream: NORTH}}
    resources: [{resource: configmaps, namespaces: [shop]}]
    into: {namespaces: {shop: copy}}
`, must.Get(c.source.Kubeconfig(dir))(t), filepath.Join(dir, "data"), server, c.nats.URL(), c.nats.URL()), 0o600))
	b := rig.StartBridge(t, server, exec.Command(rig.ProgramForTest(t), "run", "--config", path))
	b.AwaitReady(200, "ok")
	create(t, c.from, "shop", "a=1", "b=1")
	awaitValues(t, c.from, "copy", "a=1 b=1")
	remove(t, c.from, "shop", "a")
	awaitValues(t, c.from, "copy", "b=1")
	code, out := c.command("replicate", "status", "--server", server)
	assert.Equal(t, 0, code, out)
	assert.Contains(t, out, "copy: 1 object", out)
	code, out = c.command("status", "--server", server)
	assert.Equal(t, 0, code, out)
	assert.Contains(t, out, "The stream is live, and the replica runs\n", out)
	assert.Regexp(t, `copy +north/both +north +running +yes`, out)
	for _, path := range []string{"/resync", "/replicas/resume"} {
		assert.Equal(t, 403, c.post(server, path, "cross-site"), path)
		assert.Less(t, c.post(server, path, "same-origin"), 300, path)
	}
	b.Stops()
}
