// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/goccy/go-yaml/ast"
)

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

// usable reports whether the key of an entry is a word, and not in first yet; else it says so.
func (d *decoder) usable(entry *ast.MappingValueNode, path string, first map[string]mark, valid string) bool {
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
		d.note(join(path, key), at, fmt.Sprintf("is there twice, first in line %d; keep one", before.line))
		return false
	default:
		return true
	}
}

// texts fills v, a map of texts by names that only the reader of the map knows. Numbers, true and false are taken as
// they are written, so that they need no quotes.
func (d *decoder) texts(node ast.Node, path string, v reflect.Value) {
	const valid = "write {} or names with values"
	entries, ok := entriesOf(node)
	if !ok {
		d.add(path, fmt.Sprintf("is %s, not a mapping; %s", describe(node), valid))
		return
	}
	first, texts := map[string]mark{}, map[string]string{}
	for _, entry := range entries {
		if !d.usable(entry, path, first, valid) {
			continue
		}
		key := entry.Key.GetToken().Value
		below := join(path, key)
		first[key] = place(entry)
		d.marks[below] = first[key]
		refused := unsupported(entry.Value)
		text, isText := textOf(entry.Value, true)
		if b, isBool := entry.Value.(*ast.BoolNode); isBool {
			text, isText = strconv.FormatBool(b.Value), true
		}
		switch {
		case refused != "":
			d.add(below, refused)
		case !isText:
			d.add(below, fmt.Sprintf("is %s, not a text; %s", describe(entry.Value), quoteHint(entry.Value)))
		default:
			texts[key] = text
		}
	}
	v.Set(reflect.ValueOf(texts))
}
