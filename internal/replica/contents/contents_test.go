// SPDX-License-Identifier: Apache-2.0

package contents

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

var (
	widgets = replicatest.Kind{Group: "example.com", Resource: "widgets", Kind: "Widget", Namespaced: true}
	leases  = replicatest.Kind{Group: "coordination.k8s.io", Resource: "leases", Kind: "Lease", Namespaced: true}
)

// kept asks for what is kept of an object. Objects of replica r go, except those named stays.
func kept(t *testing.T, api *replicatest.API, of schema.GroupResource, name string) (string, error) {
	t.Helper()
	client := must.Get(kube.NewClient(api.Config()))(t)
	defer client.CloseIdleConnections()
	offers, err := must.Get(catalog.New(api.Config(), client, catalog.Config{}))(t).Look(t.Context())
	require.NotNil(t, offers, err)
	return must.Get(New(api.Config()))(t).Kept(t.Context(), of, name, offers,
		func(_ source.Resource, o *metav1.PartialObjectMetadata) bool {
			return o.Labels[clean.Label] == "r" && o.Name != "stays"
		})
}

func labelled(replica string) map[string]any {
	return map[string]any{
		"labels":      map[string]string{clean.Label: replica},
		"annotations": map[string]string{clean.Origin: "east/core/configmaps/shop/a"},
	}
}

func TestKept_finds_what_nobody_but_its_owner_may_delete(t *testing.T) {
	owner := map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}
	for name, c := range map[string]struct {
		resource, namespace, object string
		metadata                    map[string]any
		want                        string
	}{
		"somebody's object":        {"configmaps", "shop", "a", nil, "configmaps shop/a"},
		"a custom object":          {"widgets", "shop", "w", nil, "widgets.example.com shop/w"},
		"another namespace":        {"configmaps", "other", "a", nil, ""},
		"an object of ours":        {"configmaps", "shop", "a", labelled("r"), ""},
		"one of ours that stays":   {"configmaps", "shop", "stays", labelled("r"), "configmaps shop/stays"},
		"an object of another one": {"configmaps", "shop", "a", labelled("other"), "configmaps shop/a"},
		"a controller's ConfigMap": {"configmaps", "shop", "kube-root-ca.crt", nil, ""},
		"an object with a controller": {
			"configmaps", "shop", "a", map[string]any{"ownerReferences": []any{owner}}, "",
		},
		"an object that ends": {
			"configmaps", "shop", "a", map[string]any{"deletionTimestamp": "2026-11-20T12:00:00Z"}, "",
		},
		"what is never replicated": {"leases", "shop", "l", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			api := replicatest.NewAPI(t, replicatest.ConfigMaps, replicatest.Namespaces, widgets, leases)
			api.Put(c.resource, c.namespace, c.object, c.metadata)
			what, err := kept(t, api, namespaces, "shop")
			require.NoError(t, err)
			assert.Equal(t, c.want, what)
		})
	}
}

func TestKept_finds_objects_of_a_definition(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps, widgets)
	api.Put("configmaps", "shop", "a", nil)
	what, err := kept(t, api, definitions, "widgets.example.com")
	require.NoError(t, err)
	assert.Empty(t, what)
	api.Put("widgets", "other", "w", nil)
	what, err = kept(t, api, definitions, "widgets.example.com")
	require.NoError(t, err)
	assert.Equal(t, "widgets.example.com other/w", what)

	// A definition none of whose versions is served keeps its objects.
	what, err = kept(t, api, definitions, "gadgets.example.com")
	require.NoError(t, err)
	assert.Equal(t, "gadgets.example.com, whose objects cannot be listed: it is not served", what)
}

func TestKept_does_not_take_for_empty_what_it_may_not_see(t *testing.T) {
	const unserved = "widgets.example.com, whose objects cannot be listed: it is not served"
	for code, want := range map[int]struct{ ofNamespace, ofDefinition string }{
		http.StatusForbidden: {"widgets.example.com may not be listed", "widgets.example.com may not be listed"},
		// Discovery is some seconds old.
		http.StatusNotFound: {"", unserved},
	} {
		api := replicatest.NewAPI(t, replicatest.ConfigMaps, widgets)
		api.Refuse = func(r *http.Request) int {
			if strings.HasSuffix(r.URL.Path, "/widgets") {
				return code
			}
			return 0
		}
		what, err := kept(t, api, namespaces, "shop")
		require.NoError(t, err)
		assert.Equal(t, want.ofNamespace, what)
		what, err = kept(t, api, definitions, "widgets.example.com")
		require.NoError(t, err)
		assert.Equal(t, want.ofDefinition, what)
	}
}

// An aggregated API server is away.
func TestKept_keeps_a_namespace_where_a_group_does_not_say_what_it_has(t *testing.T) {
	api := replicatest.NewAPI(t, replicatest.ConfigMaps, replicatest.Namespaces, widgets)
	api.Refuse = func(r *http.Request) int {
		if r.URL.Path == "/apis/example.com/v1" {
			return http.StatusServiceUnavailable
		}
		return 0
	}
	what, err := kept(t, api, namespaces, "shop")
	require.NoError(t, err)
	assert.Equal(t, "objects that cannot be listed, perhaps: example.com/v1 does not say what it has", what)
}
