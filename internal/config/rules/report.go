// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// Report collects what is found in a configuration.
type Report struct {
	Problems, Warnings Problems
}

// Add reports a problem.
func (c *Report) Add(path, format string, args ...any) {
	c.Problems = append(c.Problems, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Once is Add for a path that nothing was found at yet.
func (c *Report) Once(path, format string, args ...any) {
	if !slices.ContainsFunc(c.Problems, func(p Problem) bool { return p.Path == path }) {
		c.Add(path, format, args...)
	}
}

// Warn reports what is allowed and costs something.
func (c *Report) Warn(path, format string, args ...any) {
	c.Warnings = append(c.Warnings, Problem{Path: path, Message: fmt.Sprintf(format, args...)})
}

// Check checks v, a pointer to a struct, by the table alone.
func (c *Report) Check(v any, k *Kind) { Each(v, k, c.value) }

// value checks v by the table alone.
func (c *Report) value(path string, v reflect.Value, k *Kind) {
	switch k.Form {
	case MappingForm:
		for i := range k.Keys {
			c.key(path, v, k, &k.Keys[i])
		}
		if k.Either != nil && !slices.ContainsFunc(k.Either, func(key string) bool { return given(fieldOf(v, key)) }) {
			c.Add(Join(path, k.Either[0]), "is missing or empty, and so is %s; give one of them",
				strings.Join(k.Either[1:], ", "))
		}
	case ListForm:
		if k.NonEmpty && v.Len() == 0 {
			c.Add(path, "none is given; %s", cmp.Or(k.Item.Write, k.valid()))
		}
		seen := map[string]bool{}
		for i := range v.Len() {
			text := fmt.Sprint(v.Index(i).Interface())
			same := text
			if k.Item.Same != nil {
				same = k.Item.Same(text)
			}
			if k.Distinct && seen[same] {
				c.Add(fmt.Sprintf("%s[%d]", path, i), "%q is there twice; keep one", text)
			}
			seen[same] = true
		}
	case TextsForm:
		c.texts(path, v, k)
	case SwitchForm, OtherForm, ShareForm:
	default:
		if wrong := k.wrong(v); wrong != "" {
			c.Once(path, "%s", wrong)
		}
	}
}

// texts checks the names and the values of a mapping of texts.
func (c *Report) texts(path string, v reflect.Value, k *Kind) {
	if k.Names == nil {
		return
	}
	for name, value := range v.Seq2() {
		at := Join(path, name.String())
		if wrong := k.Names.wrong(name); wrong != "" {
			c.Once(at, "%s", wrong)
		}
		if wrong := k.Values.wrong(value); wrong != "" {
			c.Once(at, "%s", wrong)
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
func (c *Report) key(path string, v reflect.Value, k *Kind, r *Rule) {
	at := Join(path, r.Key)
	is := func(key string) bool { return given(fieldOf(v, key)) }
	if !is(r.Key) {
		if r.Standard == Required && r.Kind.Form != ListForm {
			c.Add(at, "is missing; %s", r.Kind.valid())
		}
		return
	}
	excluding, when := slices.IndexFunc(r.Kind.Excluded, is), r.Kind.When
	switch {
	case when != "" && !slices.Contains(r.Kind.Only, fieldOf(v, when).String()) &&
		slices.Contains(find(k.Keys, when).Kind.Choices, fieldOf(v, when).String()):
		c.Add(at, "is not for %s %v, but for %s; remove it", when, fieldOf(v, when), strings.Join(r.Kind.Only, ", "))
	case excluding >= 0:
		c.Add(at, "is there beside %s; keep one", r.Kind.Excluded[excluding])
	case r.Kind.Needed != nil && !slices.ContainsFunc(r.Kind.Needed, is):
		c.Add(at, "needs %s; add it, or remove this", strings.Join(r.Kind.Needed, " or "))
	}
}
