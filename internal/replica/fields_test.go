// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRemoveField_reads_paths_as_the_API_server_writes_them(t *testing.T) {
	const object = `{"metadata":{"labels":{"app":"a","app.kubernetes.io/name":"b"},"finalizers":["x","y]\""]},
		"spec":{"replicas":3,"containers":[{"name":"web","image":"i","ports":[{"containerPort":80,"protocol":"TCP"},
		{"containerPort":80,"protocol":"UDP","name":"u"}]}],"args":["a","b"]}}`
	for path, want := range map[string]string{
		".spec.replicas":                          `"replicas":3,`,
		".metadata.labels.app":                    `"app":"a",`,
		".metadata.labels.app.kubernetes.io/name": `,"app.kubernetes.io/name":"b"`,
		`.spec.containers[name="web"].image`:      `"image":"i",`,
		`.spec.containers[name="web"].ports[containerPort=80,protocol="UDP"].name`: `"name":"u",`,
		".spec.args[1]":                 `,"b"`,
		`.metadata.finalizers[="y]\""]`: `,"y]\""`,
	} {
		got, err := decode([]byte(object))
		require.NoError(t, err)
		assert.True(t, removeField(got, path), path)
		var all any
		require.NoError(t, json.Unmarshal([]byte(object), &all))
		before, err := json.Marshal(all)
		require.NoError(t, err)
		after, err := json.Marshal(got)
		require.NoError(t, err)
		assert.Contains(t, string(before), want, path)
		assert.Less(t, len(after), len(before), path)
		assert.NotContains(t, string(after), want, path)
	}
	for _, path := range []string{"", ".", ".spec.none", ".spec.args[7]", ".spec.args[", `.spec.containers[name="x"].image`, "spec", "[0]"} {
		got, err := decode([]byte(object))
		require.NoError(t, err)
		assert.False(t, removeField(got, path), path)
	}
}
