// SPDX-License-Identifier: Apache-2.0

// Package versions keeps consumers from handling a state twice, or one that is older than what they handled.
package versions

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
)

// Versions has the version that was handled last of each object. A real consumer keeps it where it keeps what it makes of the events.
// The zero value is empty; one goroutine at a time uses it.
type Versions struct{ last map[string]string }

// IsNew says whether an event is newer than what was handled, and takes it for handled.
func (v *Versions) IsNew(e event.Event) bool {
	sequence, ok := e.Extensions()["sequence"].(string)
	if !ok {
		return true // a marker; from Kafka it comes once from every partition
	}
	key, _ := e.Extensions()["partitionkey"].(string)
	// As text, so that it sorts: a history has at most ten digits, a sequence always twenty.
	history := fmt.Sprint(cmp.Or(e.Extensions()["history"], any("0")))
	version := fmt.Sprintf("%10s %s %t", history, sequence, strings.HasSuffix(e.Type(), ".deleted.v1"))
	if version <= v.last[key] {
		return false
	}
	if v.last == nil {
		v.last = map[string]string{}
	}
	v.last[key] = version
	return true
}
