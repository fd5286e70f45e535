// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"io"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/source"
	"github.com/kube-eventbridge/kube-eventbridge/source/kube/kubetest"
)

var (
	pods    = source.Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	nodes   = source.Resource{Version: "v1", Resource: "nodes", Kind: "Node"}
	deploys = source.Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true}
	widgets = source.Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}
)

func TestClient_asks_for_the_stream_and_nothing_else(t *testing.T) {
	for want, stream := range map[string]source.Stream{
		"/api/v1/pods?":                        {Resource: pods},
		"/api/v1/namespaces/kube-system/pods?": {Resource: pods, Namespace: "kube-system"},
		"/api/v1/nodes?":                       {Resource: nodes},
		"/apis/apps/v1/deployments?labelSelector=a+in+%28b%2Cc%29": {Resource: deploys, LabelSelector: "a in (b,c)"},
		"/apis/example.com/v1/namespaces/x/widgets?fieldSelector=metadata.name%3Da&labelSelector=%21b": {
			Resource: widgets, Namespace: "x", LabelSelector: "!b", FieldSelector: "metadata.name=a",
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := kubetest.NewScript(t, kubetest.Step{Body: "{}", Repeats: true})
			c := dial(t, s)
			for _, ask := range []func() (io.ReadCloser, error){
				func() (io.ReadCloser, error) {
					return c.listPage(t.Context(), stream, PageQuery{Limit: 500, Token: "t1"})
				},
				func() (io.ReadCloser, error) { return c.Watch(t.Context(), stream, "7", time.Minute) },
			} {
				body := must.Get(ask())(t)
				_ = body.Close()
			}
			var got []string
			for _, r := range s.Requests() {
				path := must.Get(url.ParseQuery(r.Query))(t)
				for _, own := range []string{
					"limit", "continue", "watch", "allowWatchBookmarks", "resourceVersion",
					"timeoutSeconds",
				} {
					path.Del(own)
				}
				got = append(got, r.Path+"?"+path.Encode())
			}
			assert.Equal(t, []string{want, want}, got, "asked, want %q", want)
		})
	}
}

// Names of some resources contain what means something in a selector.
func TestStream_is_narrowed_to_one_object(t *testing.T) {
	for want, s := range map[string]source.Stream{
		"ns|metadata.name=a|": only(kubetest.ConfigMaps, "ns", "a"),
		"|metadata.name=a|":   only(source.Stream{Resource: nodes}, "", "a"),
		"ns|metadata.name=a,spec.nodeName=|b": only(
			source.Stream{Resource: pods, FieldSelector: "spec.nodeName=", LabelSelector: "b"}, "ns", "a"),
		"ns|metadata.name=a,metadata.name=c|": only(
			source.Stream{Resource: pods, Namespace: "ns", FieldSelector: "metadata.name=c"}, "ns", "a"),
		`|metadata.name=system:a\,b\=c\\d,metadata.x!=y|`: only(
			source.Stream{Resource: nodes, FieldSelector: "metadata.x!=y"}, "", `system:a,b=c\d`),
	} {
		assert.Equal(t, want, s.Namespace+"|"+s.FieldSelector+"|"+s.LabelSelector)
	}
}
