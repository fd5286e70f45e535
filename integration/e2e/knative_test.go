// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// The whole way with types, sources and subjects that the bridge has to recognise as its own when it reads its log back.
func TestBridge_in_Knatives_profile_killed_loses_repeats_and_misorders_nothing(t *testing.T) {
	r := newRig(t, watched)
	r.configureSink(watched, fmt.Sprintf(`encoding: {profile: knative}
    sink: {nats: {servers: [%q]}}`, r.broker.url()))
	disturbed(r, 1000, 4, func(r *rig) {
		r.bridge.kill()
		r.run()
	})
	host := r.api.RESTConfig().Host
	for _, e := range r.entries() {
		typ, src := e.header.Get("ce-type"), e.header.Get("ce-source")
		if e.uid == "" {
			if !strings.HasPrefix(typ, "io.kube-eventbridge.stream.") || !strings.HasPrefix(src, "/clusters/e2e/") {
				t.Errorf("a marker has type %s and source %s", typ, src)
			}
			continue
		}
		subject := strings.Replace("/apis/v1/namespaces/"+e.key, "default/", "default/configmaps/", 1)
		if !strings.HasPrefix(typ, "dev.knative.apiserver.resource.") || src != host || e.header.Get("ce-subject") != subject {
			t.Errorf("%s has type %s, source %s and subject %s, want %s and %s", e.key, typ, src, e.header.Get("ce-subject"), host, subject)
		}
	}
}
