// SPDX-License-Identifier: Apache-2.0

// Package event reads a log back: it decodes what a broker keeps, tells the state of an object from it, and puts
// patches together. How brokers are read is in the packages below it.
package event

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/inert"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// Op is what an event tells.
type Op string

// The operations and markers that a log has.
const (
	Added             Op = "added"
	Updated           Op = "updated"
	Deleted           Op = "deleted"
	Rejected          Op = "rejected"
	Gap               Op = "gap"
	SnapshotStarted   Op = "snapshot-started"
	SnapshotCompleted Op = "snapshot-completed"
	ResyncStarted     Op = "resync-started"
	ResyncCompleted   Op = "resync-completed"
	// Unknown is an event of a type that this version does not know.
	Unknown Op = "unknown"
)

// Marker reports whether the event is about a stream and not about an object.
func (o Op) Marker() bool {
	switch o {
	case Gap, SnapshotStarted, SnapshotCompleted, ResyncStarted, ResyncCompleted:
		return true
	default:
		return false
	}
}

// Event is a decoded [Message]. Everything in it comes from the log and may hold anything: it must be made printable
// before a terminal sees it.
type Event struct {
	Message
	Op Op
	// Group is empty for the core group.
	Group, Version, Resource string
	// Data is the event's data, without the envelope of structured mode.
	Data []byte

	// Source and Object are the attributes source and subject as the bridge's own profile has them.
	Source, Object string

	attributes map[string]string
	// structured is the whole event, where the log has it in structured mode.
	structured []byte
}

// Attr returns the value of a context attribute as plain text, empty where the event has none.
func (e *Event) Attr(name string) string { return e.attributes[name] }

// Time returns when the bridge saw what the event tells; where it does not say, when it happened, else when it was
// stored.
func (e *Event) Time() time.Time {
	for _, name := range []string{"recordedtime", "time"} {
		if t, err := time.Parse(time.RFC3339Nano, e.Attr(name)); err == nil {
			return t
		}
	}
	return e.Stored.Time
}

// Size is about how many bytes of memory the event needs.
func (e *Event) Size() int {
	n := len(e.Message.Data) + 512
	for name, value := range e.attributes {
		n += len(name) + 2*len(value)
	}
	return n
}

// ErrNoEvent is what [Decode] returns for a message that is no CloudEvent.
var ErrNoEvent = errors.New("not a CloudEvent")

// Decode reads a CloudEvent in binary or structured mode. The event shares memory with m.
func Decode(m Message) (*Event, error) {
	e := &Event{Message: m, Data: m.Data}
	if encode.IsStructured(&m.Stored) {
		if err := e.decodeStructured(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrNoEvent, err)
		}
	} else {
		e.decodeBinary()
	}
	if e.Attr("type") == "" || e.Attr("id") == "" {
		return nil, fmt.Errorf("%w: it has no type or no id", ErrNoEvent)
	}
	typ, src := e.inOwn(e.Attr("type"))
	e.Op, e.Source, e.Object = opOf(typ), src, e.Attr("subject")
	if typ != e.Attr("type") {
		e.Object = strings.TrimPrefix(e.Attr("namespace")+"/"+e.Attr("name"), "/")
	}
	e.Group, e.Version, e.Resource = resourceOf(src)
	return e, nil
}

// OldFormat returns the error of a log that an older version has written, whose sequences are one number. It is nil
// for any other event.
func (e *Event) OldFormat() error {
	sequence := e.Attr("sequence")
	if sequence == "" || strings.Contains(sequence, ".") {
		return nil
	}
	_, err := encode.StateOf(&e.Stored)
	var old *encode.OldFormatError
	if errors.As(err, &old) {
		return err
	}
	return nil // an event of another program
}

// OpOf returns what an event of the type tells, in the profile that e has.
func (e *Event) OpOf(typ string) Op {
	own, _ := e.inOwn(typ)
	return opOf(own)
}

// inOwn returns a type, and the event's source, as the bridge's own profile has them.
func (e *Event) inOwn(typ string) (ownType, source string) {
	return encode.InOwn(typ, e.Attr("source"), e.Attr("partitionkey"), e.Attr("apiversion"))
}

