// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A comment that is an alternative: "# " and a key, with a value or with more below it.
var alternative = regexp.MustCompile(`(?m)^( *)# ([a-zA-Z]+:( \S+| ".*"| \{\})?)$`)

func TestExample_is_valid_as_it_stands(t *testing.T) {
	c, warnings, err := Load(exampleFile)
	require.NoError(t, err)
	require.Nil(t, warnings)
	assert.NotNil(t, c.Pipelines[0].Sink.NATS, "the sink is not nats")
}

// As if nothing were commented out.
func TestExample_shows_every_default(t *testing.T) {
	d, got := decode(exampleFile, alternative.ReplaceAll(read(t, exampleFile), []byte("$1$2")))
	require.Empty(t, d.issues, "with its alternatives: %v", d.problems(d.issues))
	each(reflect.ValueOf(got).Elem(), &whole, "", func(path string, v reflect.Value, k *kind) {
		for _, r := range k.keys {
			at := join(path, r.key)
			assert.Contains(t, d.marks, at, "missing")
			f := fieldOf(v, r.key)
			if below, _ := r.kind.flat(""); below != nil {
				assert.False(t, f.Kind() == reflect.Pointer && f.IsNil(), at)
				continue
			}
			standard := reflect.New(v.Type()).Elem()
			setDefaults(standard, k.keys)
			if shown[index.ReplaceAllString(at, "")] == "" && r.standard != "[]" && r.standard != "{}" {
				assert.Equal(t, fieldOf(standard, r.key).Interface(), f.Interface(), at)
			}
		}
	})
}

var index = regexp.MustCompile(`\[\d+\]`)
