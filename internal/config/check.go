// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// find returns the rule of a key, or nil.
func find(keys []rule, key string) *rule {
	if i := slices.IndexFunc(keys, func(r rule) bool { return r.key == key }); i >= 0 {
		return &keys[i]
	}
	return nil
}

// fieldOf returns the field of v, a struct, that a key fills: it has the key's name, and may be an embedded struct's.
func fieldOf(v reflect.Value, key string) reflect.Value {
	return v.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, key) })
}

// Default returns what an empty file means. It has no pipeline, so it is not valid as it is.
func Default() *Config {
	c := new(Config)
	setDefaults(reflect.ValueOf(c).Elem(), fileKeys)
	return c
}

// setDefaults gives the keys of v, a struct, the values that they have where nothing is written.
func setDefaults(v reflect.Value, keys []rule) {
	for _, r := range keys {
		f := fieldOf(v, r.key)
		switch {
		case r.standard == required, r.standard == optional, r.standard == "[]", r.standard == "{}":
		case r.kind.form == formMapping:
			setDefaults(f, r.kind.keys)
		case r.standard != "":
			if err := set(f, r.standard); err != nil {
				panic("BUG: the default of " + r.key + " is not valid: " + err.Error())
			}
		}
	}
}

// each calls visit for v, a value of kind k at path, and for all that are below it.
func each(v reflect.Value, k *kind, path string, visit func(path string, v reflect.Value, k *kind)) {
	if v.Kind() == reflect.Pointer {
		if v = v.Elem(); !v.IsValid() {
			return
		}
	}
	visit(path, v, k)
	for i := range k.keys {
		r := &k.keys[i]
		each(fieldOf(v, r.key), &r.kind, join(path, r.key), visit)
	}
	if k.item != nil {
		for i := range v.Len() {
			each(v.Index(i), k.item, fmt.Sprintf("%s[%d]", path, i), visit)
		}
	}
}

// Validate reports everything that is wrong with c, as a [Problems] without places, or nil.
func (c *Config) Validate() error {
	found, _ := c.check()
	var all Problems
	for _, i := range found {
		all = append(all, Problem{Path: i.path, Message: i.message})
	}
	if all == nil {
		return nil
	}
	return all
}

// maxPipelines bounds the comparison of each with all others.
const maxPipelines = 200

// check returns what is wrong with c, and what is allowed and costs something.
func (c *Config) check() (issues, warnings []issue) {
	k := &checker{Config: c}
	if len(c.Pipelines) > maxPipelines {
		k.add("pipelines", "has %d, and a process has at most %d; spread them over several", len(c.Pipelines), maxPipelines)
		c.Pipelines = c.Pipelines[:maxPipelines]
	}
	each(reflect.ValueOf(c).Elem(), &whole, "", k.value)
	k.rules()
	return k.issues, k.warnings
}

// checker collects what it finds in a configuration.
type checker struct {
	*Config
	issues, warnings []issue
}

func (c *checker) add(path, format string, args ...any) {
	c.issues = append(c.issues, issue{path: path, message: fmt.Sprintf(format, args...)})
}

// once is add for a path that nothing was found at yet.
func (c *checker) once(path, format string, args ...any) {
	if !slices.ContainsFunc(c.issues, func(i issue) bool { return i.path == path }) {
		c.add(path, format, args...)
	}
}

func (c *checker) warn(path, format string, args ...any) {
	c.warnings = append(c.warnings, issue{path: path, message: fmt.Sprintf(format, args...)})
}

// value checks v by the table alone.
func (c *checker) value(path string, v reflect.Value, k *kind) {
	switch k.form {
	case formMapping:
		for i := range k.keys {
			c.key(path, v, &k.keys[i])
		}
	case formList:
		if k.nonEmpty && v.Len() == 0 {
			c.add(path, "none is given; %s", cmp.Or(k.item.write, k.valid()))
		}
		seen := map[string]bool{}
		for i := range v.Len() {
			text := fmt.Sprint(v.Index(i).Interface())
			same := text
			if k.item.same != nil {
				same = k.item.same(text)
			}
			if k.distinct && seen[same] {
				c.add(fmt.Sprintf("%s[%d]", path, i), "%q is there twice; keep one", text)
			}
			seen[same] = true
		}
	case formTexts, formSwitch, formResource:
	default:
		if wrong := k.wrong(v); wrong != "" {
			c.once(path, "%s", wrong)
		}
	}
}

