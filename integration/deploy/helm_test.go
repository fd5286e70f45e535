// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const release = "kube-eventbridge"

// everything turns all options of the chart on.
const everything = `
networkPolicy: {enabled: true}
serviceMonitor: {enabled: true, labels: {release: prometheus}}
prometheusRule: {enabled: true, labels: {release: prometheus}}
dashboard: {enabled: true}
env: [{name: NATS_PASSWORD, valueFrom: {secretKeyRef: {name: nats, key: password}}}]
extraVolumes: [{name: tls, secret: {secretName: tls}}]
extraVolumeMounts: [{name: tls, mountPath: /tls, readOnly: true}]
podAnnotations: {example.com/a: b}
imagePullSecrets: [{name: registry}]
nodeSelector: {kubernetes.io/os: linux}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
`

const embedded = `
persistence: {enabled: true, storageClassName: fast}
config:
  pipelines:
    - name: audit
      resources: [{resource: deployments.apps}, {resource: configmaps}]
      sink: {embedded: {maxAge: 168h}}
`

const kafka = `
config:
  pipelines:
    - name: audit
      resources: [{resource: deployments.apps}, {resource: configmaps}]
      sink: {kafka: {brokers: ["kafka.kafka.svc:9092"], create: {partitions: 12}}}
      checkpoint: {kafka: {}}
`

// charted renders the chart as helm template does, with values over its own.
func charted(t *testing.T, namespace, values string) (manifests, error) {
	t.Helper()
	return chartedAs(t, release, namespace, values)
}

// chartedAs is charted for a release of another name.
func chartedAs(t *testing.T, release, namespace, values string) (manifests, error) {
	t.Helper()
	chart := must.Get(loader.LoadDir(directory(t, "chart", "kube-eventbridge")))(t)
	given := map[string]any{}
	require.NoError(t, sigyaml.Unmarshal([]byte(values), &given))
	with, err := util.ToRenderValues(chart, given, common.ReleaseOptions{
		Name: release, Namespace: namespace, Revision: 1,
		IsInstall: true,
	}, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, with)
	if err != nil {
		return nil, err
	}
	var all manifests
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) == ".yaml" {
			all = append(all, decode(t, []byte(files[name]))...)
		}
	}
	return all, nil
}

func mustChart(t *testing.T, namespace, values string) manifests {
	t.Helper()
	return must.Get(charted(t, namespace, values))(t)
}

func ofTheChart(t *testing.T, c *cluster) {
	const namespace = "events"
	for name, values := range map[string]string{
		"by default": "", "with everything": everything, "with the embedded server": embedded, "with Kafka": kafka,
		"with two replicas": "{replicas: 2, config: {leaderElection: {}}}",
	} {
		t.Run(name, func(t *testing.T) {
			lints(t, values)
			m := mustChart(t, namespace, values)
			c.takes(t, m)
			command(t, "validate", "--config", file(t, m.configuration(t)))
			allowsWhatIsNeeded(t, m)
		})
	}
	isMounted(t, mustChart(t, namespace, embedded).pod(t), "/var/lib/kube-eventbridge")
}

// lints fails the test for what helm lint warns of, too.
func lints(t *testing.T, values string) {
	t.Helper()
	given := map[string]any{}
	require.NoError(t, sigyaml.Unmarshal([]byte(values), &given))
	for _, m := range lint.RunAll(directory(t, "chart", "kube-eventbridge"), given, "default").Messages {
		assert.LessOrEqual(t, m.Severity, support.InfoSev, "helm lint: %v", m)
	}
}

func TestChart_changes_the_Pod_when_the_configuration_changes_in_what_takes_a_restart(t *testing.T) {
	t.Parallel()
	a, b := mustChart(t, "default", ""), mustChart(t, "default", "config: {cluster: another}")
	x, y := a.pod(t).Annotations["checksum/config"], b.pod(t).Annotations["checksum/config"]
	assert.True(t, x != y && x != "", "the checksums are %q and %q", x, y)
	c := mustChart(t, "default", "config: {buffer: {maxBytes: 100Mi}}")
	x, y = a.pod(t).Annotations["checksum/config"], c.pod(t).Annotations["checksum/config"]
	assert.Equal(t, y, x, "the checksums are %q and %q where the bridge reads what changed by itself", x, y)
}

