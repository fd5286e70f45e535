// SPDX-License-Identifier: Apache-2.0

package fields

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRemove_reads_paths_as_the_API_server_writes_them(t *testing.T) {
	const object = `{"metadata":{"finalizers":["x","y]\""],"labels":{"app":"a","app.kubernetes.io/name":"b"}},` +
		`"spec":{"args":["a","b"],"containers":[{"image":"i","name":"web","ports":[{"containerPort":80,"protocol":"TCP"},` +
		`{"containerPort":80,"name":"u","protocol":"UDP"}]}],"replicas":3}}`
	for path, removed := range map[string]string{
		".spec.replicas":                          `,"replicas":3`,
		".metadata.labels.app":                    `"app":"a",`,
		".metadata.labels.app.kubernetes.io/name": `,"app.kubernetes.io/name":"b"`,
		`.spec.containers[name="web"].image`:      `"image":"i",`,
		`.spec.containers[name="web"].ports[containerPort=80,protocol="UDP"].name`: `"name":"u",`,
		".spec.args[1]":                 `,"b"`,
		`.metadata.finalizers[="y]\""]`: `,"y]\""`,
	} {
		got, err := decode(object)
		require.NoError(t, err)
		assert.True(t, Remove(got, path), path)
		text, err := json.Marshal(got)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(object, removed), path)
		assert.JSONEq(t, strings.Replace(object, removed, "", 1), string(text), path)
	}
	for _, path := range []string{
		"", ".", ".spec.none", ".spec.args[7]", ".spec.args[", `.spec.containers[name="x"].image`, "spec", "[0]",
	} {
		got, err := decode(object)
		require.NoError(t, err)
		assert.False(t, Remove(got, path), path)
	}
}

func decode(text string) (object map[string]any, err error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return object, d.Decode(&object)
}
