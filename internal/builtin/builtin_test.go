// SPDX-License-Identifier: Apache-2.0

package builtin

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/kubernetes/scheme"
)

func TestFind_prefers_as_kubectl_does(t *testing.T) {
	for _, c := range []struct {
		plural, group string
		in            bool
		want          string
	}{
		{"pods", "", false, "/ true"},
		{"events", "", false, "/ true"},
		{"events", "events.k8s.io", true, "events.k8s.io/ true"},
		{"nodes", "", true, "/ false"},
		{"deployments", "", false, "apps/ true"},
		{"deployments", "", true, "none"},
		{"deploy", "", false, "none"},
		{"", "", false, "none"},
	} {
		got := "none"
		if k, found := Find(c.plural, c.group, c.in); found {
			got = fmt.Sprintf("%s/ %v", k.Group, k.Namespaced)
		}
		assert.Equal(t, c.want, got, "%+v", c)
	}
}

// topOf adds the names of the members that objects of a type have in JSON.
func topOf(typ reflect.Type, names map[string]bool) {
	for i := range typ.NumField() {
		f := typ.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			topOf(f.Type, names)
		case name != "" && name != "-":
			names[name] = true
		}
	}
}

func TestMember_has_what_the_types_of_Kubernetes_have(t *testing.T) {
	want, resources, status := map[string]bool{}, 0, map[string]bool{}
	for gvk, typ := range scheme.Scheme.AllKnownTypes() {
		plural, _ := meta.UnsafeGuessKindToResource(gvk)
		if _, found := Find(plural.Resource, gvk.Group, true); found {
			topOf(typ, want)
			resources++
			if _, has := typ.FieldByName("Status"); has {
				status[plural.Resource] = true
			}
		}
	}
	require.GreaterOrEqual(t, resources, 50, "types")
	for _, name := range strings.Fields(members) {
		assert.True(t, want[name], "no type has %s", name)
	}
	var missing []string
	for name := range want {
		if !Member(name) {
			missing = append(missing, name)
		}
	}
	if slices.Sort(missing); missing != nil {
		t.Errorf("missing: %s", strings.Join(missing, " "))
	}
	assert.False(t, Member("password"), "password is a member")
	for _, group := range []string{"customresourcedefinitions", "apiservices"} { // of other modules
		status[group] = true
	}
	assert.ElementsMatch(t, slices.Collect(maps.Keys(status)), strings.Fields(withStatus), "with a status")
}

func TestPlural_knows_short_names_and_singulars(t *testing.T) {
	for _, c := range []struct {
		name, group string
		in          bool
		want        string
	}{
		{"po", "", false, "pods"},
		{"pod", "", true, "pods"},
		{"ingress", "networking.k8s.io", true, "ingresses"},
		{"deploy", "apps", true, "deployments"},
		{"deploy", "batch", true, ""},
		{"pods", "", false, ""},
		{"", "", false, ""},
		{"widget", "", false, ""},
	} {
		assert.Equal(t, c.want, Plural(c.name, c.group, c.in), "%s.%s", c.name, c.group)
	}
	words := strings.Fields(shorts)
	for i := 0; i < len(words); i += 2 {
		assert.Equal(t, words[i+1], Plural(words[i], "", false), words[i])
	}
}
