// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestSecrets_come_from_where_the_file_says(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("s3cret\r\n"), 0o600))
	t.Setenv("BRIDGE_PASSWORD", "hunter2")
	token, password, err := (&NATSAccess{
		TokenFile: file, User: "bridge", PasswordEnv: "BRIDGE_PASSWORD", CredsFile: file,
	}).Secrets()
	require.NoError(t, err)
	assert.Equal(t, []string{"s3cret", "hunter2"}, []string{token, password})
	password, secret, err := (&SASL{PasswordFile: file, ClientSecretEnv: "BRIDGE_PASSWORD"}).Secrets()
	require.NoError(t, err)
	assert.Equal(t, []string{"s3cret", "hunter2"}, []string{password, secret})
	password, secret, err = (&SASL{PasswordEnv: "BRIDGE_PASSWORD", ClientSecretFile: file, TokenFile: file}).Secrets()
	require.NoError(t, err)
	assert.Equal(t, []string{"hunter2", "s3cret"}, []string{password, secret})
}

func TestSecrets_that_cannot_be_read_are_all_named(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	require.NoError(t, os.WriteFile(empty, []byte("\n"), 0o600))
	_, _, err := (&NATSAccess{
		TokenFile: empty, PasswordEnv: "KUBE_EVENTBRIDGE_NOT_SET", NKeyFile: "/none/nkey", CredsFile: "/none/creds",
	}).Secrets()
	assert.EqualError(t, err, "read tokenFile: "+empty+" is empty\n"+
		"read passwordEnv: the environment variable KUBE_EVENTBRIDGE_NOT_SET is not set\n"+
		"read nkeyFile: open /none/nkey: no such file or directory\n"+
		"read credsFile: open /none/creds: no such file or directory")
	_, _, err = (&SASL{PasswordFile: empty, TokenFile: "/none/token", ClientSecretEnv: "KUBE_EVENTBRIDGE_NOT_SET"}).Secrets()
	assert.EqualError(t, err, "read passwordFile: "+empty+" is empty\n"+
		"read tokenFile: open /none/token: no such file or directory\n"+
		"read clientSecretEnv: the environment variable KUBE_EVENTBRIDGE_NOT_SET is not set")
}

func TestSubjects_meet_only_where_a_subject_can_match_both(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"k8s.*.core.pods.*.*", "k8s.*.core.pods.*.*", true},
		{"k8s.*.core.pods.*.*", "k8s.*.core.nodes.*.*", false},
		{"k8s.*.core.pods.*.*", "k8s.*.*.pods.*.*", true},
		{"k8s.*.core.pods.*.*", "k8s.core.pods.*.*", false},
		{"k8s.a.*", "k8s.b.*", false},
	} {
		assert.Equal(t, c.want, mayMeet(c.a, c.b), "%s, %s", c.a, c.b)
	}
}

// A checkpoint is where the events are, unless it names servers of its own: those are told who we are by what stands
// beside them alone.
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
		{
			`checkpoint: {nats: {servers: ["nats://a:1"]}}`,
			[]string{"nats://a:1"},
			NATSAccess{},
			"kube-eventbridge-checkpoints",
		},
	} {
		cfg, _, err := Parse("f", []byte("pipelines:\n- {name: a, resources: [{resource: pods}], "+c.pipeline+"}\n"))
		if err != nil {
			t.Errorf("%s: %v", c.pipeline, err)
			continue
		}
		p := &cfg.Pipelines[0]
		servers, access := p.CheckpointServers()
		if !reflect.DeepEqual(servers, c.servers) || !reflect.DeepEqual(*access, c.access) ||
			p.Checkpoint.NATS.Bucket != c.bucket {
			t.Errorf("%s: it is at %v, as %+v, in bucket %s", c.pipeline, servers, *access, p.Checkpoint.NATS.Bucket)
		}
	}
}

