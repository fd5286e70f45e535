// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"encoding"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
)

// mark is a place in the file, from 1.
type mark struct{ line, column int }

// issue is a problem whose place is that of its path, unless at says otherwise.
type issue struct {
	path, message string
	at            mark
}

// decoder fills a struct from YAML, remembers where each path was, and goes on after a problem.
type decoder struct {
	marks map[string]mark
	// bad are the paths that a problem was found at.
	bad    map[string]bool
	issues []issue
}

func (d *decoder) add(path, message string) { d.addAt(path, mark{}, message) }

func (d *decoder) addAt(path string, at mark, message string) {
	d.bad[path] = true
	d.note(path, at, message)
}

// note is addAt for what does not spoil the value of path.
func (d *decoder) note(path string, at mark, message string) {
	d.issues = append(d.issues, issue{path, message, at})
}

// decode fills target, a pointer to a struct, with node, which must be a mapping.
func (d *decoder) decode(node ast.Node, target any) {
	d.value(node, "", reflect.ValueOf(target).Elem())
}

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

// value fills v. A mapping of which nothing is written keeps its defaults; any other value must be given.
func (d *decoder) value(node ast.Node, path string, v reflect.Value) {
	if _, marked := d.marks[path]; !marked {
		d.marks[path] = place(node)
	}
	if refused := unsupported(node); refused != "" {
		d.addAt(path, place(node), refused)
		return
	}
	if v.Kind() == reflect.Pointer {
		v.Set(reflect.New(v.Type().Elem()))
		setDefaults(v)
		v = v.Elem()
	}
	switch {
	case isText(v.Type()):
		d.text(node, path, v)
	case v.Kind() == reflect.Struct:
		d.mapping(node, path, v)
	case v.Kind() == reflect.Slice:
		d.list(node, path, v)
	case v.Kind() == reflect.Map:
		d.texts(node, path, v)
	default:
		d.scalar(node, path, v)
	}
}

// unsupported refuses what would make one place in the file the value of another.
func unsupported(node ast.Node) string {
	switch node.Type() {
	case ast.AliasType:
		if name := node.(*ast.AliasNode).Value; name != nil && strings.ContainsAny(name.GetToken().Value, ".*/:") {
			return quoteAlias
		}
		fallthrough
	case ast.AnchorType, ast.MergeKeyType:
		return "anchors, aliases and merge keys are not supported; write the value out"
	case ast.TagType:
		return "tags are not supported; write the value without one, and in quotes if it begins with !"
	case ast.StringType:
		if first, _ := utf8.DecodeRuneInString(node.(*ast.StringNode).Value); strings.ContainsRune("“”„‘’‚", first) &&
			first != utf8.RuneError {
			return `begins with a typographic quote, which is a part of the text; write " or ', or none`
		}
		return ""
	default:
		return ""
	}
}

func setDefaults(pointer reflect.Value) {
	if t, ok := pointer.Interface().(defaulter); ok {
		t.setDefaults()
	}
}

