// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// anEvent returns an event with attributes, name and value in turn, besides those that every event has.
func anEvent(t *testing.T, attributes ...string) *event.Event {
	t.Helper()
	all := map[string]string{
		"id": "i", "type": "io.kube-eventbridge.resource.added.v1", "pipeline": "audit", "clustername": "east",
		"source": "/clusters/east/api/v1/configmaps",
	}
	for i := 0; i < len(attributes); i += 2 {
		all[attributes[i]] = attributes[i+1]
	}
	m := event.Message{Stored: sink.Stored{Data: []byte("{}")}}
	for name, value := range all {
		m.Attributes = append(m.Attributes, sink.Attribute{Name: name, Value: value})
	}
	return must.Get(event.Decode(m))(t)
}
