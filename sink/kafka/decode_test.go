// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
)

// An object may have a name that looks like that of a marker: what it is, the attribute says.
func TestIsMarker_goes_by_what_the_event_says(t *testing.T) {
	binary := func(name, payload string) []kafka.Header {
		return []kafka.Header{{Name: "content-type", Value: []byte("application/json")}, {Name: name, Value: []byte(payload)}}
	}
	whole := []kafka.Header{{Name: "Content-Type", Value: []byte("application/cloudevents+json")}}
	const gap = "c/core/pods/_/_gap"
	for name, c := range map[string]struct {
		record          kafka.Record
		marker, barrier bool
	}{
		"marker":             {kafka.Record{Key: []byte(gap), Headers: binary("ce_payload", "marker")}, true, false},
		"capitals":           {kafka.Record{Key: []byte(gap), Headers: binary("CE_Payload", "marker")}, true, false},
		"structured":         {kafka.Record{Key: []byte(gap), Headers: whole, Value: []byte(`{"data":{"payload":"x"},"payload":"marker"}`)}, true, false},
		"an object's name":   {kafka.Record{Key: []byte("c/rbac/clusterroles/_/_gap"), Headers: binary("ce_payload", "object")}, false, false},
		"one in a structure": {kafka.Record{Key: []byte("c/rbac/clusterroles/_/_gap"), Headers: whole, Value: []byte(`{"data":{"payload":"marker"},"payload":"object"}`)}, false, false},
		"an object":          {kafka.Record{Key: []byte("c/core/pods/n/web"), Headers: binary("ce_payload", "marker")}, false, false},
		"somebody else's":    {kafka.Record{Key: []byte(gap), Value: []byte(`{"payload":"marker"}`)}, false, false},
		"no key":             {kafka.Record{Headers: binary("ce_payload", "marker")}, false, false},
		"barrier":            {kafka.Record{Key: []byte("c/_/_/_/_writer"), Headers: binary("ce_payload", "marker")}, false, true},
	} {
		if m, b := IsMarker(&c.record), IsBarrier(&c.record); m != c.marker || b != c.barrier {
			t.Errorf("%s: marker %v, barrier %v", name, m, b)
		}
	}
}
