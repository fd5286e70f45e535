// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// copies are values for a replica, without pipelines.
const copies = `
config:
  cluster: west
  pipelines: null
  replicas:
    - name: shop
      from: {cluster: east, pipeline: audit, nats: {servers: ["nats://nats.nats.svc:4222"]}}
      resources:
        - {resource: configmaps, namespaces: [shop]}
        - {resource: deployments.apps, namespaces: [web]}
        - {resource: widgets.example.com, namespaces: [web]}
        - {resource: clusterroles.rbac.authorization.k8s.io}
      into: {namespaces: {shop: closed}}
      status: true
`

const (
	published = "pipelines: [{name: own, resources: [{resource: pods}], " +
		`sink: {nats: {servers: ["nats://nats.nats.svc:4222"]}}, checkpoint: {nats: {}}}]`
	elsewhere = `  kubernetes: {kubeconfig: /target/kubeconfig}
extraVolumes: [{name: target, secret: {secretName: target}}]
extraVolumeMounts: [{name: target, mountPath: /target/, readOnly: true}]
rbac: {create: false}
`
)

func ofReplicas(t *testing.T, c *cluster) {
	const namespace, elected = "events", "  leaderElection: {}\nreplicas: 2\n"
	for name, test := range map[string]struct{ values, runs string }{
		"alone":          {withRules(t, copies), "replicate"},
		"two processes":  {withRules(t, copies+elected), "replicate"},
		"with pipelines": {withRules(t, strings.Replace(copies, "pipelines: null", published, 1)+elected), "run"},
		"of all ConfigMaps": {
			withRules(t, strings.NewReplacer("configmaps, namespaces: [shop]", "configmaps", "{namespaces: {shop: closed}}", "{}").
				Replace(copies)+"  leaderElection: {resourceNamespace: web}\n"), "replicate",
		},
	} {
		t.Run(name, func(t *testing.T) {
			lints(t, test.values)
			m := mustChart(t, namespace, test.values)
			c.takes(t, m)
			command(t, "validate", "--config", file(t, m.configuration(t)))
			allowsWhatIsNeeded(t, m)
			assert.Equal(t, test.runs, m.pod(t).Spec.Containers[0].Args[0])
			if name != "with pipelines" {
				c.runs(t, m)
			}
		})
	}
	t.Run("that write to another cluster", func(t *testing.T) {
		m := mustChart(t, namespace, copies+elsewhere)
		c.takes(t, m)
		assert.Empty(t, m.of("ClusterRole"))
	})
}

func TestChart_refuses_replicas_that_cannot_work_in_a_Pod(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		copies: "rbac.rules: are those for the resources of the chart's own values, and config has others",
		strings.Replace(copies, "  pipelines: null\n", "", 1): "config.pipelines: are those of the chart's own values, and " +
			"would be published beside config.replicas",
		strings.Replace(copies, "nats.nats.svc", "localhost", 1): "config.replicas[0].from.nats.servers: " +
			"nats://localhost:4222 is the Pod itself",
		strings.Replace(copies, `servers: ["nats://nats.nats.svc:4222"]`, "", 1): "config.replicas[0].from.nats.servers: " +
			"localhost, the default, is the Pod itself",
		strings.Replace(copies+elsewhere, "/target/,", "/other,", 1): "config.kubernetes.kubeconfig: nothing is mounted at " +
			"/target/kubeconfig",
		copies + "replicas: 2\n": "replicas: more than one needs config.leaderElection",
		strings.Replace(copies, "namespaces: [web]", "namespaces: web", 1): "at '/config/replicas/0/resources/1/namespaces'",
	} {
		refused(t, values, want)
	}
}