func TestChart_has_the_alerts_of_kustomize(t *testing.T) {
	t.Parallel()
	text := func(m manifests) string {
		out := must.Get(sigyaml.Marshal(m.only(t, "PrometheusRule").Object["spec"]))(t)
		return string(out)
	}
	got, want := text(mustChart(t, "default", everything)), text(overlay(t, "nats", "monitoring"))
	assert.Equal(t, want, got, "the chart has\n%s\nkustomize", got)
}

func TestChart_refuses_values_that_are_none(t *testing.T) {
	t.Parallel()
	for values, want := range map[string]string{
		"replicaCount: 2":                     "replicaCount",
		"image: {tag: 1}":                     "tag",
		"resources: {limits: {memory: null}}": "memory",
		"networkPolicy: {to: [nats]}":         "networkPolicy",
		"rbac: {namespacedRules: {Web: [{apiGroups: [a], resources: [b], verbs: [get]}]}}": "Web",
		"rbac: {namespacedRules: {web: []}}":                                               "web",
		"rbac: {namespacedRules: {web: [{apiGroups: [a], resource: b, verbs: [get]}]}}":    "resource",
		"rbac: {rules: [{apiGroups: [a], resource: b, verbs: [get]}]}":                     "resource",
		"config: {sever: {}}":     "at '/config': additional properties 'sever' not allowed",
		"config: {pipelines: []}": "at '/config/pipelines'",
		"config: {pipelines: [{name: a, resources: [{resource: Pods}]}]}":       "at '/config/pipelines/0/resources/0/resource'",
		"config: {pipelines: [{name: a, resources: [{resource: p}], sink: 1}]}": "at '/config/pipelines/0/sink'",
		"config: {buffer: {maxBytes: 64MB}}":                                    "at '/config/buffer/maxBytes'",
		"config: {leaderElection: {leaseDuration: 15}}":                         "at '/config/leaderElection/leaseDuration'",
	} {
		refused(t, values, want)
	}
}

func TestChart_refuses_what_cannot_work_in_a_Pod(t *testing.T) {
	t.Parallel()
	const away = ", where nothing is mounted that can be written; persistence.enabled=true"
	const others = "rbac.rules: are those for the resources of the chart's own values, and config has others"
	const alone = ", and config.leaderElection needs brokers and a checkpoint that all replicas reach"
	for values, want := range map[string]string{
		"replicas: 2": "replicas: more than one needs config.leaderElection",
		pipeline("kafka: {brokers: ['k:9092']}",
			"nats: {}"): "config.pipelines[0].checkpoint.nats: names no servers, and the pipeline's sink has none",
		pipeline("nats: ",
			"kafka: "): "config.pipelines[0].checkpoint.kafka: names no brokers, and the pipeline's sink has none",
		"config: {server: {listen: 127.0.0.1:8080}}": `config.server.listen: probes and Prometheus do not reach ` +
			`127.0.0.1:8080; write ":8080"`,
		pipeline("nats: {servers: ['nats://localhost:4222']}",
			"nats: "): "config.pipelines[0].sink.nats.servers: nats://localhost:4222 is the Pod itself",
		pipeline("kafka: {brokers: ['k:9092', '127.0.0.1:9092']}",
			"kafka: "): "config.pipelines[0].sink.kafka.brokers: 127.0.0.1:9092 is the Pod itself",
		pipeline("nats: {servers: ['n']}",
			"nats: {servers: ['tls://[::1]:4222']}"): "config.pipelines[0].checkpoint.nats.servers: tls://[::1]:4222 is the " +
			"Pod itself",
		"config: {server: {listen: 127.8.9.1:8080}}": "do not reach 127.8.9.1:8080;",
		"config: {server: {listen: Localhost:8080}}": "do not reach Localhost:8080;",
		`config: {server: {listen: "[::1]:8080"}}`:   "do not reach [::1]:8080;",
		"config: {server: null}":                     "do not reach 127.0.0.1:8080, the default;",
		pipeline("",
			""): "config.pipelines[0].sink.embedded: is kept in /var/lib/kube-eventbridge" + away,
		pipeline("embedded: {storeDir: /s}",
			"nats: "): "config.pipelines[0].sink.embedded: is kept in /s" + away,
		pipeline("nats: ",
			""): "config.pipelines[0].checkpoint.file: is kept in /var/lib/kube-eventbridge" + away,
		pipeline("stdout: {}",
			"file: {path: a.db}"): "config.pipelines[0].checkpoint.file: is kept in a.db" + away,
		pipeline("nats: {}", "") +
			"  dataDir: ''\n": "config.pipelines[0].checkpoint.file: is kept in the home directory, where nothing is mounted",
		pipeline("nats: {}", "") +
			"  dataDir: null\npersistence: {enabled: true}\n": "config.pipelines[0].checkpoint.file: is kept in the home " +
			"directory, where nothing is mounted",
		pipeline("nats: {}", "") +
			"  dataDir: null\n": "config.pipelines[0].checkpoint.file: is kept in the home directory, where nothing is mounted",
		pipeline("nats: {}", "") +
			"  leaderElection: \npersistence: {enabled: true}\n": "config.pipelines[0].checkpoint.file: is kept in a Pod" +
			alone,
		pipeline("", "") +
			"  leaderElection: {}\npersistence: {enabled: true}\n": "config.pipelines[0].sink.embedded: is kept in a Pod" +
			alone,
		pipeline("", "") +
			"  dataDir: /var/lib/kube\npersistence: {enabled: true}\n": "is kept in /var/lib/kube" + away,
		pipeline("", "") +
			"  dataDir: /data\nextraVolumeMounts: [{name: a, mountPath: /d}]\n": "is kept in /data" + away,
		pipeline("", "") + "  dataDir: /d\nextraVolumeMounts: [{name: a, mountPath: /d, readOnly: true}]\n": "is kept in /d" +
			away,
		pipeline("", "") +
			"  dataDir: /d/../e\nextraVolumeMounts: [{name: a, mountPath: /d}]\n": "is kept in /d/../e" + away,
	} {
		refused(t, values, want)
	}
	for _, resources := range []string{
		"", ", {resource: pods}", ", {resource: configmaps, namespaces: [web]}",
		", {resource: configmaps, namespaceSelector: a=b}",
	} {
		refused(t, strings.Replace(pipeline("nats: ", "nats: "), ", {resource: configmaps}", resources, 1), others)
	}
}

