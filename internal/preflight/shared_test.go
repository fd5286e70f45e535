// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"k8s.io/client-go/rest"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config/value"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/catalog"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube"
)

func TestCheckShared_refuses_two_names_of_one_resource_with_objects_in_common(t *testing.T) {
	entry := func(name, group, version string, namespaces ...string) resolved {
		return resolved{
			&config.Resource{Resource: value.ResourceName{Plural: name}, Namespaces: namespaces},
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
			want = "pipelines[0].resources[1].resource: " + c.want + " and events before it are one resource, " +
				c.second.is.String() +
				", with objects in common, and an object belongs to one stream of a pipeline; remove one, or give them different " +
				"namespaces"
		}
		before := u.checkShared("pipelines[0].resources[1]", u.checkShared("", nil, first), c.second)
		got := u.Problems.Error()
		assert.True(t, got == want && len(before) == 2, "%s: got %q\nwant %q", c.name, got, want)
	}
}

func TestCheckMeaning_names_all_resources_that_a_name_may_mean(t *testing.T) {
	gateways := func(group string) string {
		return fmt.Sprintf(`{"kind":"APIResourceList","groupVersion":"%s/v1","resources":[
			{"name":"gateways","singularName":"gateway","namespaced":true,"kind":"Gateway","verbs":["list","watch"]}]}`, group)
	}
	mux := http.NewServeMux()
	for path, text := range map[string]string{
		"/api": `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[
			{"name":"gateway.io","versions":[{"groupVersion":"gateway.io/v1","version":"v1"}],
				"preferredVersion":{"groupVersion":"gateway.io/v1","version":"v1"}},
			{"name":"istio.io","versions":[{"groupVersion":"istio.io/v1","version":"v1"}],
				"preferredVersion":{"groupVersion":"istio.io/v1","version":"v1"}}]}`,
		"/api/v1":             `{"kind":"APIResourceList","groupVersion":"v1","resources":[]}`,
		"/apis/gateway.io/v1": gateways("gateway.io"),
		"/apis/istio.io/v1":   gateways("istio.io"),
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, text)
		})
	}
	api := httptest.NewServer(mux)
	t.Cleanup(api.Close)
	at := &rest.Config{Host: api.URL}
	client := must.Get(kube.NewClient(at))(t)
	t.Cleanup(client.CloseIdleConnections)
	for name, want := range map[value.ResourceName]string{
		{Plural: "gateways"}: "p.resource: gateways may mean several resources: gateways.gateway.io, gateways.istio.io; a " +
			"new pipeline reads the first one, and one that has read another one before goes on with that; name it with its " +
			"group",
		{Plural: "gateways", Group: "istio.io"}: "",
	} {
		var u checkup
		catalog := must.Get(catalog.New(at, client, catalog.Config{}))(t)
		is := u.checkMeaning(t.Context(), catalog, "p", &config.Resource{Resource: name}, source.Resource{})
		assert.Equal(t, want, u.Warnings.Error())
		assert.Equal(t, cmp.Or(name.Group, "gateway.io"), is.Group)
	}
}
