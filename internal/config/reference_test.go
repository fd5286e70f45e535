// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const referenceFile = "../../docs/configuration.md"

// The reference in the repository is what these types and the example's comments say; go test ./internal/config -run
// Reference -update writes it.
func TestReference_is_up_to_date(t *testing.T) {
	r := reference{t: t, docs: exampleComments(t)}
	r.section(reflect.ValueOf(*Default()), "")
	page := referenceHead + r.out.String()
	if *update {
		require.NoError(t, os.WriteFile(referenceFile, []byte(page), 0o600))
	}
	if !bytes.Equal(read(t, referenceFile), []byte(page)) {
		t.Error("docs/configuration.md is not what the types and config.example.yaml say; write it with: go test " +
			"./internal/config -run Reference -update")
	}
}

const referenceHead = `# Configuration

Every key of the file that ` + "`run --config`, `validate --config`" + ` and others take. The same as a file with comments:
[config.example.yaml](../config.example.yaml); for editors: [config.schema.json](../config.schema.json). This page is
made of the code and that file, by ` + "`go test ./internal/config -run Reference -update`" + `.

- Names of keys are exact; unknown ones are refused, and so are anchors, aliases, merge keys and tags. All problems are
  reported at once, with line and column.
- A *duration* is written as Go does (` + "`30s`, `1h30m`" + `; the longest unit is the hour), a *size* as Kubernetes does (` + "`256Mi`, `1G`" + `, or a number of bytes).
- A relative path of a file or a directory is relative to the directory of this file.
- ` + "`" + `run --config` + "`" + ` goes by the file when it changes, or at once at SIGHUP; a file that is wrong changes nothing. ` + "`" + `cluster` + "`" + `, ` + "`" + `kubernetes` + "`" + `, ` + "`" + `dataDir` + "`" + `, ` + "`" + `server` + "`" + `, ` + "`" + `leaderElection` + "`" + `, ` + "`" + `log.format` + "`" + ` and the embedded server's address and directory take a restart.
- Secrets never stand in the file. Keys that end in ` + "`File` or `Env`" + ` name a file or an environment variable that holds one.
- ` + "`[]`" + ` in a path stands for each item of a list. A mapping that may be left out, and has a default of its own when it is written, is marked *optional*.
`

// reference writes a page.
type reference struct {
	t    *testing.T
	docs map[string]string
	out  strings.Builder
}

// section writes the keys of a mapping that has its defaults, then those of the mappings below it.
func (r *reference) section(v reflect.Value, path string) {
	if path == "" {
		r.out.WriteString("\n## Top level\n\n")
	} else {
		fmt.Fprintf(&r.out, "\n## `%s`\n\n%s\n\n", path, escaped(r.doc(strings.TrimSuffix(path, "[]"))))
	}
	fields := r.fields(v, path)
	if len(fields) == 0 {
		r.out.WriteString("It has no keys: write `{}`.\n")
		return
	}
	r.out.WriteString("| key | type | default | |\n|---|---|---|---|\n")
	for _, f := range fields {
		fmt.Fprintf(&r.out, "| `%s` | %s | %s | %s |\n", f.key, r.kind(f.value, f.path), r.standard(f.value, f.path),
			escaped(r.doc(f.path)))
	}
	for _, f := range fields {
		if below, at := mappingOf(f.value, f.path); below.IsValid() {
			r.section(below, at)
		}
	}
}

type referenceField struct {
	key, path string
	value     reflect.Value
}

func (r *reference) fields(v reflect.Value, path string) (all []referenceField) {
	for f := range v.Type().Fields() {
		below := v.FieldByIndex(f.Index)
		if f.Anonymous {
			all = append(all, r.fields(below, path)...)
			continue
		}
		key := f.Tag.Get("yaml")
		all = append(all, referenceField{key, join(path, key), below})
	}
	return all
}

// mappingOf returns the mapping that a value is, points to, or lists, with its defaults, and its path; else the zero
// Value.
func mappingOf(v reflect.Value, path string) (reflect.Value, string) {
	switch {
	case v.Kind() == reflect.Pointer || v.Kind() == reflect.Slice:
		to := reflect.New(v.Type().Elem())
		setDefaults(to)
		if v.Kind() == reflect.Slice {
			path += "[]"
		}
		return mappingOf(to.Elem(), path)
	case v.Kind() == reflect.Struct && !isText(v.Type()):
		return v, path
	default:
		return reflect.Value{}, ""
	}
}

// kind says what is written for a value.
func (r *reference) kind(v reflect.Value, path string) string {
	if e, is := v.Interface().(interface{ choices() choices }); is {
		return "`" + strings.Join(e.choices().now, "`, `") + "`"
	}
	switch v.Interface().(type) {
	case ResourceName:
		return "resource"
	case Size:
		return "size"
	case time.Duration:
		return "duration"
	}
	switch v.Kind() {
	case reflect.Slice:
		item := reflect.New(v.Type().Elem()).Elem()
		if m, _ := mappingOf(item, path); m.IsValid() {
			return "list of [mappings](#" + anchor(path+"[]") + ")"
		}
		return "list of " + plural(r.kind(item, path))
	case reflect.Pointer, reflect.Struct:
		_, at := mappingOf(v, path)
		return "[mapping](#" + anchor(at) + ")"
	case reflect.Map:
		return "mapping of texts"
	case reflect.Bool:
		return "`true`, `false`"
	case reflect.Int:
		return "number"
	default:
		return "text"
	}
}

func plural(kind string) string {
	if strings.HasPrefix(kind, "`") {
		return kind
	}
	return kind + "s"
}

// standard says what a value is where nothing is written.
func (r *reference) standard(v reflect.Value, path string) string {
	around := parent(path)
	if required, _ := rules[around]["required"].([]string); slices.Contains(required,
		path[len(around)+min(len(around), 1):]) {
		return "*required*"
	}
	switch value := v.Interface().(type) {
	case Size:
		return "`" + value.String() + "`"
	case time.Duration:
		return "`" + short(value) + "`"
	}
	switch v.Kind() {
	case reflect.Pointer:
		return "*optional*"
	case reflect.Struct:
		return ""
	case reflect.Slice:
		items := must.Get(json.Marshal(v.Interface()))(r.t)
		if v.Len() == 0 {
			return "`[]`"
		}
		return "`" + strings.NewReplacer(`"`, "", ",", ", ").Replace(string(items)) + "`"
	case reflect.Map:
		return "`{}`"
	default:
		if text := fmt.Sprint(v.Interface()); text != "" {
			return "`" + text + "`"
		}
		return ""
	}
}

// doc returns what the example says of a key, which every key needs.
func (r *reference) doc(path string) string {
	text := r.docs[path]
	assert.NotEmpty(r.t, text, "config.example.yaml says nothing above %s", path)
	return text
}

// escaped makes text what Markdown shows as it is, in a table too.
func escaped(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", "&lt;", "_", `\_`).Replace(text)
}

// anchor is what GitHub makes of a heading in code.
func anchor(path string) string {
	return strings.Map(func(c rune) rune {
		switch {
		case strings.ContainsRune(".[]", c):
			return -1
		default:
			return c
		}
	}, strings.ToLower(path))
}
