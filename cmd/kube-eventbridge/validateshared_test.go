// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestCheckShared_refuses_two_names_of_one_resource_with_objects_in_common(t *testing.T) {
	entry := func(name, group, version string, namespaces ...string) resolved {
		return resolved{
			&config.Resource{Resource: config.ResourceName{Plural: name}, Namespaces: namespaces},
			source.Resource{Group: group, Version: version, Resource: "events", Namespaced: true},
		}
	}
	first := entry("events", "", "v1", "a", "b")
	for _, c := range []struct {
		name   string
		second resolved
		want   string
	}{
		{"all namespaces", entry("ev", "", "v1"), "ev"},
		{"one of its namespaces", entry("ev", "", "v2", "c", "b"), "ev"},
		{"other namespaces", entry("ev", "", "v1", "c"), ""},
		{"another group", entry("ev", "events.k8s.io", "v1"), ""},
	} {
		var u checkup
		want := ""
		if c.want != "" {
			want = "pipelines[0].resources[1].resource: " + c.want + " and events before it are one resource, " + c.second.is.String() +
				", with objects in common, and an object belongs to one stream of a pipeline; remove one, or give them different namespaces"
		}
		before := u.checkShared("pipelines[0].resources[1]", u.checkShared("", nil, first), c.second)
		got := u.problems.Error()
		assert.True(t, got == want && len(before) == 2, "%s: got %q\nwant %q", c.name, got, want)
	}
}
