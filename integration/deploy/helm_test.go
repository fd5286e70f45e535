// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"maps"
	"path"
	"slices"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	sigyaml "sigs.k8s.io/yaml"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
      resources: [{resource: deployments.apps}, {resource: configmaps}, {resource: secrets, payload: metadata}]
      sink: {embedded: {maxAge: 168h}}
`

const kafka = `
config:
  pipelines:
    - name: audit
      resources: [{resource: deployments.apps}, {resource: configmaps}, {resource: secrets, payload: metadata}]
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
	with, err := util.ToRenderValues(chart, given, common.ReleaseOptions{Name: release, Namespace: namespace, Revision: 1, IsInstall: true}, common.DefaultCapabilities)
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
	m := must.Get(charted(t, namespace, values))(t)
	return m
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
	if x, y := a.pod(t).Annotations["checksum/config"], b.pod(t).Annotations["checksum/config"]; x == y || x == "" {
		t.Errorf("the checksums are %q and %q", x, y)
	}
	c := mustChart(t, "default", "config: {buffer: {maxBytes: 100Mi}}")
	if x, y := a.pod(t).Annotations["checksum/config"], c.pod(t).Annotations["checksum/config"]; x != y {
		t.Errorf("the checksums are %q and %q where the bridge reads what changed by itself", x, y)
	}
}

func TestChart_has_the_alerts_of_kustomize(t *testing.T) {
	t.Parallel()
	text := func(m manifests) string {
		out := must.Get(sigyaml.Marshal(m.only(t, "PrometheusRule").Object["spec"]))(t)
		return string(out)
	}
	if got, want := text(mustChart(t, "default", everything)), text(overlay(t, "nats", "monitoring")); got != want {
		t.Errorf("the chart has\n%s\nkustomize has\n%s", got, want)
	}
}
