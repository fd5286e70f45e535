// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// countingStore counts its commits.
type countingStore struct {
	memoryStore
	commits atomic.Int64
}

func (s *countingStore) Commit(ctx context.Context, b *checkpoint.Batch) error {
	s.commits.Add(1)
	return s.memoryStore.Commit(ctx, b)
}

// A custom resource was removed while the bridge was away, and its name means another one now.
func TestFormer_meaning_of_a_name_is_deleted_in_the_log_once_it_is_gone(t *testing.T) {
	for name, c := range map[string]struct {
		resource, called, stored string
		selector                 labels.Selector
	}{
		"by its plural":                        {resource: "configmaps", stored: "configmaps.v1.old.example.com"},
		"by its kind":                          {resource: "configmap", stored: "configmaps.v1.old.example.com"},
		"by a short name":                      {resource: "cm", called: "cm", stored: "configmaps.v1.old.example.com"},
		"by its group":                         {resource: "configmaps.old.example.com", stored: "configmaps.v1.old.example.com"},
		"in a namespace that is selected":      {resource: "configmaps", stored: "configmaps.v1.old.example.com/shop", selector: labels.Everything()},
		"in a namespace that is not, any more": {resource: "configmaps", stored: "configmaps.v1.old.example.com/shop", selector: labels.SelectorFromSet(labels.Set{"team": "a"})},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api, log := newAPIServer(t, 10), newFakeLog()
			definitionsGone(api)
			catalog := catalogOf(t, api)
			ended := make(chan error, 1)
			go func() { ended <- catalog.Run(t.Context()) }()
			t.Cleanup(func() {
				assert.NoError(t, <-ended)
			})
			store := &countingStore{}
			store.state = checkpoint.State{
				Identity: checkpoint.Identity{Cluster: "test", Pipeline: "test"},
				Streams:  map[string]checkpoint.Stream{c.stored: {Position: "1", Kind: "ConfigMap", Namespaced: true, Called: c.called}},
				Rows:     map[string]map[string]checkpoint.Row{c.stored: {"shop/x": {UID: "u1", ResourceVersion: "1"}}},
			}
			b := runBridge(t, api, log, store, func(of *Config) {
				of.Catalog, of.Identity = catalog, store.state.Identity
				of.Streams[0].Resource = c.resource
				if c.selector != nil {
					of.Namespaces, of.Streams[0].NamespaceSelector = listedNamespaces(t, 10), c.selector
				}
			})
			must.Happen(t, "the deletion", func() bool { return strings.Contains(strings.Join(log.lines(), "\n"), "deleted shop/x") })
			must.Happen(t, "the end of its stream", func() bool { return len(b.session(t).stored()) == 0 })
			require.NoError(t, b.stop())
			n := store.commits.Load()
			assert.True(t, n <= 20, "%d commits", n)
		})
	}
}

func TestFormer_meaning_is_left_to_what_else_reads_it(t *testing.T) {
	api := newAPIServer(t, 10)
	offers, _ := catalogOf(t, api).Now()
	discovery := must.Get(source.NewDiscovery(&rest.Config{Host: api.URL}))(t)
	const old = "configmaps.v1.old.example.com"
	for _, c := range []struct {
		stored string
		other  StreamSpec
		want   bool
	}{
		{old, StreamSpec{Resource: "secrets"}, true},
		{old, StreamSpec{Resource: "configmaps.old.example.com"}, false},
		{old, StreamSpec{Resource: "configmaps.old.example.com", Namespace: "a"}, false},
		{old, StreamSpec{Resource: "*", Wildcard: &Wildcard{All: true}}, false},
		{old, StreamSpec{Resource: "*", Wildcard: &Wildcard{All: true}, Namespace: "a"}, true},
		{old, StreamSpec{Resource: "*.apps", Wildcard: &Wildcard{Group: "apps"}}, true},
		{old + "/a", StreamSpec{Resource: "secrets"}, false},
		{"secrets.v1.old.example.com", StreamSpec{Resource: "pods"}, false},
		{"configmaps.v1beta1", StreamSpec{Resource: "secrets"}, false},
	} {
		p := &session{cfg: &Config{Discovery: discovery, Streams: []StreamSpec{{Resource: "configmaps"}, c.other}}, state: &checkpoint.State{
			Streams: map[string]checkpoint.Stream{c.stored: {Kind: "K", Namespaced: true, Position: "5"}},
		}}
		all, lost := p.former(&p.cfg.Streams[0], configMaps, offers)
		if got := len(all) == 1 && len(lost) == 1; got != c.want || len(all) != len(lost) {
			t.Errorf("%s beside %s: %v, of which are lost %v", c.stored, c.other.Resource, all, lost)
		}
	}
}
