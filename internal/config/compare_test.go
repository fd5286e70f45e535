// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"reflect"
	"strings"
	"testing"
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

func parsed(t *testing.T, text string) *Config {
	t.Helper()
	c, _, err := Parse("bridge.yaml", []byte(text))
	require.NoError(t, err)
	return c
}

func TestCompare_says_what_has_to_be_done(t *testing.T) {
	const c = "\n  - name: c\n    resources: [{resource: nodes}]\n    sink: {nats: {stream: C, subject: \"c.{resource}.{namespace}.{name}\"}}\n"
	for _, one := range []struct {
		name, from, to string
		want           Difference
	}{
		{"nothing", "cluster: c\n", "cluster: c # as before\n", Difference{}},
		{"a pipeline more", "\n  - name: b", c + "  - name: b", Difference{Added: []string{"c"}}},
		{"another name", "name: a", "name: d", Difference{Added: []string{"d"}, Removed: []string{"a"}}},
		{"a resource more", "{resource: pods}", "{resource: pods}, {resource: nodes}", Difference{Resources: []string{"a"}}},
		{"a resource in another way", "{resource: pods}", "{resource: pods, payload: metadata}", Difference{Resources: []string{"a"}}},
		{"another sink", "stream: A", "stream: D", Difference{Changed: []string{"a"}}},
		{"another encoding", "name: b", "name: b\n    encoding: {mode: structured}", Difference{Changed: []string{"b"}}},
		{"another encoding and other resources", "[{resource: configmaps}]", "[{resource: nodes}]\n    encoding: {mode: structured}", Difference{Changed: []string{"b"}}},
		{"another checkpoint", "name: b", "name: b\n    checkpoint: {file: {path: /data/other.db}}", Difference{Changed: []string{"b"}}},
		{"more room", "name: b", "name: b\n    buffer: {maxBytes: 2Mi}", Difference{Others: []string{"pipelines[1].buffer"}}},
		{"more room for all", "cluster: c", "cluster: c\nbuffer: {maxBytes: 512Mi}", Difference{Others: []string{"buffer"}}},
		{"another level", "level: info", "level: debug", Difference{Others: []string{"log.level"}}},
	} {
		next := parsed(t, strings.Replace(compared, one.from, one.to, 1))
		got := parsed(t, compared).Compare(next)
		require.Equal(t, one.want, got, one.name)
		assert.Equal(t, reflect.DeepEqual(one.want, Difference{}), got.None(), one.name)
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
		{compared, "name: b\n", "name: b\n    checkpoint: {file: {path: /data/a.db}}\n", `pipelines[1].checkpoint.file.path: is the checkpoint of pipeline "a"`},
		{embedded, "embedded: {", `embedded: {listen: "127.0.0.1:4333", `, "pipelines[0].sink.embedded: has another listen"},
	} {
		d := parsed(t, one.base).Compare(parsed(t, strings.Replace(one.base, one.from, one.to, 1)))
		if text := d.Fixed.Error(); len(d.Fixed) != 1 || !strings.HasPrefix(text, one.want) || !strings.HasSuffix(text, "; restart the process to change it") {
			t.Errorf("%s: %q, want %q", one.to, text, one.want)
		}
	}
}

// A key that is added to the configuration, and of which nobody thinks here, takes a restart.
func TestCompare_takes_what_it_does_not_know_for_fixed(t *testing.T) {
	for f := range reflect.TypeFor[Config]().Fields() {
		now, next := Default(), Default()
		at := reflect.ValueOf(next).Elem().FieldByIndex(f.Index)
		switch f.Name {
		case "Pipelines", "Buffer", "Log":
			continue
		}
		if at.Kind() == reflect.Pointer {
			at.Set(reflect.New(at.Type().Elem()))
		} else if at.Kind() == reflect.Struct {
			at.Field(0).SetString("x")
		} else {
			at.SetString("x")
		}
		assert.NotEmpty(t, now.Compare(next).Fixed, "%s can change", f.Name)
	}
}

func TestPlaceRead_is_about_what_was_read(t *testing.T) {
	found := PlaceRead("gone.yaml", []byte(compared), Problems{{Path: "dataDir", Message: "x"}})
	if got, want := fmt.Sprint(found), "gone.yaml:3:10: dataDir: x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
