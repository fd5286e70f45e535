// SPDX-License-Identifier: Apache-2.0

package event

import (
	"bytes"
	"encoding/json"
)

// DecodeJSON reads JSON with its numbers as they stand; nil for what is no JSON.
func DecodeJSON(data []byte) any {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

// States returns the object of an event and, where the event brings it along, its state before. ok is false where the
// event does not hold a whole state.
func (e *Event) States() (object, old map[string]any, ok bool) {
	v, _ := DecodeJSON(e.Data).(map[string]any)
	if v == nil || e.Op.Marker() || e.Op == Rejected || e.Op == Unknown {
		return nil, nil, false
	}
	switch e.Attr("payload") {
	case "object", "metadata":
		return v, nil, true
	case "change":
		object, _ = v["object"].(map[string]any)
		old, _ = v["oldObject"].(map[string]any)
		return object, old, object != nil
	default:
		return nil, nil, false
	}
}
