// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/stretchr/testify/assert"
)

// filters leaves out additions, updates of an annotation, and what an expression says, while a bridge runs, while none does, and after it.
func filters(t *testing.T, api *controlplane.ControlPlane) {
	r := rigOn(t, api, `
      - {resource: configmaps, namespaces: [filters], operations: [updated, deleted], ignoreChanges: ['metadata.annotations["example.com/seen"]'],
         filter: 'event.operation == "deleted" || !has(object.data) || object.data.x != "hidden"'}`)
	r.namespace("filters")
	for _, name := range []string{"a", "b", "c", "end"} {
		r.configMap("filters", name, nil)
	}
	const seen = `{"metadata":{"annotations":{"example.com/seen":"N"}}}`
	b := r.run()
	r.awaitOp("snapshot-completed", 1)
	r.patch("filters", "a", strings.ReplaceAll(seen, "N", "1"))
	r.patch("filters", "b", strings.ReplaceAll(seen, "N", "1"))
	changed := r.patch("filters", "b", `{"data":{"x":"1"}}`)
	r.awaitStory("filters/b", "updated")
	b.stop()

	r.patch("filters", "a", strings.ReplaceAll(seen, "N", "2"))
	r.patch("filters", "b", strings.ReplaceAll(seen, "N", "2"))
	r.remove("filters", "c")
	r.run()
	r.awaitStory("filters/c", "deleted")
	r.patch("filters", "a", strings.ReplaceAll(seen, "N", "3"))
	r.remove("filters", "a")
	r.patch("filters", "end", `{"data":{"x":"hidden"}}`)
	r.patch("filters", "end", `{"data":{"x":"1"}}`)
	r.awaitStory("filters/end", "updated")
	log := r.awaitStory("filters/a", "deleted")
	if got := story(log, "filters/b"); got != "updated" {
		t.Errorf("the log has %q of b", got)
	}
	for _, e := range log {
		if e.key == "filters/b" && e.rv != changed.ResourceVersion {
			t.Errorf("the update of b is that to %s, want %s", e.rv, changed.ResourceVersion)
		}
	}
	const counted = `kube_eventbridge_events_filtered_total{pipeline="test",reason="unchanged",stream="configmaps.v1/filters"} 3`
	assert.Contains(t, r.metrics(), counted, "the metrics do")
}
