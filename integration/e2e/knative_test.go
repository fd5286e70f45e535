// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
)

// knative publishes with the types, sources and subjects of Knative's event source, and goes on after a crash.
func knative(t *testing.T, api *controlplane.ControlPlane) {
	const ns = "knative"
	resources := fmt.Sprintf("[{resource: configmaps, namespaces: [%s]}]", ns)
	r := rigOn(t, api, resources)
	r.configureSink(resources, fmt.Sprintf("encoding: {profile: knative}\n    sink: {nats: {servers: [%q]}}", r.broker.url()))
	r.namespace(ns)
	r.run()
	r.awaitOp("snapshot-completed", 1)
	r.configMap(ns, "a", nil)
	r.patch(ns, "a", `{"data":{"x":"1"}}`)
	r.awaitStory(ns+"/a", "added updated")
	restarted(r)
	r.remove(ns, "a")
	log := r.awaitStory(ns+"/a", "added updated deleted")
	mustBeUnique(t, log)
	host := r.api.RESTConfig().Host
	for _, e := range log {
		typ, src := e.header.Get("ce-type"), e.header.Get("ce-source")
		if e.uid == "" {
			if !strings.HasPrefix(typ, "io.kube-eventbridge.stream.") || !strings.HasPrefix(src, "/clusters/e2e/") {
				t.Errorf("a marker has type %s and source %s", typ, src)
			}
			continue
		}
		const subject = "/apis/v1/namespaces/" + ns + "/configmaps/a"
		if !strings.HasPrefix(typ, "dev.knative.apiserver.resource.") || src != host || e.header.Get("ce-subject") != subject {
			t.Errorf("%s has type %s, source %s and subject %s, want %s and %s", e.key, typ, src, e.header.Get("ce-subject"), host, subject)
		}
	}
}