// given reports whether something is written, as far as v tells.
func given(v reflect.Value) bool {
	if v.Kind() == reflect.Slice {
		return v.Len() > 0
	}
	return !v.IsZero()
}

// key checks whether a key may be, or must be, in the mapping v beside the other keys.
func (c *checker) key(path string, v reflect.Value, r *rule) {
	at := join(path, r.key)
	is := func(key string) bool { return given(fieldOf(v, key)) }
	if !is(r.key) {
		if r.standard == required && r.kind.form != formList {
			c.add(at, "is missing; %s", r.kind.valid())
		}
		return
	}
	m, only := fieldOf(v, "mechanism"), r.kind.only
	excluding := slices.IndexFunc(r.kind.excluded, is)
	switch {
	case only != nil && slices.Contains(mechanisms, m.String()) && !slices.Contains(only, m.String()):
		c.add(at, "is not for mechanism %s, but for %s; remove it", m, strings.Join(only, ", "))
	case excluding >= 0:
		c.add(at, "is there beside %s; keep one", r.kind.excluded[excluding])
	case r.kind.needed != nil && !slices.ContainsFunc(r.kind.needed, is):
		c.add(at, "needs %s; add it, or remove this", strings.Join(r.kind.needed, " or "))
	}
}

// valid says what to write for a value.
func (k *kind) valid() string {
	var keys []string
	for _, r := range k.keys {
		keys = append(keys, r.key)
	}
	switch {
	case k.form == formMapping && keys == nil:
		return "nothing belongs inside, write {}"
	case k.form == formMapping:
		return "valid keys: " + strings.Join(keys, ", ")
	case k.form == formList && k.item.form == formMapping:
		return "write items that begin with -, as in - " + k.item.keys[0].key + ": ..."
	case k.form == formList:
		return "write [a, b] or items that begin with -"
	default:
		return k.write
	}
}

// wrong says what is wrong with a scalar; nothing if it is valid.
func (k *kind) wrong(v reflect.Value) string {
	if v.CanInt() {
		return k.outside(v)
	}
	text := v.String()
	if k.empty && text == "" {
		return ""
	}
	var err error
	switch {
	case k.choices != nil && !slices.Contains(k.choices, text):
		if meant, similar := closest(text, k.choices); similar {
			return fmt.Sprintf("%q is not a choice, did you mean %s?; %s", text, meant, k.write)
		}
		err = errNot
	case k.pattern != nil && !k.pattern.MatchString(text):
		err = errNot
	case k.check != nil:
		err = k.check(text)
	}
	if err != nil {
		return k.message(text, err)
	}
	return ""
}

// outside says that a number is not within the limits; nothing if it is.
func (k *kind) outside(v reflect.Value) string {
	n := v.Int()
	show := func(n int64) string {
		bound := reflect.New(v.Type()).Elem()
		bound.SetInt(n)
		return short(fmt.Sprint(bound))
	}
	switch {
	case k.zero && n == 0 || n >= k.min && (k.max == 0 || n <= k.max):
		return ""
	case k.max > 0:
		return fmt.Sprintf("%d is out of range; write %d to %d", n, k.min, k.max)
	case k.zero:
		return fmt.Sprintf("%s is too little; write at least %s, or %s", show(n), show(k.min), show(0))
	default:
		return fmt.Sprintf("%s is too little; write at least %s", show(n), show(k.min))
	}
}

// short leaves out of a duration what is 0.
func short(duration string) string {
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(duration, zero) {
			duration = duration[:len(duration)-2]
		}
	}
	return duration
}

// message says of a text what is wrong with it.
func (k *kind) message(text string, err error) string {
	switch {
	case !errors.Is(err, errNot):
		return err.Error()
	case k.secret:
		return "is not " + k.what + "; " + k.write
	default:
		return fmt.Sprintf("%q is not %s; %s", text, k.what, k.write)
	}
}
