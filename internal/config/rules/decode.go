// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// place returns where a person sees node begin.
func place(node ast.Node) mark {
	t := node.GetToken()
	switch n := node.(type) {
	case *ast.MappingNode:
		if len(n.Values) > 0 && !n.IsFlowStyle {
			t = n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		t = n.Key.GetToken()
	}
	if t == nil || t.Position == nil {
		return mark{}
	}
	return mark{t.Position.Line, t.Position.Column}
}

// value fills v, a value of kind k. A mapping of which nothing is written keeps its defaults; any other value must be
// given.
func (d *Document) value(node ast.Node, path string, v reflect.Value, k *Kind) {
	if _, marked := d.marks[path]; !marked {
		d.marks[path] = place(node)
	}
	if refused := unsupported(node); refused != "" {
		d.addAt(path, place(node), refused)
		return
	}
	switch k.Form {
	case MappingForm:
		if v.Kind() == reflect.Pointer {
			v.Set(reflect.New(v.Type().Elem()))
			v = v.Elem()
		}
		setDefaults(v, k.Keys)
		d.mapping(node, path, v, k)
	case ListForm:
		n, ok := node.(*ast.SequenceNode)
		if !ok {
			d.not(node, path, k)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), len(n.Values), len(n.Values)))
		for i, item := range n.Values {
			d.value(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i), k.Item)
		}
	case TextsForm:
		d.texts(node, path, v, k)
	default:
		d.scalar(node, path, v, k)
	}
}

// unsupported refuses what would make one place in the file the value of another.
func unsupported(node ast.Node) string {
	switch node.Type() {
	case ast.AliasType, ast.AnchorType, ast.MergeKeyType:
		return "anchors, aliases and merge keys are not supported; write the value out, in quotes if it begins with *"
	case ast.TagType:
		return "tags are not supported; write the value without one, and in quotes if it begins with !"
	default:
		return ""
	}
}

// entriesOf returns what a mapping holds; ok is false where node is none. Nothing written is a mapping without entries.
func entriesOf(node ast.Node) (entries []*ast.MappingValueNode, ok bool) {
	switch n := node.(type) {
	case *ast.NullNode:
		return nil, true
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	default:
		return nil, false
	}
}

func (d *Document) mapping(node ast.Node, path string, v reflect.Value, k *Kind) {
	entries, ok := entriesOf(node)
	if !ok {
		d.not(node, path, k)
		return
	}
	first, misspelt := map[string]mark{}, map[string]ast.Node{}
	for _, entry := range entries {
		key, at := entry.Key.GetToken().Value, place(entry)
		if !d.usable(entry, path, first, k.valid()) {
			continue
		}
		r := find(k.Keys, key)
		if r == nil {
			if meant := d.unknown(Join(path, key), at, key, k); meant != "" {
				misspelt[meant] = entry.Value
			}
			continue
		}
		first[key] = at
		if _, scalar := entry.Value.(ast.ScalarNode); scalar && entry.Value.Type() != ast.NullType {
			at = place(entry.Value)
		}
		d.marks[Join(path, key)] = at
		d.value(entry.Value, Join(path, key), fieldOf(v, key), &r.Kind)
	}
	for _, key := range slices.Sorted(maps.Keys(misspelt)) {
		if _, there := first[key]; !there {
			d.asMeant(misspelt[key], Join(path, key), fieldOf(v, key), &find(k.Keys, key).Kind)
		}
	}
}

// usable reports whether the key of an entry is a word, and not in first yet; else it says so.
func (d *Document) usable(entry *ast.MappingValueNode, path string, first map[string]mark, valid string) bool {
	key, at := entry.Key.GetToken().Value, place(entry)
	before, again := first[key]
	switch {
	case entry.Key.Type() != ast.StringType:
		refused := unsupported(entry.Key)
		if refused == "" {
			refused = fmt.Sprintf("the key %q is not a plain word; %s", key, valid)
		}
		d.note(path, at, refused)
		return false
	case again:
		d.note(Join(path, key), at, fmt.Sprintf("is there twice, first in line %d; keep one", before.line))
		return false
	default:
		return true
	}
}

