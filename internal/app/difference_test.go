// SPDX-License-Identifier: Apache-2.0

package app

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const compared = `
cluster: c
dataDir: /data
log: {level: info}
pipelines:
  - name: a
    resources: [{resource: pods}, {resource: secrets}]
    sink: {nats: {stream: A, subject: "a.{resource}.{namespace}.{name}"}}
  - name: b
    resources: [{resource: configmaps}]
    sink: {nats: {stream: B, subject: "b.{resource}.{namespace}.{name}"}}
`

func configOf(t *testing.T, text string) *config.Config {
	t.Helper()
	c, _ := must.Get2(config.Parse("bridge.yaml", []byte(text)))(t)
	return c
}

func TestCompare_says_what_has_to_be_done(t *testing.T) {
	const c = "\n  - name: c\n    resources: [{resource: nodes}]\n    sink: {nats: {stream: C, subject: " +
		"\"c.{resource}.{namespace}.{name}\"}}\n"
	for _, one := range []struct {
		name, from, to string
		want           difference
	}{
		{"nothing", "cluster: c\n", "cluster: c # as before\n", difference{}},
		{"a pipeline more", "\n  - name: b", c + "  - name: b", difference{Added: []string{"c"}}},
		{"another name", "name: a", "name: d", difference{Added: []string{"d"}, Removed: []string{"a"}}},
		{"a resource more", "{resource: pods}", "{resource: pods}, {resource: nodes}", difference{Resources: []string{"a"}}},
		{
			"a resource in another way", "{resource: pods}", "{resource: pods, payload: metadata}",
			difference{Resources: []string{"a"}},
		},
		{"another sink", "stream: A", "stream: D", difference{Changed: []string{"a"}}},
		{"another encoding", "name: b", "name: b\n    encoding: {mode: structured}", difference{Changed: []string{"b"}}},
		{
			"another encoding and other resources", "[{resource: configmaps}]",
			"[{resource: nodes}]\n    encoding: {mode: structured}",
			difference{Changed: []string{"b"}},
		},
		{
			"another checkpoint", "name: b", "name: b\n    checkpoint: {file: {path: /data/other.db}}",
			difference{Changed: []string{"b"}},
		},
		{"more room", "name: b", "name: b\n    buffer: {maxBytes: 2Mi}", difference{Others: []string{"pipelines[1].buffer"}}},
		{"more room for all", "cluster: c", "cluster: c\nbuffer: {maxBytes: 512Mi}", difference{Others: []string{"buffer"}}},
		{"another level", "level: info", "level: debug", difference{Others: []string{"log.level"}}},
	} {
		next := configOf(t, strings.Replace(compared, one.from, one.to, 1))
		got := compare(configOf(t, compared), next)
		require.Equal(t, one.want, got, one.name)
		assert.Equal(t, reflect.DeepEqual(one.want, difference{}), got.none(), one.name)
	}
}

func TestCompare_names_what_takes_another_process(t *testing.T) {
	embedded := strings.Replace(compared, "nats: {stream: A,", "embedded: {stream: A,", 1)
	for _, one := range []struct{ base, from, to, want string }{
		{compared, "cluster: c", "cluster: d", "cluster: cannot change while the process runs"},
		{compared, "cluster: c\n", "", "cluster: cannot change"},
		{compared, "dataDir: /data", "dataDir: /other", "dataDir: cannot change"},
		{compared, "dataDir", "kubernetes: {context: x}\ndataDir", "kubernetes.context: cannot change"},
		{compared, "dataDir", "server: {listen: \":9090\"}\ndataDir", "server.listen: cannot change"},
		{compared, "level: info", "level: info, format: json", "log.format: cannot change"},
		{
			compared, "name: b\n", "name: b\n    checkpoint: {file: {path: /data/a.db}}\n",
			`pipelines[1].checkpoint.file.path: is the checkpoint of pipeline "a"`,
		},
		{embedded, "embedded: {", `embedded: {listen: "127.0.0.1:4333", `, "pipelines[0].sink.embedded: has another listen"},
	} {
		d := compare(configOf(t, one.base), configOf(t, strings.Replace(one.base, one.from, one.to, 1)))
		if text := d.Fixed.Error(); len(d.Fixed) != 1 || !strings.HasPrefix(text, one.want) ||
			!strings.HasSuffix(text, "; restart the process to change it") {
			t.Errorf("%s: %q, want %q", one.to, text, one.want)
		}
	}
}

// A key that is added to the configuration and missing here takes a restart.
func TestCompare_takes_what_it_does_not_know_for_fixed(t *testing.T) {
	for f := range reflect.TypeFor[config.Config]().Fields() {
		now, next := config.Default(), config.Default()
		at := reflect.ValueOf(next).Elem().FieldByIndex(f.Index)
		switch f.Name {
		case "Pipelines", "Buffer", "Log":
			continue
		}
		switch at.Kind() {
		case reflect.Pointer:
			at.Set(reflect.New(at.Type().Elem()))
		case reflect.Struct:
			at.Field(0).SetString("x")
		case reflect.Slice:
			at.Set(reflect.MakeSlice(at.Type(), 1, 1))
		default:
			at.SetString("x")
		}
		assert.NotEmpty(t, compare(now, next).Fixed, "%s can change", f.Name)
	}
}
