// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"maps"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

func TestPositions_are_those_of_the_streams_that_readers_will_open(t *testing.T) {
	pods := source.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	nodes := source.Resource{Version: "v1", Resource: "nodes", Kind: "Node"}
	specs := []StreamSpec{{Resource: "nodes"}, {Resource: "po", LabelSelector: "app=web"}}
	web := source.Stream{Resource: pods, LabelSelector: "app=web"}
	all := source.Stream{Resource: nodes}
	shop := source.Stream{Resource: pods, Namespace: "shop", LabelSelector: "app=web"}
	former := source.Stream{Resource: source.Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true}, LabelSelector: "gone=true"}
	listing := source.Stream{Resource: source.Resource{Version: "v1", Resource: "secrets", Kind: "Secret", Namespaced: true}}
	saved := map[string]checkpoint.Stream{}
	for s, position := range map[source.Stream]string{web: "10", all: "20", shop: "30", former: "40", listing: ""} {
		saved[s.Name()] = checkpoint.Stream{Position: position, History: 2, Kind: s.Kind, Namespaced: s.Namespaced, Fingerprint: s.Scope()}
	}
	want := map[source.Stream]source.From{web: {Version: "10", History: 2}, all: {Version: "20", History: 2}, shop: {Version: "30", History: 2}}
	if got := positions(specs, saved); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
