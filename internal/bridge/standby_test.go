// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestPositions_are_those_of_the_streams_that_readers_will_open(t *testing.T) {
	pods := source.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	nodes := source.Resource{Version: "v1", Resource: "nodes", Kind: "Node"}
	jobs := source.Resource{Group: "batch", Version: "v1", Resource: "jobs", Kind: "Job", Namespaced: true}
	cronJobs := source.Resource{Group: "batch", Version: "v1", Resource: "cronjobs", Kind: "CronJob", Namespaced: true}
	batch := &Wildcard{Group: "batch", Exclude: []Exclusion{{Name: "cronjob", AnyGroup: true}}}
	web := labels.SelectorFromSet(labels.Set{"team": "web"})
	for name, c := range map[string]struct {
		spec   StreamSpec
		stored source.Stream
		called string
		want   bool
	}{
		"the plural":                       {StreamSpec{Resource: "nodes"}, source.Stream{Resource: nodes}, "", true},
		"the kind":                         {StreamSpec{Resource: "Job.batch"}, source.Stream{Resource: jobs}, "", true},
		"what it was called":               {StreamSpec{Resource: "po"}, source.Stream{Resource: pods}, "po", true},
		"what another was called":          {StreamSpec{Resource: "nodes"}, source.Stream{Resource: pods}, "po", false},
		"another resource":                 {StreamSpec{Resource: "nodes"}, source.Stream{Resource: pods}, "", false},
		"its selector":                     {StreamSpec{Resource: "pods", LabelSelector: "app=web"}, source.Stream{Resource: pods, LabelSelector: "app=web"}, "", true},
		"another selector":                 {StreamSpec{Resource: "pods", LabelSelector: "app=web"}, source.Stream{Resource: pods, LabelSelector: "gone=true"}, "", false},
		"its namespace":                    {StreamSpec{Resource: "pods", Namespace: "shop"}, source.Stream{Resource: pods, Namespace: "shop"}, "", true},
		"another namespace":                {StreamSpec{Resource: "pods", Namespace: "shop"}, source.Stream{Resource: pods, Namespace: "web"}, "", false},
		"one namespace of all":             {StreamSpec{Resource: "pods"}, source.Stream{Resource: pods, Namespace: "shop"}, "", false},
		"a namespace that is selected":     {StreamSpec{Resource: "pods", NamespaceSelector: web}, source.Stream{Resource: pods, Namespace: "shop"}, "", true},
		"all where some are selected":      {StreamSpec{Resource: "pods", NamespaceSelector: web}, source.Stream{Resource: pods}, "", false},
		"of a wildcard's group":            {StreamSpec{Resource: "*.batch", Wildcard: batch}, source.Stream{Resource: jobs}, "", true},
		"what a wildcard leaves out":       {StreamSpec{Resource: "*.batch", Wildcard: batch}, source.Stream{Resource: cronJobs}, "", false},
		"of another group":                 {StreamSpec{Resource: "*.batch", Wildcard: batch}, source.Stream{Resource: pods}, "", false},
		"of any group":                     {StreamSpec{Resource: "*", Wildcard: &Wildcard{All: true}}, source.Stream{Resource: pods}, "", true},
		"what is not known to be complete": {StreamSpec{Resource: "secrets"}, source.Stream{Resource: source.Resource{Version: "v1", Resource: "secrets", Kind: "Secret"}}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			position := "10"
			if c.spec.Resource == "secrets" {
				position = ""
			}
			saved := map[string]checkpoint.Stream{c.stored.Name(): {
				Position: position, History: 2, Kind: c.stored.Kind, Namespaced: c.stored.Namespaced, Fingerprint: c.stored.Scope(), Called: c.called,
			}}
			want := map[source.Stream]source.From{}
			if c.want {
				want[c.stored] = source.From{Version: "10", History: 2}
			}
			assert.Equal(t, want, positions([]StreamSpec{{Resource: "events"}, c.spec}, saved))
		})
	}
}
