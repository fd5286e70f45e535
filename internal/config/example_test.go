// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
)

// A comment that is an alternative: "# " and a key, with a value or with more below it.
var alternative = regexp.MustCompile(`(?m)^( *)# ((?:- )?[a-zA-Z]+:( \S+| ".*"| \{\})?)$`)

func TestExample_is_valid_as_it_stands(t *testing.T) {
	c, warnings, err := Load(exampleFile)
	require.NoError(t, err)
	require.Nil(t, warnings)
	assert.NotNil(t, c.Pipelines[0].Sink.NATS, "the sink is not nats")
}

// As if nothing were commented out.
func TestExample_shows_every_default(t *testing.T) {
	text := alternative.ReplaceAll(read(t, exampleFile), []byte("$1$2"))
	got, found := new(Config), 0
	d := rules.Decode(exampleFile, text, got, &whole)
	require.Empty(t, d.Problems(), "with its alternatives")
	rules.Each(got, &whole, func(path string, v reflect.Value, k *rules.Kind) {
		if k.Form != rules.MappingForm {
			return
		}
		want := reflect.New(v.Type())
		rules.SetDefaults(want.Interface(), k.Keys)
		for _, r := range k.Keys {
			found++
			at := rules.Join(path, r.Key)
			is := func(name string) bool { return strings.EqualFold(name, r.Key) }
			f, standard := v.FieldByNameFunc(is), want.Elem().FieldByNameFunc(is)
			below, _ := flat(&r.Kind, "")
			switch {
			case below != nil:
				assert.False(t, f.IsZero() && r.Standard == optional, "%s is missing", at)
			case shown[index.ReplaceAllString(at, "")] == "" && standard.Kind() != reflect.Slice && standard.Kind() != reflect.Map:
				assert.Equal(t, standard.Interface(), f.Interface(), at)
			}
		}
	})
	assert.Equal(t, count(whole.Keys), found, "keys")
}

// count returns how many keys there are, with those below them.
func count(keys []rules.Rule) (n int) {
	for _, r := range keys {
		n++
		if below, _ := flat(&r.Kind, ""); below != nil {
			n += count(below.Keys)
		}
	}
	return n
}

var index = regexp.MustCompile(`\[\d+\]`)
