// SPDX-License-Identifier: Apache-2.0

package tail

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
)

// Describe says in one printable line what e tells. previous returns the event before it of the same object, or nil
// where that is not known: then nothing is said about what changed. It is called at most once, and only where it is
// needed. At most limit changed paths are named.
func Describe(e *event.Event, previous func() *event.Event, limit int) string {
	switch e.Op {
	case event.Added:
		return reduced(e, describeAdded(e))
	case event.Updated:
		return reduced(e, describeUpdated(e, previous, limit))
	case event.Deleted:
		return reduced(e, describeDeleted(e, previous()))
	case event.Rejected:
		return describeRejected(e)
	case event.Gap:
		return describeGap(e)
	case event.SnapshotStarted, event.SnapshotCompleted, event.ResyncStarted, event.ResyncCompleted:
		return describeMarker(e)
	default:
		return Printable(e.Attr("type"))
	}
}

// stateBefore returns the object of previous, where it holds the same part of an object as e.
func stateBefore(e, previous *event.Event) map[string]any {
	if previous == nil || (e.Attr("payload") == "metadata") != (previous.Attr("payload") == "metadata") {
		return nil
	}
	object, _, _ := previous.States()
	return object
}

func describeAdded(e *event.Event) string {
	object, _, _ := e.States()
	created, known := creation(object)
	s := "created"
	switch e.Attr("reason") {
	case "snapshot":
		s = "already there"
	case "relist":
		s = "found after a gap"
	case "resync", "repair":
		s = "published again"
	default:
		// An object can enter a stream long after its creation, when a label changes.
		if age := e.Time().Sub(created); known && age > time.Minute {
			s = "new in this stream"
		}
	}
	switch manager := e.Attr("fieldmanager"); {
	case s != "created":
		if known {
			s += ", created " + span(e.Time().Sub(created)) + " before"
		}
	case manager != "":
		s += " by " + shorten(Printable(manager), 32)
	}
	if owner := ownerOf(object); owner != "" {
		s += ", owned by " + owner
	}
	return s
}

func creation(object map[string]any) (time.Time, bool) {
	metadata, _ := object["metadata"].(map[string]any)
	s, _ := metadata["creationTimestamp"].(string)
	t, err := time.Parse(time.RFC3339, s)
	return t, err == nil
}

func ownerOf(object map[string]any) string {
	metadata, _ := object["metadata"].(map[string]any)
	owners, _ := metadata["ownerReferences"].([]any)
	for _, o := range owners {
		owner, _ := o.(map[string]any)
		if owner["controller"] == true {
			return shorten(Printable(scalar(owner["kind"])+"/"+scalar(owner["name"])), 80)
		}
	}
	return ""
}

// span is a duration as kubectl prints an age.
func span(d time.Duration) string {
	switch d = max(d, 0); {
	case d < 2*time.Minute:
		return strconv.Itoa(int(d.Seconds())) + "s"
	case d < 2*time.Hour:
		return strconv.Itoa(int(d.Minutes())) + "m"
	case d < 48*time.Hour:
		return strconv.Itoa(int(d.Hours())) + "h"
	default:
		return strconv.Itoa(int(d.Hours()/24)) + "d"
	}
}

func describeUpdated(e *event.Event, previous func() *event.Event, limit int) string {
	var found []difference
	switch payload := e.Attr("payload"); payload {
	case "merge-patch":
		found = mergePatch(e, previous())
	case "json-patch":
		found = jsonPatch(event.DecodeJSON(e.Data))
	default:
		after, before, ok := e.States()
		if ok && before == nil {
			before = stateBefore(e, previous())
		}
		if !ok || before == nil {
			return aside(e, "")
		}
		found = diff(before, after)
	}
	if len(found) == 0 {
		return aside(e, "nothing visible changed")
	}
	return aside(e, join(found, limit))
}

// aside appends what is unusual about how an update is known.
func aside(e *event.Event, s string) string {
	var notes []string
	if n := e.Attr("sampledrate"); n != "" {
		notes = append(notes, shorten(Printable(n), 16)+" changes in one")
	}
	switch reason := e.Attr("reason"); reason {
	case "", "watch":
	case "relist":
		notes = append(notes, "found after a gap")
	case "recovered":
		notes = append(notes, "recovered after a gap")
	default:
		notes = append(notes, shorten(Printable(reason), 16))
	}
	if len(notes) == 0 {
		return s
	}
	return strings.TrimSpace(s + " (" + strings.Join(notes, ", ") + ")")
}

