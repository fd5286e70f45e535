// SPDX-License-Identifier: Apache-2.0

package membership

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestWildcard_leaves_out_what_is_excluded(t *testing.T) {
	all := &Wildcard{All: true}
	excluding := func(e Exclusion) *Wildcard { return &Wildcard{All: true, Exclude: []Exclusion{e}} }
	for _, c := range []struct {
		w    *Wildcard
		name string
		want bool
	}{
		{all, "secrets.v1", true},
		{all, "widgets.v1.example.com", true},
		{&Wildcard{Group: "example.com"}, "widgets.v1.example.com", true},
		{&Wildcard{Group: "example.com"}, "widgets.v1.sub.example.com", false},
		{&Wildcard{Group: "example.com"}, "secrets.v1", false},
		{excluding(Exclusion{Name: "widgets", AnyGroup: true}), "widgets.v1.example.com", false},
		{excluding(Exclusion{Name: "widget", AnyGroup: true}), "widgets.v1.example.com", false},
		{excluding(Exclusion{Name: "wi", Group: "example.com"}), "widgets.v1.example.com", false},
		{excluding(Exclusion{Name: "widgets", Group: "example.org"}), "widgets.v1.example.com", true},
		{excluding(Exclusion{Name: "widgets", Group: "example.com", Version: "v2"}), "widgets.v1.example.com", true},
		{excluding(Exclusion{Group: "example.com"}), "widgets.v1.example.com", false},
		{excluding(Exclusion{Group: "example.com"}), "secrets.v1", true},
		{excluding(Exclusion{Name: "secrets", Version: "v1"}), "secrets.v1", false},
		{excluding(Exclusion{Name: "secrets", Version: "v1"}), "secrets.v1.example.com", true},
	} {
		assert.Equal(t, c.want, c.w.Names(serves(c.name).Served[0]), "%s of %+v", c.name, c.w)
	}
}

func TestWildcard_tells_what_has_no_effect(t *testing.T) {
	served := serves("events.v1", "pods.v1", "nodes.v1", "deployments.v1.apps", "deployments.v1.extensions").Served
	for _, c := range []struct {
		w       *Wildcard
		nothing string
		idle    []int
	}{
		{&Wildcard{All: true}, "", nil},
		{
			&Wildcard{All: true, Exclude: []Exclusion{{Name: "pods", AnyGroup: true}, {Name: "things", AnyGroup: true}}}, "",
			[]int{1},
		},
		{
			&Wildcard{All: true, Exclude: []Exclusion{
				{Group: "metrics.k8s.io"}, {Name: "pods", Version: "v2"}, {Name: "pods", Version: "v1"},
			}}, "", []int{0, 1},
		},
		{&Wildcard{Group: "extensions", Exclude: []Exclusion{{Name: "deployments", Group: "apps"}}}, "", []int{0}},
		{
			&Wildcard{Group: "apps", Exclude: []Exclusion{{Name: "deployments", AnyGroup: true}}},
			"everything that it names is excluded", nil,
		},
		{
			&Wildcard{Group: "example.org", Exclude: []Exclusion{{Name: "widgets", AnyGroup: true}}},
			"it names nothing that the cluster has",
			[]int{0},
		},
	} {
		nothing, idle := c.w.Nothing(served, false), c.w.Idle(served)
		assert.Equal(t, c.nothing, nothing, "%+v", c.w)
		assert.True(t, slices.Equal(c.idle, idle), "%+v: %v are idle", c.w, idle)
	}
}

func TestWildcard_selects_what_is_served_once(t *testing.T) {
	served := serves("events.v1", "events.v1.events.k8s.io", "nodes.v1", "pods.v1beta1", "pods.v1").Served
	names := func(w Wildcard, namespaced bool) (all []string) {
		for _, r := range w.Select(served, namespaced) {
			all = append(all, r.String())
		}
		return all
	}
	assert.Equal(t, []string{"events.v1", "nodes.v1", "pods.v1beta1"}, names(Wildcard{All: true}, false))
	assert.Equal(t, []string{"events.v1", "pods.v1beta1"}, names(Wildcard{All: true}, true))
	assert.Equal(t, []string{"events.v1.events.k8s.io"}, names(Wildcard{Group: "events.k8s.io"}, true))
}

func TestCanonical_is_one_for_resources_with_the_same_objects(t *testing.T) {
	for name, want := range map[string]string{
		"events.events.k8s.io":        "events",
		"events":                      "events",
		"events.example.com":          "events.example.com",
		"ingresses.extensions":        "ingresses.networking.k8s.io",
		"ingresses.networking.k8s.io": "ingresses.networking.k8s.io",
		"deployments.extensions":      "deployments.apps",
		"podsecurities.extensions":    "podsecurities.extensions",
	} {
		is := canonical(schema.ParseGroupResource(name))
		assert.Equal(t, want, is.String(), name)
	}
}

func TestMayMean_takes_what_kubectl_may_take(t *testing.T) {
	s := serves("widgets.v1.example.com").Served[0]
	for _, name := range []string{
		"widgets", "widget", "wi", "widgets.example.com", "widgets.v1.example.com", "widgets.v2.example.com", "wi.exam",
	} {
		assert.True(t, MayMean(name, s), "%s may mean it", name)
	}
	for _, name := range []string{"gadgets", "widgets.example.org", "gadgets.v1.example.com"} {
		assert.False(t, MayMean(name, s), "%s cannot mean it", name)
	}
}
