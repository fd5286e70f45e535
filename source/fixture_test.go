// SPDX-License-Identifier: Apache-2.0

package source

var (
	pods    = Resource{Version: "v1", Resource: "pods", Kind: "Pod", Namespaced: true}
	nodes   = Resource{Version: "v1", Resource: "nodes", Kind: "Node"}
	deploys = Resource{Group: "apps", Version: "v1", Resource: "deployments", Kind: "Deployment", Namespaced: true}
	widgets = Resource{Group: "example.com", Version: "v1", Resource: "widgets", Kind: "Widget", Namespaced: true}
)
