// SPDX-License-Identifier: Apache-2.0

// Package versions keeps consumers from handling a state twice, or one that is older than what they handled.
package versions

import "github.com/cloudevents/sdk-go/v2/event"

// Versions has the sequence that was handled last of each object. A real consumer keeps it where it keeps what it makes
// of the events. The zero value is empty; one goroutine at a time uses it.
type Versions struct{ last map[string]string }

// IsNew says whether an event is newer than what was handled, and takes it for handled.
func (v *Versions) IsNew(e event.Event) bool {
	sequence, ok := e.Extensions()["sequence"].(string)
	if !ok {
		return true // a marker; from Kafka it comes once from every partition
	}
	pipeline, _ := e.Extensions()["pipeline"].(string)
	key, _ := e.Extensions()["partitionkey"].(string)
	key = pipeline + " " + key
	if sequence <= v.last[key] { // sequences compare as text
		return false
	}
	if v.last == nil {
		v.last = map[string]string{}
	}
	v.last[key] = sequence
	return true
}
