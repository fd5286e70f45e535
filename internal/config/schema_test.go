// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	schemaFile = "../../config.schema.json"
	// chartFile has the schema of the file as the last of its definitions, since Helm reads no other file.
	chartFile = "../../deploy/chart/kube-eventbridge/values.schema.json"
)

// The schemas in the repository are what these types say; go test ./internal/config -run Schema -update writes them.
func TestSchema_is_up_to_date(t *testing.T) {
	docs := exampleComments(t)
	s := schema{docs: docs, used: map[string]bool{}}
	whole := s.of(reflect.ValueOf(*Default()), "")
	whole["$schema"] = "http://json-schema.org/draft-07/schema#" // the one that editors know
	whole["title"] = "kube-eventbridge"
	for path := range rules {
		assert.True(t, s.used[path], "a rule is about %s, which is no key", path)
	}
	compare(t, schemaFile, indented(t, "", whole))
	delete(whole, "$schema")
	delete(whole, "title")
	const last = "\n    \"config\": "
	chart := string(read(t, chartFile))
	compare(t, chartFile, chart[:strings.LastIndex(chart, last)]+last+indented(t, "    ", whole)+"  }\n}\n")
}

// indented is JSON of which the lines after the first begin with a prefix.
func indented(t *testing.T, prefix string, v any) string {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent(prefix, "  ")
	require.NoError(t, e.Encode(v))
	return b.String()
}

// compare wants a file to be as it is written with -update.
func compare(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
	}
	assert.Equal(t, want, string(read(t, file)),
		"%s is not what the types say; write it with: go test ./internal/config -run Schema -update", file)
}

// exampleComments returns what the example says above each key.
func exampleComments(t *testing.T) map[string]string {
	t.Helper()
	text := alternative.ReplaceAll(read(t, exampleFile), []byte("$1$2"))
	l := loader{file: exampleFile, decoder: decoder{marks: map[string]mark{}, bad: map[string]bool{}}}
	l.decode(l.body(text), Default())
	lines := strings.Split(string(text), "\n")
	docs := map[string]string{}
	for path, at := range l.marks {
		var above []string
		for n := at.line - 2; n >= 0; n-- {
			comment, is := strings.CutPrefix(strings.TrimSpace(lines[n]), "# ")
			if !is {
				break
			}
			above = append(above, comment)
		}
		if slices.Reverse(above); len(above) > 0 && path != "" && !strings.HasSuffix(path, "]") {
			docs[index.ReplaceAllString(path, "[]")] = strings.Join(above, " ")
		}
	}
	return docs
}

const (
	namePattern     = `^[A-Za-z0-9]([-_A-Za-z0-9]{0,61}[A-Za-z0-9])?$`
	clusterPattern  = `^([A-Za-z0-9]([-.A-Za-z0-9]{0,61}[A-Za-z0-9])?)?$`
	resourcePattern = `^(\*|[a-z]([-a-z0-9]*[a-z0-9])?)(\.[a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$`
	durationPattern = `^[-+]?(0|([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*)$`
	sizePattern     = `^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$`
	addressPattern  = `:[0-9]{1,5}$`
	pathPattern     = `^\.?([-_$A-Za-z0-9]+|\[\*\]|\["[^"]+"\]|\['[^']+'\])(\.[-_$A-Za-z0-9]+|\[\*\]|\["[^"]+"\]|\['[^']+'\])*$`
	labelPattern    = `^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`
)