func (e *Event) decodeBinary() {
	e.attributes = make(map[string]string, len(e.Attributes))
	for _, a := range e.Attributes {
		e.attributes[a.Name] = a.Value
	}
}

func (e *Event) decodeStructured() error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(e.Message.Data, &members); err != nil {
		return err
	}
	e.structured, e.Data = e.Message.Data, members["data"]
	e.attributes = make(map[string]string, len(members))
	for name, raw := range members {
		switch {
		case name == "data":
		case name == "data_base64":
			if err := json.Unmarshal(raw, &e.Data); err != nil {
				return fmt.Errorf("data_base64: %w", err)
			}
		case raw[0] == '"':
			var s string
			if err := json.Unmarshal(raw, &s); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			e.attributes[name] = s
		case string(raw) != "null":
			e.attributes[name] = string(raw)
		}
	}
	return nil
}

func opOf(typ string) Op {
	switch typ {
	case encode.TypeAdded:
		return Added
	case encode.TypeUpdated:
		return Updated
	case encode.TypeDeleted:
		return Deleted
	case encode.TypeRejected:
		return Rejected
	case encode.TypeGap:
		return Gap
	case encode.TypeSnapshotStarted:
		return SnapshotStarted
	case encode.TypeSnapshotCompleted:
		return SnapshotCompleted
	case encode.TypeResyncStarted:
		return ResyncStarted
	case encode.TypeResyncCompleted:
		return ResyncCompleted
	default:
		return Unknown
	}
}

// resourceOf reads /clusters/<cluster>/apis/<group>/<version>/<resource> and
// /clusters/<cluster>/api/<version>/<resource>.
func resourceOf(source string) (group, version, resource string) {
	switch p := strings.Split(source, "/"); {
	case len(p) == 7 && p[1] == "clusters" && p[3] == "apis":
		return p[4], p[5], p[6]
	case len(p) == 6 && p[1] == "clusters" && p[3] == "api":
		return "", p[4], p[5]
	default:
		return "", "", ""
	}
}

// AppendJSON appends the event in structured mode, as one line of JSON without its end. Whatever the log holds, the
// line is JSON, and has no byte that a terminal takes for a command.
func (e *Event) AppendJSON(dst []byte) ([]byte, error) {
	var line bytes.Buffer
	if e.structured != nil {
		if err := json.Compact(&line, e.structured); err != nil {
			return dst, fmt.Errorf("compact event %d: %w", e.Sequence, err)
		}
	} else {
		e.writeStructured(&line)
	}
	return inert.AppendJSON(dst, line.Bytes()), nil
}

func (e *Event) writeStructured(b *bytes.Buffer) {
	first := []string{"specversion", "id", "source", "type", "subject", "time", "datacontenttype"}
	var rest []string
	for name := range e.attributes {
		if !slices.Contains(first, name) {
			rest = append(rest, name)
		}
	}
	slices.Sort(rest)
	for _, name := range append(first, rest...) {
		value, ok := e.attributes[name]
		if !ok {
			continue
		}
		separate(b)
		writeString(b, name)
		b.WriteByte(':')
		if (sink.Attribute{Name: name}).Integer() && json.Valid([]byte(value)) {
			b.WriteString(value)
		} else {
			writeString(b, value)
		}
	}
	e.writeData(b)
	b.WriteByte('}')
}

func (e *Event) writeData(b *bytes.Buffer) {
	if len(e.Data) == 0 {
		return
	}
	separate(b)
	start := b.Len()
	b.WriteString(`"data":`)
	if json.Compact(b, e.Data) == nil {
		return
	}
	b.Truncate(start)
	b.WriteString(`"data_base64":"` + base64.StdEncoding.EncodeToString(e.Data) + `"`)
}

func separate(b *bytes.Buffer) {
	if b.Len() == 0 {
		b.WriteByte('{')
		return
	}
	b.WriteByte(',')
}

func writeString(b *bytes.Buffer, s string) {
	quoted, _ := json.Marshal(s) // a string always has a JSON form
	b.Write(quoted)
}

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
