// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		{name: "redacted in the pipeline", resource: "pods", encoding: config.Encoding{Redact: []string{"spec"}}, keyed: true},
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
		if err != nil || (key != nil) != c.keyed || c.keyed && (string(key) == string(again)) != c.lasting {
			t.Errorf("%s: %q, then %q: %v", c.name, key, again, err)
		}
	}
}

func TestFilterOf_gives_digests_of_Secrets_a_key(t *testing.T) {
	var digests [][16]byte
	for range 2 {
		r := config.Resource{Resource: config.ResourceName{Plural: "secrets"}, IgnoreChanges: []string{"metadata.labels"}}
		f, _, err := filterOf(&config.Pipeline{}, &r)
		require.NoError(t, err)
		_, now, err := f.Filter(&source.Change{Op: source.Added, Body: source.NewBody([]byte(`{"data":{"k":"dg=="}}`))}, [16]byte{}, nil)
		require.NoError(t, err)
		digests = append(digests, now)
	}
	assert.NotEqual(t, digests[1], digests[0], "%x", digests)
	assert.NotEqual(t, [16]byte{}, digests[0], "%x", digests)
}
