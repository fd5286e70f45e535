// SPDX-License-Identifier: Apache-2.0

package selection

import (
	"encoding/json"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// ClaimOf returns what an event claims of its object.
func ClaimOf(e *event.Event) keys.Claim {
	op := e.Op
	if op == event.Rejected {
		var refused struct{ Type string }
		_ = json.Unmarshal(e.Data, &refused) // what cannot be read is no deletion
		if op = e.OpOf(refused.Type); op != event.Deleted {
			return keys.Rejected
		}
	}
	switch {
	case op == event.Deleted && e.Attr("reason") == "deselected":
		return keys.Deselected
	case op == event.Deleted:
		return keys.Gone
	case e.Attr("redacted") == "true":
		return keys.Redacted
	case e.Attr("datasize") != "", e.Attr("payload") == "metadata":
		return keys.Reduced
	default:
		return keys.Whole
	}
}

// Lacks returns why an event has not the whole object; empty where it has, or where the object is gone.
func Lacks(e *event.Event) string {
	switch ClaimOf(e) { //nolint:exhaustive // others lack nothing
	case keys.Redacted:
		return "values in it are redacted (see encoding of the pipeline)"
	case keys.Reduced:
		return "it has metadata only, or the object was too large"
	case keys.Rejected:
		return "the broker has refused it"
	}
	return ""
}
