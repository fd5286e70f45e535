// SPDX-License-Identifier: Apache-2.0

package schema

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const root = "../../"

// validator returns what judges a file's content.
func validator(t *testing.T) func(text []byte) error {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7)
	s := must.Get(compiler.Compile(root + "config.schema.json"))(t)
	return func(text []byte) error {
		data, err := yaml.YAMLToJSON(text)
		if err != nil {
			return err
		}
		value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
		if err != nil {
			return err
		}
		return s.Validate(value)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	return must.Get(os.ReadFile(file))(t)
}

// configuration is what a page shows as a file: a block of YAML that has pipelines.
var configuration = regexp.MustCompile("(?s)```yaml\n(.*?)```")

func TestSchema_takes_files_that_are_good(t *testing.T) {
	judge := validator(t)
	files := map[string][]byte{
		"the example": read(t, root+"config.example.yaml"), "good.yaml": read(t, root+"internal/config/testdata/good.yaml"),
		"null mappings": []byte("pipelines: [{name: a, resources: [{resource: pods}], sink: {nats: }, encoding: , " +
			"checkpoint: {file: }}]\nserver:\n"),
		"other forms": []byte(`
pipelines:
  - name: a
    resources: [{resource: deployments.v1.apps}]
    sink: {nats: {replicas: "3", maxAge: 0, maxBytes: 1.5Gi, duplicateWindow: 1h30m}}
buffer: {maxBytes: 1048576}
`),
	}
	// The alternatives of the example, one sink at a time.
	alternative := regexp.MustCompile(`(?m)^( *)# ((?:- )?[a-zA-Z]+:( \S+| ".*"| \{\})?)$`)
	whole := alternative.ReplaceAll(files["the example"], []byte("$1$2"))
	whole = regexp.MustCompile(`(?m)^      (nats|embedded|stdout):`).ReplaceAll(whole, []byte("      # $1:"))
	files["the example's Kafka"] = onlyKafka(whole)
	for _, page := range append(must.Get(filepath.Glob(root+"docs/*.md"))(t), root+"README.md") {
		for i, block := range configuration.FindAllSubmatch(read(t, page), -1) {
			if bytes.Contains(block[1], []byte("pipelines:")) {
				files[fmt.Sprintf("%s, block %d", page, i+1)] = block[1]
			}
		}
	}
	for name, text := range files {
		assert.NoError(t, judge(text), name)
	}
}

// onlyKafka removes what belongs to the other sinks.
func onlyKafka(text []byte) []byte {
	var out []byte
	skip := false
	for line := range bytes.Lines(text) {
		switch {
		case bytes.HasPrefix(line, []byte("      # nats:")), bytes.HasPrefix(line, []byte("      # embedded:")),
			bytes.HasPrefix(line, []byte("      # stdout:")):
			skip = true
		case !bytes.HasPrefix(line, []byte("        ")) && len(bytes.TrimSpace(line)) > 0:
			skip = false
		}
		if !skip {
			out = append(out, line...)
		}
	}
	return out
}

// beyond are the bad files of which a schema cannot tell what is wrong: it depends on two places, or on what a text
// means.
var beyond = map[string]string{
	"a_selector_as_in_sql":             "the grammar of selectors",
	"an_address_for_two_servers":       "two places",
	"buffer_shares":                    "sums",
	"cel_a_bracket_too_few":            "the grammar of expressions",
	"cel_a_field_that_events_have_not": "what expressions name",
	"cel_a_function_that_is_none":      "what expressions call",
	"cel_a_path_of_jq":                 "the grammar of expressions",
	"cel_a_template_of_go":             "the grammar of expressions",
	"cel_and_in_words":                 "the grammar of expressions",
	"cel_one_equals_sign":              "the grammar of expressions",
	"cel_types_that_do_not_compare":    "what expressions compare",
	"cluster_scoped":                   "which resources Kubernetes has",
	"fence_with_leader_election":       "two places",
	"kafka_shared":                     "two pipelines",
	"leader_election_retry":            "two durations",
	"leader_election_times":            "two durations",
	"names_nothing":                    "what paths lead to, and what expressions compare",
	"namespace_selectors":              "the grammar of selectors, and keys that exclude each other",
	"nats_auth":                        "one of several, where an empty one is none",
	"overlapping_resources":            "two resources",
	"overlapping_subjects":             "two pipelines",
	"paths_in_a_home_directory":        "what shells replace",
	"paths_from_outside_the_object":    "names that paths do not begin with",
	"payloads":                         "a payload beside a profile, or a topic",
	"pipelines_in_each_others_way":     "two pipelines",
	"pipelines_of_one_name":            "two pipelines",
	"pipelines_with_one_checkpoint":    "two pipelines",
	"replicas_of_their_own_cluster":    "two places",
	"selectors":                        "the grammar of selectors",
	"servers_of_other_protocols":       "several schemes, and none",
	"subjects":                         "the grammar of templates",
	"templates_of_other_kinds":         "the grammar of templates",
}

func TestSchema_refuses_files_that_are_bad(t *testing.T) {
	judge := validator(t)
	files := must.Get(filepath.Glob(root + "internal/config/testdata/*.bad.yaml"))(t)
	require.GreaterOrEqual(t, len(files), 85, "bad files")
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".bad.yaml")
		why, excused := beyond[name]
		switch err := judge(read(t, file)); {
		case err == nil && !excused:
			t.Errorf("%s is taken", name)
		case err != nil && excused:
			t.Errorf("%s is refused, although it cannot be for %q: %v", name, why, err)
		}
	}
}