// rules are what validation says of a key beside its type, as far as a schema can.
var rules = map[string]map[string]any{
	"":                                        {"required": []string{"pipelines"}},
	"cluster":                                 {"pattern": clusterPattern},
	"pipelines":                               {"minItems": 1},
	"pipelines[]":                             {"required": []string{"name", "resources"}},
	"pipelines[].name":                        {"pattern": namePattern},
	"pipelines[].resources":                   {"minItems": 1},
	"pipelines[].resources[]":                 {"required": []string{"resource"}},
	"pipelines[].resources[].namespaces":      {"uniqueItems": true},
	"pipelines[].resources[].exclude":         {"uniqueItems": true},
	"pipelines[].resources[].namespaces[]":    {"pattern": labelPattern},
	"pipelines[].encoding.keep":               {"uniqueItems": true},
	"pipelines[].encoding.redact":             {"uniqueItems": true},
	"pipelines[].encoding.redact[]":           {"pattern": pathPattern},
	"pipelines[].resources[].operations":      {"uniqueItems": true, "minItems": 1},
	"pipelines[].resources[].ignoreChanges":   {"uniqueItems": true},
	"pipelines[].resources[].ignoreChanges[]": {"pattern": pathPattern},
	"pipelines[].resources[].redact":          {"uniqueItems": true},
	"pipelines[].resources[].redact[]":        {"pattern": pathPattern},
	"pipelines[].recovery.maxReads":           {"minimum": 1},
	"pipelines[].sink":                        {"maxProperties": 1},
	"pipelines[].sink.kafka":                  {"required": []string{"brokers"}},
	"pipelines[].sink.kafka.brokers":          {"minItems": 1},
	"server.listen":                           {"pattern": addressPattern},
	"pipelines[].sink.embedded.listen":        {"pattern": addressPattern},
	"pipelines[].sink.kafka.brokers[]":        {"pattern": `^[^@/ ]+` + addressPattern},
	"pipelines[].sink.kafka.sasl":             {"required": []string{"mechanism"}},
}

// schema says in JSON Schema what the decoder takes.
type schema struct {
	docs map[string]string
	used map[string]bool
}

// of returns the schema of a value that has its defaults.
func (s *schema) of(v reflect.Value, path string) map[string]any {
	m := s.ofType(v, path)
	if doc := s.docs[path]; doc != "" {
		m["description"] = doc
	}
	s.used[path] = true
	rule := rules[path]
	maps.Copy(m, rule)
	if _, required := rule["required"]; required { // nothing written would lack it
		m["type"] = "object"
	}
	return m
}

func (s *schema) ofType(v reflect.Value, path string) map[string]any {
	if v.Kind() == reflect.Pointer {
		to := reflect.New(v.Type().Elem())
		setDefaults(to)
		return s.ofType(to.Elem(), path)
	}
	if e, is := v.Interface().(interface{ choices() choices }); is {
		return with(map[string]any{"type": "string", "enum": e.choices().now}, v.String())
	}
	switch value := v.Interface().(type) {
	case ResourceName:
		return map[string]any{"type": "string", "pattern": resourcePattern, "maxLength": 317}
	case Size:
		return with(map[string]any{"type": []string{"string", "integer"}, "pattern": sizePattern, "minimum": 0},
			value.String())
	case time.Duration:
		return with(map[string]any{
			"type": []string{"string", "integer"}, "pattern": durationPattern, "minimum": 0,
			"maximum": 0,
		}, short(value))
	case encoding.TextUnmarshaler:
		panic("BUG: no schema of " + v.Type().String())
	}
	switch v.Kind() {
	case reflect.Struct:
		properties := map[string]any{}
		s.fields(v, path, properties)
		return map[string]any{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
	case reflect.Slice:
		item := reflect.New(v.Type().Elem())
		setDefaults(item)
		m := map[string]any{"type": "array", "items": s.of(item.Elem(), path+"[]")}
		if v.Len() > 0 {
			m["default"] = v.Interface()
		}
		return m
	case reflect.Map:
		return map[string]any{
			"type":                 []string{"object", "null"},
			"additionalProperties": map[string]any{"type": []string{"string", "number", "boolean"}},
		}
	case reflect.Bool:
		return map[string]any{"type": "boolean", "default": v.Bool()}
	case reflect.Int:
		return map[string]any{"type": []string{"integer", "string"}, "pattern": "^[-+]?[0-9]+$", "default": v.Int()}
	default:
		return with(map[string]any{"type": "string"}, v.String())
	}
}

// fields adds those of a struct.
func (s *schema) fields(v reflect.Value, path string, to map[string]any) {
	for f := range v.Type().Fields() {
		below := v.FieldByIndex(f.Index)
		if f.Anonymous {
			s.fields(below, path, to)
			continue
		}
		key := f.Tag.Get("yaml")
		to[key] = s.of(below, join(path, key))
	}
}

func with(m map[string]any, value string) map[string]any {
	if value != "" {
		m["default"] = value
	}
	return m
}

// short is a duration as people write it.
func short(d time.Duration) string {
	s := d.String()
	for _, zero := range []string{"m0s", "h0m"} {
		if strings.HasSuffix(s, zero) {
			s = s[:len(s)-2]
		}
	}
	return s
}