// reduced appends that the log does not have the object, because it was too large, and where it is.
func reduced(e *event.Event, s string) string {
	size := e.Attr("datasize")
	if size == "" {
		return s
	}
	note := "too large for the log: " + shorten(Printable(size), 16) + " bytes"
	if ref := e.Attr("dataref"); ref != "" {
		note += " are in " + shorten(Printable(ref), 160)
	}
	return strings.TrimPrefix(s+", "+note, ", ")
}

// describeDeleted gives no time for a deletion that no watch showed, and of another one only a bound: the watch may
// have shown it long after it was, to a bridge that was away.
func describeDeleted(e, previous *event.Event) string {
	object, _, _ := e.States()
	var parts []string
	live, missing := false, false
	switch reason := e.Attr("reason"); reason {
	case "", "watch":
		live = true
	case "relist", "snapshot":
		missing = true
		parts = append(parts, "found missing ("+reason+")")
	case "recovered":
		parts = append(parts, "recovered after a gap")
	case "deselected":
		parts = append(parts, "exists, and is not selected any more")
	default:
		parts = append(parts, shorten(Printable(reason), 16))
	}
	if previous != nil && (object == nil || missing) {
		object, _, _ = previous.States()
	}
	if created, known := creation(object); known && live {
		existed := "existed at most " + span(e.Time().Sub(created))
		if e.Time().Sub(created) < time.Second { // times of creation have no fractions
			existed = "existed less than 1s"
		}
		parts = append(parts, existed)
	}
	switch {
	case previous != nil:
		parts = append(parts, "last known version "+version(previous.Attr("resourceversion")))
	case missing:
		parts = append(parts, "last known version "+version(e.Attr("resourceversion")))
	}
	if owner := ownerOf(object); owner != "" {
		parts = append(parts, "owned by "+owner)
	}
	return strings.Join(parts, ", ")
}

func describeRejected(e *event.Event) string {
	var data struct {
		Type, Error string
		Size        json.Number
	}
	_ = json.Unmarshal(e.Data, &data) // what cannot be read is not shown
	s := "the log refused this event"
	if op := e.OpOf(data.Type); op != event.Unknown {
		s = "the log refused this event (" + string(op) + ")"
	}
	if data.Size != "" {
		s += " of " + shorten(Printable(data.Size.String()), 16) + " bytes"
	}
	return s + ": " + shorten(Printable(data.Error), 200)
}

// describeGap says of which versions changes may be missing. Versions of a restored or rebuilt cluster do not compare
// with those before, so nothing lies between the two. Neither does anything if the list had the version that the log
// had.
func describeGap(e *event.Event) string {
	var data struct{ From, To, Cause, Message string }
	_ = json.Unmarshal(e.Data, &data) // what cannot be read is not shown
	s := fmt.Sprintf("changes between %s and %s are not known", version(data.From), version(data.To))
	switch {
	case data.Cause == "restored" || data.Cause == "rebuilt":
		s = fmt.Sprintf("versions start again: known up to %s before, and from %s on", version(data.From), version(data.To))
	case data.From == data.To && data.From != "":
		s = fmt.Sprintf("listed again at version %s; no version is skipped", version(data.From))
	}
	if data.Cause != "" {
		s += " (" + shorten(Printable(data.Cause), 24) + ")"
	}
	if data.Message != "" {
		s += ": " + shorten(Printable(data.Message), 200)
	}
	return s
}

func describeMarker(e *event.Event) string {
	var data struct {
		ResourceVersion string
		Objects, N      json.Number
		Complete        bool
	}
	_ = json.Unmarshal(e.Data, &data) // what cannot be read is not shown
	objects := shorten(Printable(data.Objects.String()), 16) + " objects"
	if data.Objects == "1" {
		objects = "1 object"
	}
	n := shorten(Printable(data.N.String()), 24)
	switch e.Op {
	case event.SnapshotStarted:
		return "what exists at " + version(data.ResourceVersion) + " follows"
	case event.SnapshotCompleted:
		return "this was what existed at " + version(data.ResourceVersion) + ": " + objects
	case event.ResyncStarted:
		return "resync " + n + ": what exists is published again"
	default:
		if !data.Complete {
			return "resync " + n + " has ended and is not complete: " + objects
		}
		return "resync " + n + " is complete: " + objects
	}
}

func version(s string) string {
	if s == "" {
		return "an unknown version"
	}
	return shorten(Printable(s), 24)
}