func (d *decoder) mapping(node ast.Node, path string, v reflect.Value) {
	entries, ok := entriesOf(node)
	if !ok {
		d.add(path, fmt.Sprintf("is %s, not a mapping; %s", describe(node),
			cmp.Or(keyHint(node, path, v), mappingHint(node, v.Type()))))
		return
	}
	first, valid := map[string]mark{}, validKeys(v.Type())
	misspelt := map[string]ast.Node{}
	for _, entry := range entries {
		key, at := entry.Key.GetToken().Value, place(entry)
		below := join(path, key)
		field := fieldOf(v, key)
		switch {
		case !d.usable(entry, path, first, valid):
		case !field.IsValid():
			if meant := d.unknown(below, at, key, v); meant != "" {
				misspelt[meant] = entry.Value
			}
		default:
			first[key] = at
			if isScalar(entry.Value) {
				at = place(entry.Value)
			}
			d.marks[below] = at
			d.value(entry.Value, below, field)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(misspelt)) {
		if _, there := first[key]; !there {
			d.asMeant(misspelt[key], join(path, key), fieldOf(v, key))
		}
	}
}

// asMeant reads what is below a key that is misspelt, so that its problems are told as well. A value without keys is
// not reported as missing.
func (d *decoder) asMeant(node ast.Node, path string, field reflect.Value) {
	kind := field.Kind()
	if kind == reflect.Pointer {
		kind = field.Type().Elem().Kind()
	}
	_, mapping := entriesOf(node)
	_, list := node.(*ast.SequenceNode)
	if mapping && kind == reflect.Struct || list && kind == reflect.Slice {
		d.value(node, path, field)
		return
	}
	d.bad[path] = true
}

func isScalar(node ast.Node) bool {
	_, scalar := node.(ast.ScalarNode)
	return scalar && node.Type() != ast.NullType
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// unknown says why key, whose path is below, is refused, and returns what was probably meant, if anything.
func (d *decoder) unknown(below string, at mark, key string, v reflect.Value) (meant string) {
	valid := keys(v.Type())
	if why := refusedKeys(v.Type())[key]; why != "" {
		d.addAt(below, at, strings.ReplaceAll(why, "{keys}", strings.Join(valid, ", ")))
		return ""
	}
	message := "is not a key here"
	like, similar := closest(key, valid)
	switch of := elsewhere(key, reflect.TypeFor[Config](), ""); {
	case strings.HasPrefix(key, "//") || strings.HasPrefix(key, "/*"):
		d.addAt(below, at, "is not a key; a comment begins with #")
		return ""
	case similar && (len(of) == 0 || strings.EqualFold(like, key)):
		message += fmt.Sprintf(", did you mean %s?", like)
		meant = like
	case 0 < len(of) && len(of) <= maxElsewhere:
		message += ", but in " + strings.Join(of, " and in ")
	}
	d.addAt(below, at, message+"; "+validKeys(v.Type()))
	return meant
}

// maxElsewhere is in how many places a key may be for them to be named.
const maxElsewhere = 3

// elsewhere returns the paths of all mappings of t, which is at path, that have the key.
func elsewhere(key string, t reflect.Type, path string) (of []string) {
	switch t.Kind() {
	case reflect.Pointer:
		return elsewhere(key, t.Elem(), path)
	case reflect.Slice:
		return elsewhere(key, t.Elem(), path+"[]")
	case reflect.Struct:
	default:
		return nil
	}
	for f := range t.Fields() {
		name := f.Tag.Get("yaml")
		switch {
		case f.Anonymous:
			of = append(of, elsewhere(key, f.Type, path)...)
			continue
		case name == key && path == "":
			of = append(of, "the file itself")
		case name == key:
			of = append(of, path)
		}
		of = append(of, elsewhere(key, f.Type, join(path, name))...)
	}
	return of
}

func (d *decoder) list(node ast.Node, path string, v reflect.Value) {
	n, ok := node.(*ast.SequenceNode)
	if !ok {
		d.add(path, fmt.Sprintf("is %s, not a list; %s", describe(node), listHint(node, v.Type().Elem())))
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(n.Values), len(n.Values)))
	for i, item := range n.Values {
		setDefaults(v.Index(i).Addr())
		d.value(item, fmt.Sprintf("%s[%d]", path, i), v.Index(i))
	}
}

// listHint says what to write instead of node, where a list of items of type t belongs.
func listHint(node ast.Node, t reflect.Type) string {
	switch {
	case t.Kind() != reflect.Struct || isText(t):
		return "write [a, b] or items that begin with -"
	case node.Type() == ast.MappingType || node.Type() == ast.MappingValueType:
		return "begin each item with -, as in - " + keys(t)[0] + ": ..."
	case t == reflect.TypeFor[Resource]():
		return mappingHint(node, t)
	default:
		return "write items that begin with -, as in - " + keys(t)[0] + ": ..."
	}
}

// isText reports whether a value of type t is written as one text.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) ||
		t == reflect.TypeFor[time.Duration]()
}

// keys returns the keys of a struct type, in their order.
func keys(t reflect.Type) []string {
	var all []string
	for f := range t.Fields() {
		if f.Anonymous {
			all = append(all, keys(f.Type)...)
			continue
		}
		all = append(all, f.Tag.Get("yaml"))
	}
	return all
}

// validKeys says which keys a struct type has.
func validKeys(t reflect.Type) string {
	valid := keys(t)
	if len(valid) == 0 {
		return "nothing belongs inside, write {}"
	}
	return "valid keys: " + strings.Join(valid, ", ")
}

// mappingHint says what to write instead of node, where a mapping for t belongs. It repeats node only where that is the
// name of a resource.
func mappingHint(node ast.Node, t reflect.Type) string {
	if t == reflect.TypeFor[Resource]() {
		text, _ := textOf(node, false)
		if new(ResourceName).UnmarshalText([]byte(text)) == nil {
			return "write - resource: " + text
		}
	}
	return validKeys(t)
}

// keyHint says what to write instead of node, where that is the name of a mapping that belongs into v; else nothing.
func keyHint(node ast.Node, path string, v reflect.Value) string {
	text, _ := textOf(node, false)
	if f := fieldOf(v, text); !f.IsValid() || f.Kind() != reflect.Pointer || f.Type().Elem().Kind() != reflect.Struct {
		return ""
	}
	return fmt.Sprintf("write %s: {%s: {}}", path[strings.LastIndexByte(path, '.')+1:], text)
}

// fieldOf returns the field of v that key fills, or the zero Value.
func fieldOf(v reflect.Value, key string) reflect.Value {
	for f := range v.Type().Fields() {
		switch {
		case f.Anonymous:
			if inner := fieldOf(v.FieldByIndex(f.Index), key); inner.IsValid() {
				return inner
			}
		case f.Tag.Get("yaml") == key:
			return v.FieldByIndex(f.Index)
		}
	}
	return reflect.Value{}
}

// refuser is implemented by types that say of some keys why they are refused.
type refuser interface{ refused() map[string]string }

func refusedKeys(t reflect.Type) map[string]string {
	if r, ok := reflect.Zero(t).Interface().(refuser); ok {
		return r.refused()
	}
	return nil
}
