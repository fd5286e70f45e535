// SPDX-License-Identifier: Apache-2.0

package asyncapi

import (
	"bytes"
	"encoding/json"
	"slices"
)

// Object is a JSON object whose members have an order.
type Object []member

type member struct {
	name  string
	value any
}

// object makes an object of names and values in turn. A value that is nil or an empty list is left out.
func object(namesAndValues ...any) Object {
	var o Object
	for i := 0; i < len(namesAndValues); i += 2 {
		o.set(namesAndValues[i].(string), namesAndValues[i+1])
	}
	return o
}

// set adds a member, or replaces that of the name.
func (o *Object) set(name string, value any) {
	switch v := value.(type) {
	case nil:
		return
	case []string:
		if len(v) == 0 {
			return
		}
	case []any:
		if len(v) == 0 {
			return
		}
	}
	if i := o.index(name); i >= 0 {
		(*o)[i].value = value
		return
	}
	*o = append(*o, member{name, value})
}

func (o *Object) index(name string) int {
	return slices.IndexFunc(*o, func(m member) bool { return m.name == name })
}

// MarshalJSON implements [json.Marshaler].
func (o Object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// ref refers to another part of the document.
func ref(path string) Object { return Object{{"$ref", "#/" + path}} }
