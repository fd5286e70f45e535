// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/stretchr/testify/assert"
)

// While an API server that starts does not serve a resource, a wildcard has what is stored of it, unless a name has.
func TestWildcard_leads_what_is_stored_and_not_served_unless_a_name_does(t *testing.T) {
	offers, at := offersOf(t)
	discovery := must.Get(source.NewDiscovery(at))(t)
	for _, c := range []struct {
		stored, called string
		other          StreamSpec
		want           bool
	}{
		{"configmaps.v1", "cm", StreamSpec{Resource: "cm"}, false},
		{"configmaps.v1", "cm", StreamSpec{Resource: "configmap"}, false},
		{"configmaps.v1", "cm", StreamSpec{Resource: "co"}, true},
		{"configmaps.v1", "cm", StreamSpec{Resource: "cm", Namespace: "a"}, false},
		{"configmaps.v1", "", StreamSpec{Resource: "cm"}, true},
		{"pods.v1.old.example.com", "", StreamSpec{Resource: "pods"}, true}, // which means those of the core group now
		{"pods.v1.old.example.com", "", StreamSpec{Resource: "pods.old.example.com"}, false},
	} {
		p := &session{cfg: &Config{Discovery: discovery, Streams: []StreamSpec{c.other, {Wildcard: &Wildcard{All: true}}}}, state: &checkpoint.State{
			Streams: map[string]checkpoint.Stream{c.stored: {Kind: "ConfigMap", Namespaced: true, Position: "5", Called: c.called}},
		}}
		got := false
		for _, r := range p.wanted(&p.cfg.Streams[1], offers) {
			got = got || r.String() == c.stored
		}
		assert.Equal(t, c.want, got, "%s, called %q, beside %s: the wildcard", c.stored, c.called, c.other.Resource)
	}
}

// A wildcard has taken a stream that the store has of it, before it was known that a name means that. The name goes on where the wildcard was.
func TestWildcard_yields_what_it_has_opened_to_a_name(t *testing.T) {
	api, log := newAPIServer(t, 10), newFakeLog()
	api.add(3)
	served := api.later()
	catalog := catalogOf(t, api)
	store := &memoryStore{state: checkpoint.State{
		Identity: checkpoint.Identity{Cluster: "test", Pipeline: "test"},
		Streams:  map[string]checkpoint.Stream{"configmaps.v1": {Position: "4", Kind: "ConfigMap", Namespaced: true, Fingerprint: source.Stream{Resource: configMaps}.Scope()}},
		Rows:     map[string]map[string]checkpoint.Row{},
	}}
	b := runBridge(t, api, log, store, func(c *Config) {
		c.Catalog, c.Identity = catalog, checkpoint.Identity{Cluster: "test", Pipeline: "test"}
		cfg := encode.Config{Cluster: "test", Pipeline: "test"}
		c.Streams = []StreamSpec{{Resource: "cm", Encoding: cfg}, {Resource: "*", Wildcard: &Wildcard{All: true}, Encoding: cfg}}
	})
	if s := b.only(t); s.spec.Wildcard == nil {
		t.Fatalf("%s is not opened by the wildcard", s.name)
	}
	wildcard := &b.cfg.Streams[1]
	waitFor(t, "all that there is at first", func() bool {
		b.session(t).mu.Lock()
		defer b.session(t).mu.Unlock()
		_, opening := b.session(t).unbegun[wildcard]
		return !opening
	})
	assert.False(t, b.session(t).selectsNothing(wildcard), "the wildcard is said to select nothing while it reads")
	served.Store(true)
	must.Get(catalog.Look(t.Context()))(t)
	waitFor(t, "the name's stream", func() bool {
		all := b.session(t).opened()
		return len(all) == 1 && all[0].spec.Resource == "cm"
	})
	waitFor(t, "the wildcard to select nothing", func() bool { return b.session(t).selectsNothing(wildcard) })
	api.add(1)
	waitFor(t, "what comes", func() bool { return len(log.lines()) > 0 })
	if lines := strings.Join(log.lines(), "\n"); strings.Count(lines, "\n") != 0 || !strings.Contains(lines, " 5 watch") {
		t.Errorf("the log has\n%s", lines)
	}
	assert.NoError(t, b.stop(), "it ended")
}
