// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"slices"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// servedAs makes what is served of names as "plural.version.group".
func servedAs(name string) *source.Served {
	at, ok := source.ParseName(name)
	if !ok {
		panic("BUG: " + name)
	}
	plural := at.Resource.Resource
	return &source.Served{Group: at.Group, Resource: plural, Versions: []source.Resource{at.Resource}, Names: []string{strings.TrimSuffix(plural, "s"), plural[:2]}}
}

func TestWildcard_leaves_out_what_it_is_told_to(t *testing.T) {
	all := &Wildcard{All: true}
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
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "widgets", AnyGroup: true}}}, "widgets.v1.example.com", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "widget", AnyGroup: true}}}, "widgets.v1.example.com", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "wi", Group: "example.com"}}}, "widgets.v1.example.com", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "widgets", Group: "example.org"}}}, "widgets.v1.example.com", true},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "widgets", Group: "example.com", Version: "v2"}}}, "widgets.v1.example.com", true},
		{&Wildcard{All: true, Exclude: []Exclusion{{Group: "example.com"}}}, "widgets.v1.example.com", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Group: "example.com"}}}, "secrets.v1", true},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "secrets", Version: "v1"}}}, "secrets.v1", false},
		{&Wildcard{All: true, Exclude: []Exclusion{{Name: "secrets", Version: "v1"}}}, "secrets.v1.example.com", true},
	} {
		if got := c.w.matches(servedAs(c.name), &source.Offers{}); got != c.want {
			t.Errorf("%s of %+v: got %v", c.name, c.w, got)
		}
	}
}

func TestFirstOf_is_one_for_resources_with_the_same_objects(t *testing.T) {
	for name, want := range map[string]string{
		"events.v1.events.k8s.io":          "events",
		"events.v1":                        "events",
		"events.v1.example.com":            "events.example.com",
		"ingresses.v1beta1.extensions":     "ingresses.networking.k8s.io",
		"ingresses.v1.networking.k8s.io":   "ingresses.networking.k8s.io",
		"deployments.v1beta1.extensions":   "deployments.apps",
		"podsecurities.v1beta1.extensions": "podsecurities.extensions",
	} {
		s := servedAs(name)
		if got := firstOf(s.Group, s.Resource).String(); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestNames_of_resources_are_taken_for_what_they_may_mean(t *testing.T) {
	s := servedAs("widgets.v1.example.com")
	for _, name := range []string{"widgets", "widget", "wi", "widgets.example.com", "widgets.v1.example.com", "widgets.v2.example.com", "wi.exam"} {
		if !mayMean(name, s) {
			t.Errorf("%s may mean %+v", name, s)
		}
	}
	for _, name := range []string{"gadgets", "widgets.example.org", "gadgets.v1.example.com"} {
		if mayMean(name, s) {
			t.Errorf("%s cannot mean %+v", name, s)
		}
	}
	if in := []bool{
		means("widgets", s.Versions[0]), means("widgets.example.com", s.Versions[0]), means("widgets.v1.example.com", s.Versions[0]),
		!means("widgets.v2.example.com", s.Versions[0]), !means("wi", s.Versions[0]), !means("widgets.exam", s.Versions[0]),
	}; slices.Contains(in, false) {
		t.Errorf("got %v", in)
	}
}
