// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/config/rules"
)

// What is made from the table; go test ./internal/config -update writes the files.
const (
	exampleFile   = "../../config.example.yaml"
	referenceFile = "../../docs/configuration.md"
	schemaFile    = "../../config.schema.json"
	// chartFile has the schema of the file as the last of its definitions, since Helm reads no other file.
	chartFile = "../../deploy/chart/kube-eventbridge/values.schema.json"
)

func TestGenerated_files_are_what_the_table_says(t *testing.T) {
	generated(t, referenceFile, referenceHead+section(&whole, "", ""))
	generated(t, exampleFile, exampleHead+example(whole.Keys, "", "", false))
	schema := schemaOf(&whole, "")
	schema["$schema"] = "http://json-schema.org/draft-07/schema#" // the one that editors know
	schema["title"] = "kube-eventbridge"
	generated(t, schemaFile, indented(t, "", schema))
	delete(schema, "$schema")
	delete(schema, "title")
	const last = "\n    \"config\": "
	chart := string(read(t, chartFile))
	generated(t, chartFile, chart[:strings.LastIndex(chart, last)]+last+indented(t, "    ", schema)+"  }\n}\n")
}

// generated wants a file to be as it is written with -update.
func generated(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(want), 0o600))
	}
	assert.Equal(t, want, string(read(t, file)), "write %s with: go test ./internal/config -update", file)
}

func purpose(r *rules.Rule) string { return strings.Join(strings.Fields(r.Purpose), " ") }

// flat returns the kind of mapping that a value is or lists, and its path; nil if it is none.
func flat(k *rules.Kind, path string) (*rules.Kind, string) {
	switch {
	case k.Form == rules.MappingForm:
		return k, path
	case k.Item != nil:
		return flat(k.Item, path+"[]")
	default:
		return nil, ""
	}
}

// section writes the keys of a mapping, then those of the mappings below it.
func section(k *rules.Kind, path, doc string) string {
	var out strings.Builder
	if path == "" {
		out.WriteString("\n## Top level\n\n")
	} else {
		fmt.Fprintf(&out, "\n## `%s`\n\n%s\n\n", path, escaped(doc))
	}
	if len(k.Keys) == 0 {
		out.WriteString("It has no keys: write `{}`.\n")
		return out.String()
	}
	out.WriteString("| key | type | default | |\n|---|---|---|---|\n")
	for _, r := range k.Keys {
		standard := r.Standard
		switch standard {
		case "":
		case required, optional:
			standard = "*" + standard + "*"
		default:
			standard = "`" + standard + "`"
		}
		fmt.Fprintf(&out, "| `%s` | %s | %s | %s |\n", r.Key, word(&r.Kind, rules.Join(path, r.Key)), standard, escaped(purpose(&r)))
	}
	for _, r := range k.Keys {
		if below, at := flat(&r.Kind, rules.Join(path, r.Key)); below != nil {
			out.WriteString(section(below, at, purpose(&r)))
		}
	}
	return out.String()
}

// word says what is written for a value.
func word(k *rules.Kind, path string) string {
	switch below, at := flat(k, path); {
	case k.Choices != nil:
		return "`" + strings.Join(k.Choices, "`, `") + "`"
	case below == k:
		return "[mapping](#" + anchor(at) + ")"
	case below != nil:
		return "list of [mappings](#" + anchor(at) + ")"
	case k.Item != nil && k.Item.Choices == nil:
		return "list of " + word(k.Item, "") + "s"
	case k.Item != nil:
		return "list of " + word(k.Item, "")
	default:
		return map[rules.Form]string{
			rules.TextForm: "text", rules.NumberForm: "number", rules.SwitchForm: "`true`, `false`", rules.DurationForm: "duration",
			rules.SizeForm: "size", rules.ShareForm: "number or percentage", rules.OtherForm: "resource", rules.TextsForm: "mapping of texts",
		}[k.Form]
	}
}

// escaped makes text what Markdown shows as it is, in a table too.
func escaped(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;", "_", `\_`).Replace(text)
}

// anchor is what GitHub makes of a heading in code.
func anchor(path string) string {
	return strings.NewReplacer(".", "", "[", "", "]", "").Replace(strings.ToLower(path))
}

// shown are values in the example that are no defaults.
var shown = map[string]string{
	"cluster": "prod-eu-1", "pipelines.name": "audit", "pipelines.resources.resource": "deployments.apps",
	"pipelines.sink.kafka.brokers": `["localhost:9092"]`, "pipelines.sink.kafka.sasl.mechanism": "scram-sha-512",
	"replicas.name": "shop", "replicas.from.cluster": "prod-eu-2", "replicas.from.pipeline": "audit",
	"replicas.from.kafka.brokers": `["localhost:9092"]`, "replicas.from.kafka.sasl.mechanism": "scram-sha-512",
	"replicas.resources.resource": "deployments.apps",
}

// listed are the lists of which the example has an item.
var listed = map[string]bool{
	"pipelines": true, "pipelines.resources": true, "replicas": true, "replicas.resources": true,
}

