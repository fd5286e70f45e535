// SPDX-License-Identifier: Apache-2.0

package deploy

import (
	"fmt"
	"strings"
	"testing"
)

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
		pipeline("kafka: {brokers: ['k:9092']}", "nats: {}"):                                                                   "config.pipelines[0].checkpoint.nats: names no servers, and the pipeline's sink has none",
		pipeline("nats: ", "kafka: "):                                                                                          "config.pipelines[0].checkpoint.kafka: names no brokers, and the pipeline's sink has none",
		strings.Replace(pipeline("nats: ", "nats: "), "secrets", "pods", 1):                                                    others,
		strings.Replace(pipeline("nats: ", "nats: "), "{resource: secrets}", "{resource: secrets, namespaces: [web]}", 1):      others,
		strings.Replace(pipeline("nats: ", "nats: "), "{resource: secrets}", "{resource: secrets, namespaceSelector: a=b}", 1): others,
		strings.Replace(pipeline("nats: ", "nats: "), ", {resource: secrets}", "", 1):                                          others,
		"config: {server: {listen: 127.0.0.1:8080}}":                                                                           `config.server.listen: probes and Prometheus do not reach 127.0.0.1:8080; write ":8080"`,
		"config: {server: {listen: 127.8.9.1:8080}}":                                                                           "do not reach 127.8.9.1:8080;",
		"config: {server: {listen: Localhost:8080}}":                                                                           "do not reach Localhost:8080;",
		`config: {server: {listen: "[::1]:8080"}}`:                                                                             "do not reach [::1]:8080;",
		"config: {server: null}":                                                                                               "do not reach 127.0.0.1:8080, the default;",
		pipeline("", ""):                                                                                                       "config.pipelines[0].sink.embedded: is kept in /var/lib/kube-eventbridge" + away,
		pipeline("embedded: {storeDir: /s}", "nats: "):                                                                         "config.pipelines[0].sink.embedded: is kept in /s" + away,
		pipeline("nats: ", ""):                                                                                                 "config.pipelines[0].checkpoint.file: is kept in /var/lib/kube-eventbridge" + away,
		pipeline("stdout: {}", "file: {path: a.db}"):                                                                           "config.pipelines[0].checkpoint.file: is kept in a.db" + away,
		pipeline("nats: {}", "") + "  dataDir: ''\n":                                                                           "config.pipelines[0].checkpoint.file: is kept in the home directory, where nothing is mounted",
		pipeline("nats: {}", "") + "  dataDir: null\npersistence: {enabled: true}\n":                                           "config.pipelines[0].checkpoint.file: is kept in the home directory, where nothing is mounted",
		pipeline("nats: {}", "") + "  dataDir: null\n":                                                                         "config.pipelines[0].checkpoint.file: is kept in the home directory, where nothing is mounted",
		pipeline("nats: {}", "") + "  leaderElection: \npersistence: {enabled: true}\n":                                        "config.pipelines[0].checkpoint.file: is kept in a Pod" + alone,
		pipeline("", "") + "  leaderElection: {}\npersistence: {enabled: true}\n":                                              "config.pipelines[0].sink.embedded: is kept in a Pod" + alone,
		pipeline("", "") + "  dataDir: /var/lib/kube\npersistence: {enabled: true}\n":                                          "is kept in /var/lib/kube" + away,
		pipeline("", "") + "  dataDir: /data\nextraVolumeMounts: [{name: a, mountPath: /d}]\n":                                 "is kept in /data" + away,
		pipeline("", "") + "  dataDir: /d\nextraVolumeMounts: [{name: a, mountPath: /d, readOnly: true}]\n":                    "is kept in /d" + away,
		pipeline("", "") + "  dataDir: /d/../e\nextraVolumeMounts: [{name: a, mountPath: /d}]\n":                               "is kept in /d/../e" + away,
	} {
		refused(t, values, want)
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
		strings.Replace(pipeline("nats: ", "nats: "), "secrets", "pods", 1) + "rbac: {create: false}\n":        8080,
		pipeline("nats: ", "nats: ") + "rbac: {namespacedRules: }\n":                                           8080,
		strings.Replace(pipeline("nats: ", "nats: "), "secrets", "pods", 1) + "rbac: {rules: []}\n":            8080,
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
	return fmt.Sprintf("config:\n  pipelines: [{name: a, resources: [{resource: deployments.apps}, {resource: configmaps}, {resource: secrets}], sink: {%s}, checkpoint: {%s}}]\n", sink, checkpoint)
}

func refused(t *testing.T, values, want string) {
	t.Helper()
	if _, err := charted(t, "default", values); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s\ngot %v, want %s", values, err, want)
	}
}
