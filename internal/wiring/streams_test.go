// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestStreams_name_a_resource_so_that_the_API_server_knows_it(t *testing.T) {
	cfg, err := config.FromArgs(config.Args{Resources: []string{
		"pods.v1", "deployments.v1.apps", "widgets.example.com",
		"nodes",
	}})
	require.NoError(t, err)
	specs, _ := must.Get2((&Wiring{}).Streams(&cfg.Pipelines[0], checkpoint.Identity{Cluster: "c"}))(t)
	for i, want := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "pods"},
		{Group: "apps", Version: "v1", Resource: "deployments"},
		{Group: "example.com", Resource: "widgets"},
		{Resource: "nodes"},
	} {
		full, group := schema.ParseResourceArg(specs[i].Resource)
		got := group.WithVersion("")
		if want.Version != "" && full != nil {
			got = *full
		}
		assert.Equal(t, want, got, "%s is read as", specs[i].Resource)
	}
}

func TestStreams_are_one_for_each_namespace(t *testing.T) {
	const file = `{pipelines: [{name: a, resources: [
    {resource: pods, namespaces: [x, y], delivery: latest, snapshot: never, labelSelector: "a=b"}, {resource: nodes}]}]}`
	cfg, _ := must.Get2(config.Parse("f", []byte(file)))(t)
	specs, _ := must.Get2((&Wiring{}).Streams(&cfg.Pipelines[0], checkpoint.Identity{Cluster: "c"}))(t)
	require.Len(t, specs, 3)
	for i, namespace := range []string{"x", "y", ""} {
		if s := specs[i]; s.Namespace != namespace || s.Latest != (i < 2) || s.SkipSnapshot != (i < 2) ||
			(s.LabelSelector == "a=b") != (i < 2) {
			t.Errorf("stream %d is %+v", i, s)
		}
	}
}

// streamsOf returns the streams of the first pipeline of a file.
func streamsOf(t *testing.T, file string) ([]bridge.StreamSpec, error) {
	t.Helper()
	cfg, _ := must.Get2(config.Parse("f", []byte(file)))(t)
	specs, _, err := (&Wiring{}).Streams(&cfg.Pipelines[0], checkpoint.Identity{Cluster: "c"})
	return specs, err
}

func TestStreams_redact_what_the_pipeline_and_the_resource_name(t *testing.T) {
	specs, err := streamsOf(t,
		`{pipelines: [{name: a, encoding: {redact: [spec.a]}, resources: [{resource: pods, redact: [spec.b]}, {resource: nodes}]}]}`)
	require.NoError(t, err)
	for i, want := range []string{"spec.a spec.b", "spec.a"} {
		var got []string
		for _, p := range specs[i].Encoding.Redact {
			got = append(got, p.String())
		}
		assert.Equal(t, want, strings.Join(got, " "), "stream %d redacts %q", i, got)
	}
}