// unknown refuses key, whose path is below, and returns what was probably meant, if anything.
func (d *Document) unknown(below string, at mark, key string, k *Kind) (meant string) {
	var names, secrets []string
	for _, r := range k.Keys {
		names = append(names, r.Key)
		if r.Key == key+"File" || r.Key == key+"Env" {
			secrets = append(secrets, r.Key)
		}
		if slices.Contains(r.Kind.Aliases, key) {
			meant = r.Key
		}
	}
	like, similar := Closest(key, names)
	of := elsewhere(key, d.whole.Keys, "")
	message := "is not a key here"
	switch {
	case len(secrets) > 0:
		d.addAt(below, at, "is not a key here, as a secret never stands in this file; use "+strings.Join(secrets, " or "))
		return ""
	case meant != "":
	case similar && (len(of) == 0 || strings.EqualFold(like, key)):
		meant = like
	case 0 < len(of) && len(of) <= maxElsewhere:
		message += ", but in " + strings.Join(of, " and in ")
	}
	if meant != "" {
		message += fmt.Sprintf(", did you mean %s?", meant)
	}
	d.addAt(below, at, message+"; "+k.valid())
	return meant
}

// maxElsewhere is in how many places a key may be for them to be named.
const maxElsewhere = 3

// elsewhere returns the paths of all mappings that have the key, of keys and below them; path is that of keys.
func elsewhere(key string, keys []Rule, path string) (of []string) {
	for _, r := range keys {
		below := Join(path, r.Key)
		if r.Key == key {
			of = append(of, path)
		}
		k := &r.Kind
		if k.Form == ListForm {
			k, below = k.Item, below+"[]"
		}
		of = append(of, elsewhere(key, k.Keys, below)...)
	}
	return of
}

// asMeant reads what is at or below a key that is misspelt, so that its problems are told as well, and no rule misses
// it. Problems of a value without keys are not told.
func (d *Document) asMeant(node ast.Node, path string, v reflect.Value, k *Kind) {
	_, mapping := entriesOf(node)
	_, list := node.(*ast.SequenceNode)
	if mapping && k.Form == MappingForm || list && k.Form == ListForm {
		d.value(node, path, v, k)
		return
	}
	d.bad[path] = true
	if text, ok := textOf(node, true); ok && k.Form < ListForm {
		_ = set(v, text)
	}
}

// texts fills v, a map of texts by names that only the reader of the map knows. Numbers, true and false are taken as
// they are written, so that they need no quotes.
func (d *Document) texts(node ast.Node, path string, v reflect.Value, k *Kind) {
	entries, ok := entriesOf(node)
	if !ok {
		d.not(node, path, k)
		return
	}
	first, texts := map[string]mark{}, map[string]string{}
	for _, entry := range entries {
		if !d.usable(entry, path, first, k.Write) {
			continue
		}
		key := entry.Key.GetToken().Value
		below := Join(path, key)
		first[key] = place(entry)
		d.marks[below] = first[key]
		text, isText := textOf(entry.Value, true)
		if b, isBool := entry.Value.(*ast.BoolNode); isBool {
			text, isText = strconv.FormatBool(b.Value), true
		}
		switch refused := unsupported(entry.Value); {
		case refused != "":
			d.add(below, refused)
		case !isText:
			d.not(entry.Value, below, &Text)
		default:
			texts[key] = text
		}
	}
	v.Set(reflect.ValueOf(texts))
}

var variablePattern = regexp.MustCompile(`^\$(\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Z_][A-Z0-9_]*)$`)

// numeric are the forms whose values may be numbers in YAML.
var numeric = []Form{NumberForm, DurationForm, SizeForm, ShareForm}

