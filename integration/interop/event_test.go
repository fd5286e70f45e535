// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"
)

// event is what a reader makes of a message.
type event struct {
	// attributes by name; of an integer its digits, of the time its instant in UTC.
	attributes map[string]string
	// data is what JSON says, with numbers as they are written.
	data any
	// gone is the key of a tombstone, which has nothing else.
	gone string
	// structured says how it was sent, if the reader tells.
	structured bool
}

// group is what an event is in order with: what is about the same object.
func (e *event) group() string { return cmp.Or(e.gone, e.attributes["partitionkey"]) }

// marker tells events that Kafka has in every partition.
func (e *event) marker() bool { return e.gone == "" && e.attributes["payload"] == "marker" }

// op is the last word of the type: added, updated, deleted, rejected, gap, …
func (e *event) op() string {
	parts := strings.Split(e.attributes["type"], ".")
	return parts[max(0, len(parts)-2)]
}

func (e *event) String() string {
	if e.gone != "" {
		return "the tombstone of " + e.gone
	}
	return fmt.Sprintf("%s of %s", e.attributes["id"], e.group())
}

// decode reads one JSON value.
func decode(b []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("something follows: %.80s", b)
	}
	return v, nil
}

// members reads one JSON object.
func members(b []byte) (map[string]any, error) {
	v, err := decode(b)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("not an object: %.80s", b)
	}
	return m, nil
}

// parseStructured reads an event in the JSON format of CloudEvents.
func parseStructured(b []byte) (*event, error) {
	m, err := members(b)
	if err != nil {
		return nil, err
	}
	e := &event{attributes: map[string]string{}, data: m["data"]}
	delete(m, "data")
	for name, v := range m {
		switch v := v.(type) {
		case string:
			err = e.set(name, v)
		case json.Number:
			err = e.set(name, v.String())
		default:
			err = fmt.Errorf("attribute %s is a %T", name, v)
		}
		if err != nil {
			return nil, err
		}
	}
	return e, nil
}

// parseLine reads what an example prints: an event, or the key of what is gone.
func parseLine(b []byte) (*event, error) {
	m, err := members(b)
	if err != nil {
		return nil, err
	}
	if key, ok := m["gone"].(string); ok && len(m) == 1 {
		return &event{gone: key}, nil
	}
	return parseStructured(b)
}

// set adds an attribute.
func (e *event) set(name, value string) error {
	if _, ok := e.attributes[name]; ok {
		return fmt.Errorf("attribute %s is there twice", name)
	}
	if name == "time" {
		// The one attribute that SDKs keep as a time, and print as they like.
		at, err := time.Parse(time.RFC3339Nano, value)
		if err != nil {
			return err
		}
		value = at.UTC().Format(time.RFC3339Nano)
	}
	e.attributes[name] = value
	return nil
}

// groups puts events together that are in order with each other. Markers come once from each partition, in any order.
func groups(events []*event) map[string][]*event {
	by := map[string][]*event{}
	for _, e := range events {
		by[e.group()] = append(by[e.group()], e)
	}
	for _, g := range by {
		if g[0].marker() {
			slices.SortFunc(g, func(a, b *event) int {
				return cmp.Or(cmp.Compare(a.attributes["id"], b.attributes["id"]),
					cmp.Compare(a.attributes["recordedtime"], b.attributes["recordedtime"]))
			})
		}
	}
	return by
}

// differences says in what two readings of one log differ. What is about one object has to be in the same order.
func differences(want, got []*event) (found []string) {
	wanted, has := groups(want), groups(got)
	for key, g := range has {
		if len(wanted[key]) == 0 {
			found = append(found, fmt.Sprintf("%s: there should be nothing, there is %v", key, g))
		}
	}
	for key, g := range wanted {
		if len(g) != len(has[key]) {
			found = append(found, fmt.Sprintf("%s: there are %v, want %v", key, has[key], g))
			continue
		}
		for i := range g {
			found = append(found, difference(g[i], has[key][i])...)
		}
	}
	return found
}

// difference says in what two events differ.
func difference(want, got *event) (found []string) {
	names := map[string]bool{}
	for name := range want.attributes {
		names[name] = true
	}
	for name := range got.attributes {
		names[name] = true
	}
	for name := range names {
		w, wanted := want.attributes[name]
		g, has := got.attributes[name]
		if w != g || wanted != has {
			found = append(found, fmt.Sprintf("%v: %s is %q (there: %t), want %q (there: %t)", want, name, g, has, w, wanted))
		}
	}
	if want.gone != got.gone {
		found = append(found, fmt.Sprintf("there is %v, want %v", got, want))
	}
	if !reflect.DeepEqual(want.data, got.data) {
		found = append(found, fmt.Sprintf("%v: data is %.300s, want %.300s", want, text(got.data), text(want.data)))
	}
	return found
}
