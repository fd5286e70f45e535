// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// valid says what to write for a value.
func (k *Kind) valid() string {
	var keys []string
	for _, r := range k.Keys {
		keys = append(keys, r.Key)
	}
	switch {
	case k.Form == MappingForm && keys == nil:
		return "nothing belongs inside, write {}"
	case k.Form == MappingForm:
		return "valid keys: " + strings.Join(keys, ", ")
	case k.Form == ListForm && k.Item.Form == MappingForm:
		return "write items that begin with -, as in - " + k.Item.Keys[0].Key + ": ..."
	case k.Form == ListForm:
		return "write [a, b] or items that begin with -"
	default:
		return k.Write
	}
}

// wrong says what is wrong with a scalar; nothing if it is valid.
func (k *Kind) wrong(v reflect.Value) string {
	if v.CanInt() {
		return k.outside(v)
	}
	text := v.String()
	if k.Empty && text == "" {
		return ""
	}
	var err error
	switch {
	case k.Choices != nil && !slices.Contains(k.Choices, text):
		if meant, similar := Closest(text, k.Choices); similar {
			return fmt.Sprintf("%q is not a choice, did you mean %s?; %s", text, meant, k.Write)
		}
		err = ErrNot
	case k.Pattern != nil && !k.Pattern.MatchString(text):
		err = ErrNot
	case k.Check != nil:
		err = k.Check(text)
	}
	if err != nil {
		return k.message(text, err)
	}
	return ""
}

// outside says that a number is not within the limits; nothing if it is.
func (k *Kind) outside(v reflect.Value) string {
	n := v.Int()
	show := func(n int64) string {
		bound := reflect.New(v.Type()).Elem()
		bound.SetInt(n)
		return short(fmt.Sprint(bound))
	}
	switch {
	case k.Zero && n == 0 || n >= k.Min && (k.Max == 0 || n <= k.Max):
		return ""
	case k.Max > 0:
		return fmt.Sprintf("%d is out of range; write %d to %d", n, k.Min, k.Max)
	case k.Zero:
		return fmt.Sprintf("%s is too little; write at least %s, or %s", show(n), show(k.Min), show(0))
	case k.Instead != "":
		return fmt.Sprintf("%s is too little; write at least %s, or %s", show(n), show(k.Min), k.Instead)
	default:
		return fmt.Sprintf("%s is too little; write at least %s", show(n), show(k.Min))
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
func (k *Kind) message(text string, err error) string {
	switch {
	case !errors.Is(err, ErrNot):
		return err.Error()
	case k.Secret:
		return "is not " + k.What + "; " + k.Write
	default:
		return fmt.Sprintf("%q is not %s; %s", text, k.What, k.Write)
	}
}