// Every key that names a file or a directory, so that none is forgotten.
const pathsFile = `
kubernetes: {kubeconfig: PREFIX/kubeconfig}
dataDir: PREFIX/dataDir
pipelines:
  - {name: a, resources: [{resource: pods}], checkpoint: {file: {path: PREFIX/path}}, sink: {embedded: {storeDir: PREFIX/storeDir}}}
  - {name: b, resources: [{resource: nodes}], sink: {nats: {tokenFile: PREFIX/tokenFile, tls: {caFile: PREFIX/caFile,
     certFile: PREFIX/certFile, keyFile: PREFIX/keyFile}}}}
  - {name: c, resources: [{resource: secrets}], sink: {nats: {user: u, passwordFile: PREFIX/passwordFile}}}
  - {name: d, resources: [{resource: events}], sink: {nats: {nkeyFile: PREFIX/nkeyFile}}}
  - {name: e, resources: [{resource: services}], sink: {nats: {credsFile: PREFIX/credsFile}}}
  - {name: f, resources: [{resource: leases}], sink: {kafka: {brokers: ["a:9092"], tls: {caFile: PREFIX/caFile,
     certFile: PREFIX/certFile, keyFile: PREFIX/keyFile}, sasl: {mechanism: plain, user: u, passwordFile: PREFIX/passwordFile}}}}
  - {name: g, resources: [{resource: jobs}], sink: {kafka: {brokers: ["a:9092"], tls: {}, sasl: {mechanism: oauthbearer, tokenFile: PREFIX/tokenFile}}}}
  - {name: i, resources: [{resource: endpoints}], encoding: {secrets: {hashes: {keyFile: PREFIX/keyFile}}}, sink: {stdout: {}}}
  - {name: j, resources: [{resource: roles}], checkpoint: {nats: {servers: [nats://a], credsFile: PREFIX/credsFile, tls: {caFile: PREFIX/caFile}}}, sink: {stdout: {}}}
  - {name: h, resources: [{resource: cronjobs}], sink: {kafka: {brokers: ["a:9092"], tls: {}, sasl: {mechanism: oauthbearer,
     tokenURL: "https://login", clientID: c, clientSecretFile: PREFIX/clientSecretFile}}}}
`

func TestLoad_takes_relative_paths_from_the_directory_of_the_file(t *testing.T) {
	base := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(base, "etc"), 0o700))
	t.Chdir(base) // the file is named relative to another directory than its own
	for prefix, want := range map[string]string{".": filepath.Join(base, "etc"), "..": base, "/data": "/data"} {
		text := strings.ReplaceAll(pathsFile, "PREFIX", prefix)
		require.NoError(t, os.WriteFile("etc/bridge.yaml", []byte(text), 0o600))
		c, _ := must.Get2(Load("etc/bridge.yaml"))(t)
		n := 0
		eachPath(c, func(key, path string) {
			if path == "" {
				return
			}
			if n++; path != filepath.Join(want, key) {
				t.Errorf("%s: %s is %s", prefix, key, path)
			}
		})
		assert.Equal(t, 20, n, "%s: %d paths", prefix, n)
	}
}

func TestParse_refuses_a_path_in_a_home_directory_wherever_one_stands(t *testing.T) {
	for _, home := range []string{"~", "~anna"} {
		_, _, err := Parse("f", []byte(strings.ReplaceAll(pathsFile, "PREFIX", home)))
		var problems Problems
		require.True(t, errors.As(err, &problems), "problems")
		require.Len(t, problems, 20, "problems")
		for _, p := range problems {
			key := p.Path[strings.LastIndexByte(p.Path, '.')+1:]
			want := `"` + home + "/" + key +
				`" begins with ~, which is not replaced here; write the whole path, or a relative one`
			assert.Equal(t, want, p.Message, "%s", p)
			assert.NotEqual(t, 0, p.Line, "%s", p)
		}
	}
}

// eachPath calls f for each value of a configuration whose key says that it is a path.
func eachPath(c *Config, f func(key, path string)) {
	rules.Each(c, &whole, func(path string, v reflect.Value, _ *rules.Kind) {
		key := path[strings.LastIndexByte(path, '.')+1:]
		if strings.HasSuffix(key, "File") || strings.HasSuffix(key, "Dir") || key == "path" || key == "kubeconfig" {
			f(key, v.String())
		}
	})
}

func TestFromArgs_puts_servers_and_state_where_it_is_told(t *testing.T) {
	t.Chdir(t.TempDir())
	want := must.Get(filepath.Abs("state"))(t)
	c, err := FromArgs(Args{
		Resources: []string{"pods"}, Listen: ":8081", BrokerListen: "127.0.0.1:4223",
		DataDir: "state",
	})
	require.NoError(t, err)
	if broker := c.Pipelines[0].Sink.Embedded; c.Server.Listen != ":8081" || broker.Listen != "127.0.0.1:4223" ||
		c.DataDir != want {
		t.Errorf("got %s, %s, %s", c.Server.Listen, broker.Listen, c.DataDir)
	}
}