func TestChart_takes_what_is_written_to_volumes_and_any_port(t *testing.T) {
	t.Parallel()
	const volume = "extraVolumes: [{name: a, emptyDir: {}}]\nextraVolumeMounts: [{name: a, mountPath: /d/}]\n"
	for values, port := range map[string]int32{
		pipeline("", "") + "persistence: {enabled: true}\n":                                                    8080,
		pipeline("", "") + "  dataDir: /var/lib/kube-eventbridge/below\npersistence: {enabled: true}\n":        8080,
		pipeline("nats: ", "file: {path: /d/a.db}") + "  dataDir: ''\n" + volume:                               8080,
		pipeline("embedded: {storeDir: /d/s}", "") + "  dataDir: /d\n" + volume:                                8080,
		pipeline("stdout: ", "nats: {servers: ['nats://n:4222']}") + "  dataDir: ''\n":                         8080,
		pipeline("nats: ", "nats: ") + "  server: {listen: '0.0.0.0:9090'}\n  leaderElection: \nreplicas: 2\n": 9090,
		pipeline("kafka: {brokers: ['k:9092']}", "nats: {servers: ['nats://n:4222']}"):                         8080,
		strings.Replace(pipeline("nats: ", "nats: "), "configmaps", "pods", 1) + "rbac: {create: false}\n":     8080,
		pipeline("nats: ", "nats: ") + "rbac: {namespacedRules: }\n":                                           8080,
		strings.Replace(pipeline("nats: ", "nats: "), "configmaps", "pods", 1) + "rbac: {rules: []}\n":         8080,
		pipeline("kafka: {brokers: ['k:9092']}", "kafka: ") + "  server: {listen: '[::]:9090'}\n":              9090,
	} {
		m, err := charted(t, "default", values)
		if err != nil {
			t.Errorf("%s\n%v", values, err)
		} else if got := m.pod(t).Spec.Containers[0].Ports[0].ContainerPort; got != port {
			t.Errorf("%s\nthe container has port %d, want %d", values, got, port)
		}
	}
}

// pipeline is a configuration of one, to which more keys can be added.
func pipeline(sink, checkpoint string) string {
	return fmt.Sprintf("config:\n  pipelines: [{name: a, resources: [{resource: deployments.apps}, {resource: "+
		"configmaps}], sink: {%s}, checkpoint: {%s}}]\n", sink, checkpoint)
}

func refused(t *testing.T, values, want string) {
	t.Helper()
	_, err := charted(t, "default", values)
	assert.True(t, err != nil && strings.Contains(err.Error(), want), "%s\ngot %v, want %s", values, err, want)
}
