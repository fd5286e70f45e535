// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding"
	"fmt"
	"reflect"
	"regexp"
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
			d.add(path, notA(node, target))
			return
		}
		err = target.UnmarshalText([]byte(text))
	case *time.Duration:
		text, ok := textOf(node, true)
		if !ok {
			d.add(path, notA(node, target))
			return
		}
		if *target, err = time.ParseDuration(text); err != nil {
			err = fmt.Errorf("%q is not a duration; write %s", text, DurationHint(text))
		}
	}
	if err != nil {
		d.add(path, err.Error())
	}
}

const durationForm = "one as Go does, such as 30s, 5m or 1h30m"

// notA says that node is not what target holds.
func notA(node ast.Node, target any) string {
	what, hint := "text", quoteHint(node)
	switch target.(type) {
	case *Size:
		what, hint = "size", sizeForm
	case *time.Duration:
		what, hint = "duration", "write "+durationForm
	}
	if node.Type() == ast.NullType {
		hint = quoteHint(node)
	}
	return fmt.Sprintf("is %s, not a %s; %s", describe(node), what, hint)
}

var durationLike = regexp.MustCompile(`^([0-9]{1,5}) *([a-zA-Z]*)$`)

// DurationHint says how text, or else any duration, is written.
func DurationHint(text string) string {
	parts := durationLike.FindStringSubmatch(text)
	if parts == nil {
		return durationForm
	}
	n, _ := strconv.Atoi(parts[1])
	switch unit := strings.TrimSuffix(strings.ToLower(parts[2]), "s"); unit {
	case "":
		if strings.ToLower(parts[2]) == "s" {
			return fmt.Sprintf("%ds", n)
		}
		return fmt.Sprintf("%ds, %dm or %dh: a number needs a unit", n, n, n)
	case "sec", "second":
		return fmt.Sprintf("%ds", n)
	case "m", "min", "minute":
		return fmt.Sprintf("%dm", n)
	case "h", "hr", "hour":
		return fmt.Sprintf("%dh", n)
	case "d", "day":
		return fmt.Sprintf("%dh: the longest unit is the hour", n*24)
	case "w", "week":
		return fmt.Sprintf("%dh: the longest unit is the hour", n*7*24)
	default:
		return durationForm
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

func (d *decoder) scalar(node ast.Node, path string, v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		text, ok := textOf(node, false)
		if !ok {
			if chosen, ok := v.Interface().(interface{ choices() choices }); ok && node.Type() != ast.NullType {
				d.add(path, fmt.Sprintf("is %s, not a choice; valid: %s", describe(node), strings.Join(chosen.choices().now, ", ")))
				return
			}
			d.add(path, fmt.Sprintf("is %s, not a text; %s", describe(node), textHint(node, path)))
			return
		}
		if wrong := notMeant(text, path); wrong != "" {
			d.add(path, wrong)
			return
		}
		v.SetString(text)
	case reflect.Bool:
		b, ok := node.(*ast.BoolNode)
		if !ok {
			d.add(path, fmt.Sprintf("is %s; write true or false, as yes, no, on and off are texts", describe(node)))
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

// textHint says what to write instead of node, where a text belongs.
func textHint(node ast.Node, path string) string {
	key := path[strings.LastIndexByte(path, '.')+1:]
	if hint := textForms()[key]; hint != "" && node.Type() == ast.MappingType {
		return hint
	}
	if key == "listen" && node.Type() != ast.NullType {
		return listenForm(path)
	}
	if strings.HasSuffix(path, "]") && node.Type() == ast.NullType {
		return "give a value or remove the item"
	}
	return quoteHint(node)
}

var variablePattern = regexp.MustCompile(`^\$(\{[A-Za-z_][A-Za-z0-9_]*\}|[A-Z_][A-Z0-9_]*)$`)

// notMeant says why a text is hardly what somebody meant; it repeats none, as that may be a secret.
func notMeant(text, path string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) {
		return `holds a control character; within double quotes \ begins an escape, so write single quotes, or / in a path`
	}
	if variablePattern.MatchString(text) && !strings.HasSuffix(path, "Env") { // those hold names of variables, and say how
		return "is the name of an environment variable, and those are not replaced here; write the value, or have the file " +
			"written with it"
	}
	return ""
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
