// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// find returns the rule of a key, or nil.
func find(keys []Rule, key string) *Rule {
	if i := slices.IndexFunc(keys, func(r Rule) bool { return r.Key == key }); i >= 0 {
		return &keys[i]
	}
	return nil
}

// fieldOf returns the field of v, a struct, that a key fills: it has the key's name, and may be an embedded struct's.
func fieldOf(v reflect.Value, key string) reflect.Value {
	return v.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, key) })
}

// SetDefaults gives the keys of v, a pointer to a struct, the values that they have where nothing is written.
func SetDefaults(v any, keys []Rule) { setDefaults(reflect.ValueOf(v).Elem(), keys) }

// setDefaults gives the keys of v, a struct, the values that they have where nothing is written.
func setDefaults(v reflect.Value, keys []Rule) {
	for _, r := range keys {
		f := fieldOf(v, r.Key)
		switch {
		case r.Standard == Required, r.Standard == Optional, r.Standard == "[]", r.Standard == "{}":
		case r.Kind.Form == MappingForm:
			setDefaults(f, r.Kind.Keys)
		case r.Standard != "":
			if err := set(f, r.Standard); err != nil {
				panic("BUG: the default of " + r.Key + " is not valid: " + err.Error())
			}
		}
	}
}

// Each calls visit for v, a pointer to a value of kind k, and for all that are below it.
func Each(v any, k *Kind, visit func(path string, v reflect.Value, k *Kind)) {
	each(reflect.ValueOf(v), k, "", visit)
}

func each(v reflect.Value, k *Kind, path string, visit func(path string, v reflect.Value, k *Kind)) {
	if v.Kind() == reflect.Pointer {
		if v = v.Elem(); !v.IsValid() {
			return
		}
	}
	visit(path, v, k)
	for i := range k.Keys {
		r := &k.Keys[i]
		each(fieldOf(v, r.Key), &r.Kind, Join(path, r.Key), visit)
	}
	if k.Item != nil {
		for i := range v.Len() {
			each(v.Index(i), k.Item, fmt.Sprintf("%s[%d]", path, i), visit)
		}
	}
}

// Differences returns the paths of the keys whose values differ in two structs, to which a and b point.
func Differences(a, b any, keys []Rule) []string {
	return differences("", reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), keys)
}

func differences(path string, a, b reflect.Value, keys []Rule) (paths []string) {
	for i := range keys {
		r, x, y := &keys[i], fieldOf(a, keys[i].Key), fieldOf(b, keys[i].Key)
		at := Join(path, r.Key)
		switch {
		case reflect.DeepEqual(x.Interface(), y.Interface()):
		case r.Kind.Form != MappingForm, x.Kind() == reflect.Pointer && (x.IsNil() || y.IsNil()):
			paths = append(paths, at)
		default:
			paths = append(paths, differences(at, reflect.Indirect(x), reflect.Indirect(y), r.Kind.Keys)...)
		}
	}
	return paths
}
