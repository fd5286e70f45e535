// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"bytes"
	"reflect"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/kube-eventbridge/kube-eventbridge/encode/jsonscan"
)

// meter bounds how many bytes one evaluation goes through. CEL's own cost does not: it takes a look into an object for
// cheap, however large that is, and an expression may look once for each element of a list.
type meter struct{ left int }

// passes is how often an evaluation may go through an object, on the whole, and allowance what it may besides in bytes:
// small objects are cheap.
const (
	passes    = 64
	allowance = 4 << 20
	// listCost is how much more a byte costs that becomes a part of a list or a map.
	listCost = 8
)

func newMeter(object []byte) *meter { return &meter{passes*len(object) + allowance} }

// add allows as many passes through another object.
func (m *meter) add(object []byte) { m.left += passes * len(object) }

// errTooMuch is the value of what is beyond the meter.
var errTooMuch = types.NewErr("actual cost limit exceeded")

// read reports whether n bytes more may be gone through.
func (m *meter) read(n int) bool {
	m.left -= n
	return m.left >= 0
}

// valueOf returns what a JSON value is in an expression: whole numbers are ints, others doubles.
func (m *meter) valueOf(b []byte) ref.Val {
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return types.NullValue
	}
	switch b[0] {
	case '{':
		return &object{json: b, meter: m}
	case '[':
		if !m.read(listCost * len(b)) {
			return errTooMuch
		}
		var all []ref.Val
		for v := range jsonscan.Elements(b) {
			all = append(all, m.valueOf(v))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, all)
	case '"':
		return types.String(text(b))
	case 't', 'f':
		return types.Bool(b[0] == 't')
	case 'n':
		return types.NullValue
	default:
		return number(string(b))
	}
}

func text(quoted []byte) string {
	s, err := jsontext.AppendUnquote(nil, quoted)
	if err != nil {
		return ""
	}
	return string(s)
}

func number(s string) ref.Val {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return types.Int(n)
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return types.NewErr("no such number")
	}
	return types.Double(n)
}

// object is a JSON object of which only those members are decoded that are asked for. Of members that repeat the last
// counts, as for encoding/json.
type object struct {
	json  []byte
	meter *meter
	all   traits.Mapper
	// lists are those that were asked for: an expression may ask once for each element of another.
	lists map[string]ref.Val
}

// whole decodes the names of all members, for what needs more than one; false where that is too much.
func (o *object) whole() (traits.Mapper, bool) {
	if o.all == nil && !o.meter.read(listCost*len(o.json)) {
		return nil, false
	}
	if o.all == nil {
		all := map[ref.Val]ref.Val{}
		for name, value := range jsonscan.Members(o.json) {
			all[types.String(text(name))] = o.meter.valueOf(value)
		}
		o.all = types.NewRefValMap(types.DefaultTypeAdapter, all)
	}
	return o.all, true
}

// Find implements traits.Mapper.
func (o *object) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return nil, false // names are texts
	}
	if list := o.lists[string(name)]; list != nil {
		return list, true
	}
	if !o.meter.read(len(o.json)) {
		return errTooMuch, true
	}
	var last []byte
	for n, value := range jsonscan.Members(o.json) {
		same := string(n[1:len(n)-1]) == string(name)
		if same || bytes.IndexByte(n, '\\') >= 0 && text(n) == string(name) {
			last = value
		}
	}
	if last == nil {
		return nil, false
	}
	return o.remember(string(name), o.meter.valueOf(last)), true
}

func (o *object) remember(name string, v ref.Val) ref.Val {
	if _, list := v.(traits.Lister); list {
		if o.lists == nil {
			o.lists = map[string]ref.Val{}
		}
		o.lists[name] = v
	}
	return v
}

// Get implements traits.Indexer.
func (o *object) Get(key ref.Val) ref.Val {
	if v, found := o.Find(key); found {
		return v
	}
	return types.ValOrErr(key, "no such key")
}

// Contains implements traits.Container.
func (o *object) Contains(key ref.Val) ref.Val {
	_, found := o.Find(key)
	return types.Bool(found)
}

// Iterator implements traits.Iterable.
func (o *object) Iterator() traits.Iterator {
	if m, ok := o.whole(); ok {
		return m.Iterator()
	}
	return types.NewRefValMap(types.DefaultTypeAdapter, map[ref.Val]ref.Val{errTooMuch: errTooMuch}).Iterator()
}

// Size implements traits.Sizer.
func (o *object) Size() ref.Val {
	if m, ok := o.whole(); ok {
		return m.Size()
	}
	return errTooMuch
}

// Equal implements ref.Val.
func (o *object) Equal(other ref.Val) ref.Val {
	if m, ok := o.whole(); ok {
		return m.Equal(other)
	}
	return errTooMuch
}

// ConvertToNative implements ref.Val.
func (o *object) ConvertToNative(t reflect.Type) (any, error) {
	if m, ok := o.whole(); ok {
		return m.ConvertToNative(t)
	}
	return nil, errEvaluation
}

// ConvertToType implements ref.Val.
func (o *object) ConvertToType(t ref.Type) ref.Val {
	if t == types.MapType {
		return o
	}
	if m, ok := o.whole(); ok {
		return m.ConvertToType(t)
	}
	return errTooMuch
}

// Type implements ref.Val.
func (o *object) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (o *object) Value() any {
	if m, ok := o.whole(); ok {
		return m.Value()
	}
	return errTooMuch
}
