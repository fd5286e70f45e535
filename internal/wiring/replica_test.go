// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

func TestHasOwnSubject_is_of_the_default_template(t *testing.T) {
	for subject, own := range map[string]bool{
		"k8s.prod_eu.networking_istio_io.gateways.shop.web":   true,
		"k8s.prod_eu.gateway_networking.gateways.shop.web":    false,
		"k8s.audit.prod_eu.gateways.shop.web":                 false, // of all groups
		"k8s.audit.networking_istio_io.gateways.shop.web":     false, // of all clusters
		"k8s.prod_eu.networking_istio_io.gateways.shop":       false,
		"k8s.prod_eu.networking_istio_io.gateways.shop.other": false,
	} {
		m := event.Message{Subject: subject}
		for name, value := range map[string]string{
			"type": "io.kube-eventbridge.resource.updated.v1", "id": "x", "name": "web", "namespace": "shop",
			"source": "/clusters/prod.eu/apis/networking.istio.io/v1/gateways", "clustername": "prod.eu",
		} {
			m.Attributes = append(m.Attributes, sink.Attribute{Name: name, Value: value})
		}
		assert.Equal(t, own, hasOwnSubject(must.Get(event.Decode(m))(t)), subject)
	}
}