func (d *Document) scalar(node ast.Node, path string, v reflect.Value, k *Kind) {
	text, ok := textOf(node, slices.Contains(numeric, k.Form))
	if b, isBool := node.(*ast.BoolNode); k.Form == SwitchForm {
		text, ok = strconv.FormatBool(isBool && b.Value), isBool
	}
	switch control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }; {
	case !ok:
		d.not(node, path, k)
	case strings.ContainsFunc(text, control):
		d.add(path, `holds a control character; within double quotes \ begins an escape, so write single quotes`)
	case (!k.Secret || k.Pattern == nil) && variablePattern.MatchString(text): // not repeated, it may be a secret
		d.add(path, "is the name of an environment variable, and those are not replaced here; "+
			"write the value, or have the file written with it")
	default:
		if err := set(v, text); err != nil {
			d.add(path, k.message(text, err))
		}
	}
}

// textOf returns the text that node is; with numbers also that of a number.
func textOf(node ast.Node, numbers bool) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode:
		return node.GetToken().Value, numbers
	default:
		return "", false
	}
}

// longUnits are what Go's durations do not have; a fraction of one is not taken.
var longUnits = regexp.MustCompile(`\.?[0-9]+[dw]`)

// ParseDuration reads a duration as Go writes it, also with whole days and weeks: 30s, 1h30m, 7d, 2w.
func ParseDuration(text string) (time.Duration, error) {
	return time.ParseDuration(longUnits.ReplaceAllStringFunc(text, func(part string) string {
		last := len(part) - 1
		n, err := strconv.ParseUint(part[:last], 10, 16)
		if err != nil {
			return part // which is refused
		}
		return strconv.FormatUint(n*map[byte]uint64{'d': 24, 'w': 7 * 24}[part[last]], 10) + "h"
	}))
}

// set gives v, a scalar or a list of scalars, the value that is written as text: a list as [a, b].
func set(v reflect.Value, text string) (err error) {
	switch target := v.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return target.UnmarshalText([]byte(text))
	case *time.Duration:
		if *target, err = ParseDuration(text); err != nil {
			return ErrNot
		}
		return nil
	}
	switch v.Kind() {
	case reflect.Slice:
		items := strings.Split(strings.Trim(text, "[]"), ", ")
		v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
		for i, item := range items {
			err = cmp.Or(err, set(v.Index(i), item))
		}
	case reflect.Bool:
		v.SetBool(text == "true")
	case reflect.Int:
		n, atoiErr := strconv.Atoi(text)
		if v.SetInt(int64(n)); atoiErr != nil {
			return ErrNot
		}
	default:
		v.SetString(text)
	}
	return err
}

// not says that node is not of kind k.
func (d *Document) not(node ast.Node, path string, k *Kind) {
	_, scalar := node.(ast.ScalarNode)
	token, write := node.GetToken(), k.valid()
	switch {
	case k.Form == MappingForm: // a text is repeated only where it cannot be a secret
		text, _ := textOf(node, false)
		if r := find(k.Keys, text); r != nil && r.Kind.Form == MappingForm {
			write = fmt.Sprintf("write %s: {%s: {}}", path[strings.LastIndexByte(path, '.')+1:], text)
		} else if len(k.Keys) > 0 && k.Keys[0].Kind.Form == OtherForm && k.Keys[0].Kind.Check(text) == nil {
			write = "write - " + k.Keys[0].Key + ": " + text
		}
	case k.Form == ListForm:
	case node.Type() == ast.NullType:
		write = "give a value, or remove it"
	case scalar && (write == "" || k.Pattern != nil && token != nil && k.Pattern.MatchString(token.Value)):
		write = "put it in quotes"
	case write == "":
		write = "write one value"
	}
	d.add(path, fmt.Sprintf("is %s, not %s; %s", describe(node), k.What, write))
}

// describe names what node is, for "is …, not …". It shows numbers and words that YAML reads as something else, never a
// text: that may be a secret.
func describe(node ast.Node) string {
	switch node.(type) {
	case *ast.NullNode:
		return "nothing"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		return "the number " + node.GetToken().Value
	case *ast.BoolNode:
		return node.GetToken().Value
	default:
		return "a text"
	}
}
