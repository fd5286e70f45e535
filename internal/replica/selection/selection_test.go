// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

func TestSelection(t *testing.T) {
	shop := Entry{Resource: "configmaps", Namespaces: []string{"shop"}}
	mail := Entry{Resource: "configmaps", Namespaces: []string{"mail"}}
	example := Entry{Group: "example.com"}
	s := New("east", "audit", []Entry{shop, mail, example, {Group: "*"}})

	r, isNew := s.Find(anEvent(t))
	require.NotNil(t, r)
	assert.True(t, isNew)
	assert.Equal(t, shop, *r.Entry("shop"))
	assert.Equal(t, mail, *r.Entry("mail"))
	assert.Nil(t, r.Entry("other"))
	again, isNew := s.Find(anEvent(t))
	assert.Same(t, r, again)
	assert.False(t, isNew)
	assert.Same(t, r, s.At(r.Number))

	widgets, _ := s.Find(anEvent(t, "source", "/clusters/east/apis/example.com/v1/widgets"))
	require.NotNil(t, widgets)
	assert.Equal(t, example, *widgets.Entry("any"))
	assert.Equal(t, "east/example.com/widgets/any/w", widgets.Origin("east", "any", "w"))
	assert.Equal(t, "east/core/configmaps/_/w", r.Origin("east", "", "w"))

	for name, e := range map[string]*event.Event{
		"another pipeline":            anEvent(t, "pipeline", "other"),
		"another cluster":             anEvent(t, "clustername", "west"),
		"a resource that is left out": anEvent(t, "source", "/clusters/east/api/v1/events"),
		"no resource":                 anEvent(t, "source", "urn:other"),
	} {
		r, _ := s.Find(e)
		assert.Nil(t, r, name)
	}
}
