// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		c, _, err := Load("etc/bridge.yaml")
		require.NoError(t, err)
		n := 0
		eachPath(reflect.ValueOf(c), "", func(key, path string) {
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
			want := `"` + home + "/" + key + `" begins with ~, which is not replaced here; write the whole path, or one relative to the directory of this file`
			assert.Equal(t, want, p.Message, "%s", p)
			assert.NotEqual(t, 0, p.Line, "%s", p)
		}
	}
}

// eachPath calls f for each value below v whose key says that it is a path.
func eachPath(v reflect.Value, key string, f func(key, path string)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			eachPath(v.Elem(), key, f)
		}
	case reflect.Slice:
		for i := range v.Len() {
			eachPath(v.Index(i), key, f)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			eachPath(v.Field(i), v.Type().Field(i).Tag.Get("yaml"), f)
		}
	case reflect.String:
		if strings.HasSuffix(key, "File") || strings.HasSuffix(key, "Dir") || key == "path" || key == "kubeconfig" {
			f(key, v.String())
		}
	default:
	}
}

func TestFromArgs_puts_servers_and_state_where_it_is_told(t *testing.T) {
	t.Chdir(t.TempDir())
	want := must.Get(filepath.Abs("state"))(t)
	c, err := FromArgs(Args{Resources: []string{"pods"}, Listen: ":8081", BrokerListen: "127.0.0.1:4223", DataDir: "state"})
	require.NoError(t, err)
	if broker := c.Pipelines[0].Sink.Embedded; c.Server.Listen != ":8081" || broker.Listen != "127.0.0.1:4223" || c.DataDir != want {
		t.Errorf("got %s, %s, %s", c.Server.Listen, broker.Listen, c.DataDir)
	}
}
