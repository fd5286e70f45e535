// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"regexp"
	"strings"
)

// Rule is a line of a table: a key of a mapping.
type Rule struct {
	// Key is the name of the field that it fills, in any case.
	Key  string
	Kind Kind
	// Standard is the value where the file has none; or Required; or, of a mapping that is nil then, Optional.
	Standard string
	// Purpose says in documents why the key exists. Its lines are one paragraph.
	Purpose string
}

// Standards that are no values.
const (
	Required = "required"
	Optional = "optional"
)

// Kind is what a value may be. A field that is zero limits nothing.
type Kind struct {
	Form Form
	// What names it in "is not …", and Write is the advice that follows.
	What, Write string
	// Secret: the value may be a secret that was written instead of its place, so messages do not repeat it.
	Secret bool
	// Empty: the empty text is valid. File: it names a file or a directory.
	Empty, File bool
	Choices     []string
	Pattern     *regexp.Regexp
	// Check returns what is wrong with a text, or ErrNot. One of OtherForm has a Check.
	Check func(text string) error
	Limits
	Listing
	Relations
	// Keys are those of a mapping. If Either is not nil, one of those has to be there.
	Keys   []Rule
	Either []string
	// Names and Values are those of a mapping of texts; nil: it takes any.
	Names, Values *Kind
}

// Form is how YAML writes a value.
type Form int

// The forms. A value of OtherForm reads a text by itself, and one of SizeForm or ShareForm also a number. TextsForm is
// a mapping of any keys to texts.
const (
	TextForm Form = iota
	NumberForm
	SwitchForm
	DurationForm
	SizeForm
	ShareForm
	OtherForm
	ListForm
	MappingForm
	TextsForm
)

// Limits are those of numbers, bytes or nanoseconds.
type Limits struct {
	Min, Max int64
	Zero     bool   // is valid below Min
	Instead  string // of a number below Min
}

// Listing says what a list holds.
type Listing struct {
	Item               *Kind
	NonEmpty, Distinct bool
	Same               func(text string) string // of an item: equal for items of which a list has one
}

// Relations are those to other keys of the mapping.
type Relations struct {
	Aliases  []string // what other tools call the key
	Needed   []string // one of them has to be there, too
	Excluded []string // none of them may be there
	// Only are the values of the key When with which this key may be there.
	When string
	Only []string
}

// ErrNot is for a text of which there is no more to say than what is valid.
var ErrNot = errors.New("")

// Kinds of scalars that need no further rule.
var (
	Text     = Kind{What: "a text", Empty: true}
	Number   = Kind{Form: NumberForm, What: "a whole number", Write: "write one such as 3"}
	Switch   = Kind{Form: SwitchForm, What: "true or false", Write: "write one of them; yes, no, on and off are texts"}
	Duration = Kind{Form: DurationForm, What: "a duration", Write: "write one such as 30s, 1h30m or 7d"}
	Texts    = Kind{Form: TextsForm, What: "a mapping", Write: "write {} or names with values"}
)

// The methods below return a kind with one rule more.

// Also has aliases of the key, for "did you mean".
func (k Kind) Also(aliases ...string) Kind { k.Aliases = aliases; return k }

// Needs one of the keys beside it.
func (k Kind) Needs(keys ...string) Kind { k.Needed = keys; return k }

// Without the keys beside it.
func (k Kind) Without(keys ...string) Kind { k.Excluded = keys; return k }

// OnlyWith some values of another key.
func (k Kind) OnlyWith(key string, values ...string) Kind { k.When, k.Only = key, values; return k }

// AtLeast n.
func (k Kind) AtLeast(n int64) Kind { k.Min = n; return k }

// Between least and most.
func (k Kind) Between(least, most int64) Kind { k.Min, k.Max = least, most; return k }

// OrZero takes 0 also where it is less than the least.
func (k Kind) OrZero() Kind { k.Zero = true; return k }

// Or names for people what to write instead of a number below the least.
func (k Kind) Or(instead string) Kind { k.Instead = instead; return k }

// OrEmpty takes the empty text, too.
func (k Kind) OrEmpty() Kind { k.Empty = true; return k }

// Some items have to be in the list.
func (k Kind) Some() Kind { k.NonEmpty = true; return k }

// Unique items are in the list.
func (k Kind) Unique() Kind { k.Distinct = true; return k }

// SameIn lets a list have one of all items that form makes equal.
func (k Kind) SameIn(form func(string) string) Kind { k.Same = form; return k }

// Hidden values are not repeated in messages.
func (k Kind) Hidden() Kind { k.Secret = true; return k }

// WithEither of the keys in a mapping.
func (k Kind) WithEither(keys ...string) Kind { k.Either = keys; return k }

// TextsOf is a mapping of names to values.
func TextsOf(names, values Kind) Kind {
	k := Texts
	k.Names, k.Values = &names, &values
	return k
}

// Choice is one of some texts.
func Choice(values ...string) Kind {
	return Kind{What: "a choice", Write: "valid: " + strings.Join(values, ", "), Choices: values}
}

// List is a list of items.
func List(item Kind) Kind { return Kind{Form: ListForm, What: "a list", Listing: Listing{Item: &item}} }

// Mapping is a mapping with some keys.
func Mapping(keys []Rule) Kind { return Kind{Form: MappingForm, What: "a mapping", Keys: keys} }

// Matching is a text of a pattern.
func Matching(pattern, what, write string) Kind {
	return Kind{What: what, Write: write, Pattern: regexp.MustCompile(pattern)}
}

// Valid is a text of which valid is true.
func Valid(valid func(string) bool, what, write string) Kind {
	return Checked(func(s string) error {
		if valid(s) {
			return nil
		}
		return ErrNot
	}, what, write)
}

// Checked is a text of which check has no error.
func Checked(check func(string) error, what, write string) Kind {
	return Kind{What: what, Write: write, Check: check}
}
