// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"testing"
)

// A checkpoint is where the events are, unless it names servers of its own: those are told who we are by what stands beside them alone.
func TestCheckpoint_in_NATS_is_where_the_events_are_unless_it_says_otherwise(t *testing.T) {
	const sink = `sink: {nats: {servers: ["nats://log:4222"], credsFile: /log.creds, tls: {caFile: /ca.crt}}}`
	log := NATSAccess{CredsFile: "/log.creds", TLS: &TLS{CAFile: "/ca.crt"}}
	for _, c := range []struct {
		pipeline string
		servers  []string
		access   NATSAccess
		bucket   string
	}{
		{sink + `, checkpoint: {nats: {}}`, []string{"nats://log:4222"}, log, "kube-eventbridge-checkpoints"},
		{sink + `, checkpoint: {nats: {bucket: b, replicas: 3}}`, []string{"nats://log:4222"}, log, "b"},
		{sink + `, checkpoint: {nats: {bucket: b, servers: [other]}}`, []string{"other"}, NATSAccess{}, "b"},
		{
			`sink: {kafka: {brokers: ["k:9092"]}}, checkpoint: {nats: {servers: ["tls://a", "tls://b"], user: u, passwordEnv: P}}`,
			[]string{"tls://a", "tls://b"},
			NATSAccess{User: "u", PasswordEnv: "P"},
			"kube-eventbridge-checkpoints",
		},
		{`checkpoint: {nats: {servers: ["nats://a:1"]}}`, []string{"nats://a:1"}, NATSAccess{}, "kube-eventbridge-checkpoints"},
	} {
		cfg, _, err := Parse("f", []byte("pipelines:\n- {name: a, resources: [{resource: pods}], "+c.pipeline+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", c.pipeline, err)
			continue
		}
		p := &cfg.Pipelines[0]
		servers, access := p.CheckpointServers()
		if !reflect.DeepEqual(servers, c.servers) || !reflect.DeepEqual(*access, c.access) || p.Checkpoint.NATS.Bucket != c.bucket {
			t.Errorf("%s: it is at %v, as %+v, in bucket %s", c.pipeline, servers, *access, p.Checkpoint.NATS.Bucket)
		}
	}
}