func TestStreams_have_hashes_with_the_key_that_the_configuration_names(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	file := `{pipelines: [{name: a, encoding: {secrets: {hashes: {keyFile: ` + key +
		`}}}, resources: [{resource: secrets}]}]}`
	for text, want := range map[string]string{
		"0123456789abcdef\n": "",
		"0123456789abcde\n": "pipeline a: secrets.hashes: the key has 15 bytes; give it 16 random ones or more, such as " +
			"openssl rand -hex 32 prints",
		"": "pipeline a: secrets.hashes: read keyFile: " + key + " is empty",
	} {
		require.NoError(t, os.WriteFile(key, []byte(text), 0o600))
		specs, err := streamsOf(t, file)
		var wrong *exit.InputError
		switch {
		case want == "" && (err != nil || specs[0].Encoding.SecretHashes == nil):
			t.Errorf("%q: %v", text, err)
		case want != "" && (!errors.As(err, &wrong) || err.Error() != want):
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	t.Setenv("HASH_KEY", "0123456789abcdef")
	specs, err := streamsOf(t,
		`{pipelines: [{name: a, encoding: {secrets: {hashes: {keyEnv: HASH_KEY}}}, resources: [{resource: secrets}]}]}`)
	require.NoError(t, err)
	assert.NotNil(t, specs[0].Encoding.SecretHashes, "of the environment")
	specs, err = streamsOf(t, `{pipelines: [{name: a, resources: [{resource: secrets}]}]}`)
	require.NoError(t, err)
	assert.Nil(t, specs[0].Encoding.SecretHashes, "without a key")
}

func TestStreams_have_a_filter_only_where_something_is_not_published(t *testing.T) {
	specs, err := streamsOf(t,
		`{pipelines: [{name: a, resources: [{resource: pods}, {resource: nodes, operations: [deleted]}, {resource: events, ignoreChanges: [status]},
    {resource: secrets, filter: 'event.name == "x"'}, {resource: jobs, filter: 'object != oldObject'}]}]}`)
	assert.True(t, err == nil && !specs[3].Olds && specs[4].Olds && specs[3].Filter != nil && specs[0].Filter == nil &&
		specs[1].Filter != nil && specs[2].Filter != nil, "got %+v, %v", specs, err)
	reason, _, _ := specs[1].Filter.Filter(&source.Change{Op: source.Added}, [16]byte{}, nil)
	assert.Equal(t, "operation", reason, "an addition is held back because")
	reason, _, _ = specs[1].Filter.Filter(&source.Change{Op: source.Deleted}, [16]byte{}, nil)
	assert.Empty(t, reason, "a deletion is held back because")
}

func TestDigestKey_is_there_for_what_does_not_leave_the_process(t *testing.T) {
	t.Setenv("DIGEST_KEY", "0123456789abcdef")
	hashes := config.Encoding{Secrets: config.Secrets{Hashes: &config.SecretHashes{KeyEnv: "DIGEST_KEY"}}}
	for _, c := range []struct {
		name, resource string
		encoding       config.Encoding
		redact         []string
		keyed, lasting bool
	}{
		{name: "pods", resource: "pods"},
		{name: "secrets", resource: "secrets", keyed: true},
		{name: "a Secret by its kind", resource: "secret", keyed: true},
		{name: "secrets in a version", resource: "secrets.v1", keyed: true},
		{name: "values are published", resource: "secrets", encoding: config.Encoding{Secrets: config.Secrets{Values: true}}},
		{
			name: "redacted in the pipeline", resource: "pods", encoding: config.Encoding{Redact: []string{"spec"}},
			keyed: true,
		},
		{name: "redacted in the resource", resource: "pods", redact: []string{"spec"}, keyed: true},
		{name: "hashes", resource: "secrets", encoding: hashes, keyed: true, lasting: true},
		{name: "hashes, and nothing to hide", resource: "pods", encoding: hashes},
	} {
		var r config.Resource
		require.NoError(t, r.Resource.UnmarshalText([]byte(c.resource)))
		r.Redact = c.redact
		p := &config.Pipeline{Encoding: c.encoding}
		key, err := digestKey(p, &r)
		again, _ := digestKey(p, &r)
		assert.True(t, err == nil && (key != nil) == c.keyed &&
			(!c.keyed || (string(key) == string(again)) == c.lasting), "%s: %q, then %q: %v", c.name, key, again, err)
	}
}

func TestFilterOf_gives_digests_of_Secrets_a_key(t *testing.T) {
	var digests [][16]byte
	for range 2 {
		r := config.Resource{Resource: value.ResourceName{Plural: "secrets"}, IgnoreChanges: []string{"metadata.labels"}}
		f, _ := must.Get2(filterOf(&config.Pipeline{}, &r))(t)
		_, now, err := f.Filter(&source.Change{Op: source.Added, Body: source.NewBody([]byte(`{"data":{"k":"dg=="}}`))},
			[16]byte{}, nil)
		require.NoError(t, err)
		digests = append(digests, now)
	}
	assert.NotEqual(t, digests[1], digests[0], "%x", digests)
	assert.NotEqual(t, [16]byte{}, digests[0], "%x", digests)
}

func TestStreams_know_what_the_file_says_of_Secrets_and_filters(t *testing.T) {
	const file = `{pipelines: [{name: a, resources: [
    {resource: secrets, filter: object.data.a == "1", onFilterError: drop}, {resource: pods, filter: object.data.a == "1"}],
    encoding: {secrets: {annotations: [example.com/team]}}}]}`
	specs := must.Get(streamsOf(t, file))(t)
	assert.Equal(t, []string{"example.com/team"}, specs[0].Encoding.SecretAnnotations)
	for i, want := range []string{"error", ""} {
		c := &source.Change{Op: source.Added, Body: source.NewBody([]byte(`{"metadata":{}}`))}
		reason, _, err := specs[i].Filter.Filter(c, [16]byte{}, nil)
		assert.Error(t, err)
		assert.Equal(t, want, reason)
	}
}

func TestUnfenced_is_a_pipeline_only_if_the_file_says_so(t *testing.T) {
	for sink, want := range map[string]bool{
		"nats: {}": false, "nats: {fence: false}": true, "embedded: {}": false, "embedded: {fence: false}": true,
		"kafka: {brokers: [\"a:9092\"]}": false, "stdout: {}": false,
	} {
		cfg, _ := must.Get2(config.Parse("f",
			[]byte("{pipelines: [{name: a, resources: [{resource: pods}], sink: {"+sink+"}}]}")))(t)
		assert.Equal(t, want, unfenced(&cfg.Pipelines[0].Sink), sink)
	}
}
