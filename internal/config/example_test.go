// SPDX-License-Identifier: Apache-2.0

package config

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const exampleFile = "../../config.example.yaml"

var (
	// A comment that is an alternative: "# " and a key, with a value or with more below it.
	alternative = regexp.MustCompile(`(?m)^( *)# ([a-zA-Z]+:( \S+| ".*"| \{\})?)$`)
	index       = regexp.MustCompile(`\[\d+\]`)
)

// exampleWithAlternatives decodes the example as if nothing were commented out.
func exampleWithAlternatives(t *testing.T) (*Config, []string) {
	t.Helper()
	text := alternative.ReplaceAll(read(t, exampleFile), []byte("$1$2"))
	l := loader{file: exampleFile, decoder: decoder{marks: map[string]mark{}, bad: map[string]bool{}}}
	c := Default()
	l.decode(l.body(text), c)
	require.Empty(t, l.issues, "with its alternatives: %v", l.problems(l.issues))
	return c, slices.Sorted(maps.Keys(l.marks))
}

func TestExample_is_valid_as_it_stands(t *testing.T) {
	c, warnings, err := Load(exampleFile)
	require.NoError(t, err)
	require.Nil(t, warnings)
	assert.NotNil(t, c.Pipelines[0].Sink.NATS, "the sink is not nats")
}

func TestExample_has_every_key_once(t *testing.T) {
	_, paths := exampleWithAlternatives(t)
	var got []string
	for _, p := range paths {
		if p = index.ReplaceAllString(p, "[]"); p != "" {
			got = append(got, p)
		}
	}
	for _, want := range allPaths(reflect.TypeFor[Config](), "") {
		assert.Contains(t, got, want, "missing")
	}
}

// allPaths returns the path of every key that t can have, with [] for the items of a list.
func allPaths(t reflect.Type, path string) []string {
	switch t.Kind() {
	case reflect.Pointer:
		return allPaths(t.Elem(), path)
	case reflect.Slice:
		return allPaths(t.Elem(), path+"[]")
	case reflect.Struct:
		if t == reflect.TypeFor[ResourceName]() {
			return nil
		}
	default:
		return nil
	}
	var all []string
	for f := range t.Fields() {
		if f.Anonymous {
			all = append(all, allPaths(f.Type, path)...)
			continue
		}
		key := join(path, f.Tag.Get("yaml"))
		all = append(append(all, key), allPaths(f.Type, key)...)
	}
	return all
}

func TestExample_shows_the_defaults(t *testing.T) {
	got, _ := exampleWithAlternatives(t)
	want := Default()
	want.Cluster = "prod-eu-1"
	p := Pipeline{Name: "audit", Resources: []Resource{{
		Resource: ResourceName{Plural: "deployments", Group: "apps"},
		Exclude:  []ResourceName{}, Namespaces: []string{},
	}}}
	p.setDefaults()
	p.Resources[0].setDefaults()
	p.Resources[0].Redact, p.Resources[0].IgnoreChanges = []string{}, []string{}
	p.Encoding.Keep, p.Encoding.Redact = []Part{}, []string{}
	p.Encoding.Secrets.Annotations, p.Encoding.Secrets.Hashes = []string{}, new(SecretHashes)
	p.Sink = Sink{NATS: new(NATS), Kafka: new(Kafka), Embedded: new(Embedded), Stdout: new(Stdout)}
	p.Sink.NATS.setDefaults()
	p.Sink.NATS.TLS = new(TLS)
	p.Sink.Kafka.setDefaults()
	p.Sink.Kafka.Brokers = []string{"localhost:9092"}
	p.Sink.Kafka.Create = &KafkaTopic{Settings: map[string]string{}}
	p.Sink.Kafka.TLS = new(TLS)
	p.Sink.Kafka.SASL = &SASL{Mechanism: ScramSHA512, Scopes: []string{}}
	p.Checkpoint.Kafka = new(CheckpointKafka)
	p.Checkpoint.Kafka.setDefaults()
	p.Checkpoint.NATS = &CheckpointNATS{Servers: []string{}, NATSAccess: NATSAccess{TLS: new(TLS)}}
	p.Checkpoint.NATS.setDefaults()
	p.Sink.Embedded.setDefaults()
	want.Pipelines = []Pipeline{p}
	want.LeaderElection = new(LeaderElection)
	want.LeaderElection.setDefaults()
	assert.Equal(t, want, got, "got\n%+v\n%+v\n%+v\n%+v", got, got.Pipelines[0].Sink.NATS,
		got.Pipelines[0].Sink.Kafka, got.Pipelines[0].Sink.Embedded)
}

// Each key has a line that says why it exists, so that a reader dares to change it. Runs of keys may share one.
func TestExample_explains_its_keys(t *testing.T) {
	prose := regexp.MustCompile(`(?m)^ *# [^\n]+[a-z.][^\n]*\.$`)
	assert.GreaterOrEqual(t, len(prose.FindAll(read(t, exampleFile), -1)), 50, "lines explain something")
}
