// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// streamsOf returns the streams of the first pipeline of a file.
func streamsOf(t *testing.T, file string) ([]bridge.StreamSpec, error) {
	t.Helper()
	cfg, _, err := config.Parse("f", []byte(file))
	require.NoError(t, err)
	specs, _, err := (&process{cfg: cfg}).streams(&cfg.Pipelines[0], checkpoint.Identity{Cluster: "c"})
	return specs, err
}

func TestStreams_redact_what_the_pipeline_and_the_resource_name(t *testing.T) {
	specs, err := streamsOf(t, `{pipelines: [{name: a, encoding: {redact: [spec.a]}, resources: [{resource: pods, redact: [spec.b]}, {resource: nodes}]}]}`)
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
	file := `{pipelines: [{name: a, encoding: {secrets: {hashes: {keyFile: ` + key + `}}}, resources: [{resource: secrets}]}]}`
	for text, want := range map[string]string{
		"0123456789abcdef\n": "",
		"0123456789abcde\n":  "pipeline a: secrets.hashes: the key has 15 bytes; give it 16 random ones or more, such as openssl rand -hex 32 prints",
		"":                   "pipeline a: secrets.hashes: read keyFile: " + key + " is empty",
	} {
		require.NoError(t, os.WriteFile(key, []byte(text), 0o600))
		specs, err := streamsOf(t, file)
		var wrong *inputError
		switch {
		case want == "" && (err != nil || specs[0].Encoding.SecretHashes == nil):
			t.Errorf("%q: %v", text, err)
		case want != "" && (!errors.As(err, &wrong) || err.Error() != want):
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
	t.Setenv("HASH_KEY", "0123456789abcdef")
	specs, err := streamsOf(t, `{pipelines: [{name: a, encoding: {secrets: {hashes: {keyEnv: HASH_KEY}}}, resources: [{resource: secrets}]}]}`)
	require.NoError(t, err)
	assert.NotNil(t, specs[0].Encoding.SecretHashes, "of the environment")
	specs, err = streamsOf(t, `{pipelines: [{name: a, resources: [{resource: secrets}]}]}`)
	require.NoError(t, err)
	assert.Nil(t, specs[0].Encoding.SecretHashes, "without a key")
}

func TestStreams_have_a_filter_only_where_something_is_not_published(t *testing.T) {
	specs, err := streamsOf(t, `{pipelines: [{name: a, resources: [{resource: pods}, {resource: nodes, operations: [deleted]}, {resource: events, ignoreChanges: [status]},
    {resource: secrets, filter: 'event.name == "x"'}, {resource: jobs, filter: 'object != oldObject'}]}]}`)
	if err != nil || specs[3].Olds || !specs[4].Olds || specs[3].Filter == nil || specs[0].Filter != nil || specs[1].Filter == nil || specs[2].Filter == nil {
		t.Errorf("got %+v, %v", specs, err)
	}
	if reason, _, _ := specs[1].Filter.Filter(&source.Change{Op: source.Added}, [16]byte{}, nil); reason != "operation" {
		t.Errorf("an addition is held back because of %q", reason)
	}
	if reason, _, _ := specs[1].Filter.Filter(&source.Change{Op: source.Deleted}, [16]byte{}, nil); reason != "" {
		t.Errorf("a deletion is held back because of %q", reason)
	}
}
