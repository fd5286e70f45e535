// SPDX-License-Identifier: Apache-2.0

package source

import (
	"io"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

var (
	somePods    = Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	someNodes   = Resource{Version: "v1", Resource: "nodes", Kind: "Node"}
	someDeploys = Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true}
	someWidgets = Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}
)

func TestClient_asks_for_the_stream_and_nothing_else(t *testing.T) {
	for want, stream := range map[string]Stream{
		"/api/v1/pods?":                        {Resource: somePods},
		"/api/v1/namespaces/kube-system/pods?": {Resource: somePods, Namespace: "kube-system"},
		"/api/v1/nodes?":                       {Resource: someNodes},
		"/apis/apps/v1/deployments?labelSelector=a+in+%28b%2Cc%29": {Resource: someDeploys, LabelSelector: "a in (b,c)"},
		"/apis/example.com/v1/namespaces/x/widgets?fieldSelector=metadata.name%3Da&labelSelector=%21b": {
			Resource: someWidgets, Namespace: "x", LabelSelector: "!b", FieldSelector: "metadata.name=a",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newScript(t, step{body: "{}", repeats: true})
			c := dial(t, s)
			for _, ask := range []func() (io.ReadCloser, error){
				func() (io.ReadCloser, error) {
					return c.listPage(t.Context(), stream, pageQuery{limit: 500, token: "t1"})
				},
				func() (io.ReadCloser, error) { return c.watch(t.Context(), stream, "7", time.Minute) },
			} {
				body := must.Get(ask())(t)
				_ = body.Close()
			}
			var got []string
			for _, r := range s.requests() {
				path := must.Get(url.ParseQuery(r.query))(t)
				for _, own := range []string{
					"limit", "continue", "watch", "allowWatchBookmarks", "resourceVersion",
					"timeoutSeconds",
				} {
					path.Del(own)
				}
				got = append(got, r.path+"?"+path.Encode())
			}
			assert.Equal(t, []string{want, want}, got, "asked, want %q", want)
		})
	}
}

// Names of some resources contain what means something in a selector.
func TestStream_is_narrowed_to_one_object(t *testing.T) {
	for want, s := range map[string]Stream{
		"ns|metadata.name=a|": only(configMaps, "ns", "a"),
		"|metadata.name=a|":   only(Stream{Resource: someNodes}, "", "a"),
		"ns|metadata.name=a,spec.nodeName=|b": only(
			Stream{Resource: somePods, FieldSelector: "spec.nodeName=", LabelSelector: "b"}, "ns", "a"),
		"ns|metadata.name=a,metadata.name=c|": only(
			Stream{Resource: somePods, Namespace: "ns", FieldSelector: "metadata.name=c"}, "ns", "a"),
		`|metadata.name=system:a\,b\=c\\d,metadata.x!=y|`: only(
			Stream{Resource: someNodes, FieldSelector: "metadata.x!=y"}, "", `system:a,b=c\d`),
	} {
		assert.Equal(t, want, s.Namespace+"|"+s.FieldSelector+"|"+s.LabelSelector)
	}
}