// example writes keys, with what they are for, as lines that begin with indent. Those of a mapping that is absent by
// default are comments, except pipelines[].sink.nats.
func example(keys []rules.Rule, path, indent string, comment bool) string {
	var out strings.Builder
	for i, r := range keys {
		at := rules.Join(path, r.Key)
		comment := comment || r.Standard == optional && at != "pipelines.sink.nats" || at == "server.admin"
		below, _ := flat(&r.Kind, "")
		if i > 0 && !comment && (below != nil || path == "" || path == "pipelines") ||
			i > 0 && r.Standard == optional && !strings.Contains(path, "sink.") && !strings.HasPrefix(path, "replicas.") {
			out.WriteString("\n")
		}
		mark, lead := "", indent
		if comment {
			mark = "# "
		}
		for _, line := range wrapped(purpose(&r), 118-len(indent)) {
			out.WriteString(indent + "# " + line + "\n")
		}
		if i == 0 && listed[path] {
			lead, mark = indent[:len(indent)-2]+mark+"- ", ""
			out.Reset()
			for _, line := range wrapped(purpose(&r), 118-len(indent)) {
				out.WriteString(indent[:len(indent)-2] + "# " + line + "\n")
			}
		}
		switch {
		case below == nil:
			out.WriteString(lead + mark + r.Key + ": " + written(&r, at) + "\n")
		case len(below.Keys) == 0:
			out.WriteString(lead + mark + r.Key + ": {}\n")
		default:
			deeper := indent + "  "
			if r.Kind.Form == rules.ListForm {
				deeper += "  "
			}
			out.WriteString(lead + mark + r.Key + ":\n" + example(below.Keys, at, deeper, comment))
		}
	}
	return out.String()
}

// written is the value of a key in the example.
func written(r *rules.Rule, path string) string {
	value := cmp.Or(shown[path], r.Standard)
	switch {
	case value == "", strings.ContainsAny(value, "{") && value != "{}":
		return `"` + value + `"`
	case strings.Contains(value, "://"):
		return `["` + strings.Trim(value, "[]") + `"]`
	default:
		return value
	}
}

