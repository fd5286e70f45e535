// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"strings"
)

// payloads checks that what a pipeline publishes can have the payloads that its resources ask for.
func (v *validator) payloads(path string, p *Pipeline) {
	for i := range p.Resources {
		at, payload := fmt.Sprintf("%s.resources[%d].payload", path, i), p.Resources[i].Payload
		switch {
		case p.Encoding.Profile == ProfileKnative && (payload.patch() || payload == PayloadChange):
			v.add(at,
				"%q is nothing that Knative's ApiServerSource publishes, and encoding.profile is knative; valid with this "+
					"profile: object, metadata", payload)
		case payload.patch() && p.Sink.Kafka.compacts():
			v.add(at,
				"%q says nothing without the event before, which a compacted topic does not keep, and sink.kafka.create.settings "+
					"has cleanup.policy compact; valid with this topic: object, metadata, change", payload)
		}
	}
}

// compacts reports whether the topics that are created keep the last record of each key only, as far as the file says.
func (k *Kafka) compacts() bool {
	if k == nil || k.Create == nil {
		return false
	}
	return strings.Contains(k.Create.Settings["cleanup.policy"], "compact")
}
