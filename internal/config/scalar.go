// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// text fills what is written as a text with a meaning of its own, or as a number: sizes, durations, names.
func (d *decoder) text(node ast.Node, path string, v reflect.Value) {
	var err error
	switch target := v.Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		text, ok := textOf(node, v.Kind() != reflect.Struct)
		if !ok {
			d.add(path, fmt.Sprintf("is %s, not a text; %s", describe(node), quoteHint(node)))
			return
		}
		err = target.UnmarshalText([]byte(text))
	case *time.Duration:
		text, _ := textOf(node, true)
		if *target, err = time.ParseDuration(text); err != nil {
			err = fmt.Errorf("%q is not a duration; write %s", text, durationHint(text))
		}
	}
	if err != nil {
		d.add(path, err.Error())
	}
}

// durationHint says how text, or else any duration, is written.
func durationHint(text string) string {
	for unit, hours := range map[string]int{"d": 24, "w": 7 * 24} {
		number, found := strings.CutSuffix(text, unit)
		if n, err := strconv.ParseUint(number, 10, 16); found && err == nil {
			return fmt.Sprintf("%dh: the longest unit is the hour", n*uint64(hours))
		}
	}
	return "one as Go does, such as 30s, 5m or 1h30m"
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

func (d *decoder) scalar(node ast.Node, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		text, ok := textOf(node, false)
		if !ok {
			d.add(path, fmt.Sprintf("is %s, not a text; %s", describe(node), quoteHint(node)))
			return
		}
		v.SetString(text)
	case reflect.Bool:
		b, ok := node.(*ast.BoolNode)
		if !ok {
			d.add(path, fmt.Sprintf("is %s; write true or false", describe(node)))
			return
		}
		v.SetBool(b.Value)
	case reflect.Int:
		text, _ := textOf(node, true)
		n, err := strconv.Atoi(text)
		if err != nil {
			d.add(path, fmt.Sprintf("is %s; write a whole number", describe(node)))
			return
		}
		v.SetInt(int64(n))
	default:
		panic(fmt.Sprintf("BUG: no decoding of %v", v.Type()))
	}
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

func quoteHint(node ast.Node) string {
	switch node.(type) {
	case *ast.NullNode:
		return "give a value or remove the key"
	case *ast.MappingNode, *ast.MappingValueNode, *ast.SequenceNode:
		return "write one value"
	default:
		return "put it in quotes"
	}
}