// wrapped breaks text into lines of at most width characters.
func wrapped(text string, width int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

const (
	resourcePattern = `^(\*|[a-z]([-a-z0-9]*[a-z0-9])?)(\.[a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$`
	durationPattern = `^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)|[0-9]+[dw])+)$`
	namePattern     = `^([A-Za-z0-9][-.A-Za-z0-9]*/)?[A-Za-z0-9]([-_.A-Za-z0-9]{0,61}[A-Za-z0-9])?$`
	sharePattern    = `^([0-9]+|([0-9]|[1-9][0-9]|100)%)$`
	sizePattern     = `^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][-+]?[0-9]+)?$`
)

// patterns are of values that a function judges, as far as a schema can tell.
var patterns = map[string]string{
	listener:     `:[0-9]{1,5}$`,
	aBroker.What: `^[^@/ ]+:[0-9]{1,5}$`, aLabelName.What: namePattern, anAddedAnnotation.What: namePattern,
	aPath.What: `^\.?([-_$A-Za-z0-9]+|\[\*\]|\["[^"]+"\]|\['[^']+'\])` +
		`(\.[-_$A-Za-z0-9]+|\[\*\]|\["[^"]+"\]|\['[^']+'\])*$`,
}

type object = map[string]any

// schema says in JSON Schema what the decoder takes.
func schemaOf(k *rules.Kind, standard string) object {
	m := object{"type": "string"}
	switch k.Form {
	case rules.MappingForm:
		properties, needed := object{}, []string{}
		for _, r := range k.Keys {
			below := schemaOf(&r.Kind, r.Standard)
			below["description"] = purpose(&r)
			properties[r.Key] = below
			if r.Standard == required {
				needed = append(needed, r.Key)
			}
		}
		m = object{"type": []string{"object", "null"}, "properties": properties, "additionalProperties": false}
		if len(needed) > 0 { // nothing written would lack it
			m["type"], m["required"] = "object", needed
		}
		if k.Either != nil {
			either := make([]object, len(k.Either))
			for i, key := range k.Either {
				either[i] = object{"required": []string{key}}
				if properties[key].(object)["type"] == "array" {
					either[i]["properties"] = object{key: object{"minItems": 1}}
				}
			}
			m["type"], m["anyOf"] = "object", either
		}
		if last := len(k.Keys) - 1; last > 0 && len(k.Keys[last].Kind.Excluded) == last && k.Keys[0].Standard == optional {
			m["maxProperties"] = 1
		}
		return m
	case rules.ListForm:
		m = object{"type": "array", "items": schemaOf(k.Item, "")}
		if k.NonEmpty {
			m["minItems"] = 1
		}
		if k.Distinct {
			m["uniqueItems"] = true
		}
		if standard != required && standard != optional && standard != "[]" && standard != "" {
			m["default"] = strings.Split(strings.Trim(standard, "[]"), ", ")
		}
		return m
	case rules.TextsForm:
		values := object{"type": []string{"string", "number", "boolean"}}
		m = object{"type": []string{"object", "null"}, "additionalProperties": values}
		if k.Names != nil {
			m["propertyNames"] = schemaOf(k.Names, "")
			if pattern := schemaOf(k.Values, "")["pattern"]; pattern != nil {
				values["pattern"] = pattern
			}
		}
		return m
	case rules.SwitchForm:
		return object{"type": "boolean", "default": standard == "true"}
	case rules.NumberForm:
		m = object{"type": []string{"integer", "string"}, "pattern": "^[-+]?[0-9]+$", "default": json.Number(standard)}
		m["minimum"] = k.Min
		if k.Max > 0 {
			m["maximum"] = k.Max
		}
		return m
	case rules.DurationForm:
		m = object{"type": []string{"string", "integer"}, "pattern": durationPattern, "minimum": 0, "maximum": 0}
	case rules.SizeForm:
		m = object{"type": []string{"string", "integer"}, "pattern": sizePattern, "minimum": 0}
	case rules.ShareForm:
		m = object{"type": []string{"string", "integer"}, "pattern": sharePattern, "minimum": 0}
	case rules.OtherForm:
		return object{"type": "string", "pattern": resourcePattern, "maxLength": 317}
	case rules.TextForm:
		pattern := patterns[k.What]
		if k.Pattern != nil {
			pattern = k.Pattern.String()
		}
		switch {
		case k.Choices != nil:
			m["enum"] = k.Choices
		case pattern != "" && k.Empty:
			m["pattern"] = "^$|" + pattern
		case pattern != "":
			m["pattern"] = pattern
		}
	}
	if standard != "" && standard != required {
		m["default"] = standard
	}
	return m
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

// Every key fills a field, and every field has a key.
func TestTable_has_every_field_of_the_configuration_once(t *testing.T) {
	var compare func(of reflect.Type, keys []rules.Rule, path string)
	compare = func(of reflect.Type, keys []rules.Rule, path string) {
		for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
			of = of.Elem()
		}
		var names, fields []string
		for _, r := range keys {
			names = append(names, strings.ToLower(r.Key))
			f, found := of.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, r.Key) })
			require.True(t, found, "%s.%s fills no field", path, r.Key)
			if below, at := flat(&r.Kind, rules.Join(path, r.Key)); below != nil {
				compare(f.Type, below.Keys, at)
			}
		}
		for _, f := range reflect.VisibleFields(of) {
			if !f.Anonymous {
				fields = append(fields, strings.ToLower(f.Name))
			}
		}
		slices.Sort(names)
		slices.Sort(fields)
		assert.Equal(t, fields, names, "the keys of %s", path)
	}
	compare(reflect.TypeFor[Config](), whole.Keys, "")
}

const referenceHead = `# Configuration

Every key of the file that ` + "`run --config`, `validate --config`" + ` and others take. The same as a file with comments:
[config.example.yaml](../config.example.yaml); for editors: [config.schema.json](../config.schema.json). This page is
made of the table in internal/config, by ` + "`go test ./internal/config -update`" + `.

- Names of keys are exact; unknown ones are refused, and so are anchors, aliases, merge keys and tags. All problems are
  reported at once, with line and column.
- A *duration* is written as Go does (` + "`30s`, `1h30m`" + `), or in whole days and weeks (` + "`7d`, `2w`" + `), a *size* as Kubernetes does (` + "`256Mi`, `1G`" + `, or a number of bytes).
- A relative path of a file or a directory is relative to the directory of this file.
- ` + "`" + `run --config` + "`" + ` goes by the file when it changes, or at once at SIGHUP; a file that is wrong changes nothing. ` + "`" + `cluster` + "`" + `, ` + "`" + `kubernetes` + "`" + `, ` + "`" + `dataDir` + "`" + `, ` + "`" + `server` + "`" + `, ` + "`" + `leaderElection` + "`" + `, ` + "`" + `log.format` + "`" + ` and the embedded server's address and directory take a restart.
- Secrets never stand in the file. Keys that end in ` + "`File` or `Env`" + ` name a file or an environment variable that holds one.
- ` + "`[]`" + ` in a path stands for each item of a list. A mapping that may be left out, and has a default of its own when it is written, is marked *optional*, and so are replicas.
`

const exampleHead = `# yaml-language-server: $schema=config.schema.json
# Every key of kube-eventbridge's configuration, with its default and why one would change it. As a page to look things
# up: docs/configuration.md. Check a file with: kube-eventbridge validate --config FILE
#
# Names of keys are exact, unknown ones are refused. Durations are written as Go does (30s, 1h30m), or in days
# (7d); sizes as Kubernetes does (256Mi).
# Relative paths, of every file and directory named here, are relative to the directory of this file.
# Lines that start with "# " and a key are alternatives, with their defaults; remove the "# " to use them.

`
