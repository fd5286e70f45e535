// SPDX-License-Identifier: Apache-2.0

package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const module = "github.com/kube-eventbridge/kube-eventbridge"

var (
	brokers = []string{"github.com/nats-io", "github.com/segmentio/kafka-go", "github.com/twmb/franz-go"}
	codecs  = []string{"encoding/json", "github.com/go-json-experiment", "github.com/goccy/go-yaml", "sigs.k8s.io/yaml", "gopkg.in/yaml.v3"}
	cluster = []string{"k8s.io"}
	stores  = []string{"go.etcd.io/bbolt"}
)

// The arrows of docs/architecture.md.
var rules = []Rule{
	{Path: "source/...", Ours: []string{"source/...", "internal/pause"}, Never: slices.Concat(brokers, stores), Why: "a source knows Kubernetes and nothing behind it"},
	{Path: "encode/...", Ours: []string{"source", "sink"}, Never: slices.Concat(brokers, stores, cluster, []string{"net", "os"}), Why: "encoding is pure"},
	{
		Path: "sink/...", Ours: []string{"sink/...", "internal/must", "internal/pause", "internal/kafka/..."},
		Never: slices.Concat(stores, cluster), Why: "a sink knows its broker and nothing before it",
	},
	{Path: "internal/kafka", Ours: []string{"internal/kafka/...", "internal/tlsfiles"}, Never: slices.Concat(stores, cluster), Why: "a connection knows its brokers and nothing of events"},
	{Path: "internal/tlsfiles", Never: slices.Concat(brokers, stores, cluster), Why: "it knows files"},
	{Path: "internal/kafka/batch", Never: slices.Concat(brokers, stores, cluster, []string{"net", "os"}), Why: "encoding is pure"},
	{
		Path: "checkpoint/...", Ours: []string{"checkpoint/...", "internal/kafka/...", "internal/must", "internal/pause"},
		Never: []string{"k8s.io/client-go", "k8s.io/api"}, Why: "a checkpoint knows versions and no cluster",
	},
	{
		Path: "internal/bridge/...", Ours: []string{"internal/bridge/...", "internal/metric", "internal/pause", "source", "encode", "sink", "checkpoint"},
		Never: slices.Concat(brokers, codecs, stores), Why: "the bridge knows the contracts, no broker, no store and no format",
	},
	{
		Path: "internal/filter", Ours: []string{"source", "encode"},
		Never: slices.Concat(brokers, stores, cluster), Why: "a filter knows changes, and nothing of where they come from and go to",
	},
	{
		Path: "internal/config", Ours: []string{"encode", "internal/filter", "internal/rbac"},
		Never: slices.Concat(brokers, stores, []string{"k8s.io/client-go"}), Why: "a configuration is checked without what it configures",
	},
	{
		Path: "internal/tail", Ours: []string{"encode", "sink"},
		Never: slices.Concat(brokers, stores, cluster), Why: "tail shows a log, whatever keeps it, and asks no cluster",
	},
	{
		Path: "internal/tail/kafkalog", Ours: []string{"internal/tail", "internal/kafka", "internal/pause", "sink/kafka"},
		Never: slices.Concat(stores, cluster), Why: "a log knows its broker and nothing else",
	},
	{
		Path: "internal/tail/natslog", Ours: []string{"internal/tail", "sink/nats"},
		Never: slices.Concat(stores, cluster), Why: "a log knows its broker and nothing else",
	},
	{
		Path: "internal/tail/tailtest", Ours: []string{"internal/tail"},
		Never: slices.Concat(brokers, stores, cluster), Why: "it is for tests of every log",
	},
	{Path: "internal/rbac", Never: slices.Concat(brokers, stores, cluster), Why: "roles follow from what is read alone"},
	{
		Path: "internal/checkpoints", Ours: []string{"checkpoint/...", "internal/pause"},
		Never: slices.Concat(brokers, stores, codecs, []string{"k8s.io/client-go", "k8s.io/api"}), Why: "what is remembered is shown and changed without what it is about",
	},
	{Path: "internal/asyncapi", Ours: []string{"encode"}, Never: slices.Concat(brokers, stores, cluster), Why: "what is published follows from the configuration alone"},
	{
		Path: "internal/resync", Ours: []string{"internal/bridge", "internal/endpoint", "internal/pause"},
		Never: slices.Concat(brokers, stores, cluster), Why: "it asks a bridge and nothing else",
	},
	{Path: "internal/election", Never: slices.Concat(brokers, stores), Why: "it knows a Lease, and not what is done under it"},
	{
		Path: "internal/status", Ours: []string{"internal/bridge", "internal/endpoint", "sink", "source"},
		Never: slices.Concat(brokers, stores, []string{"k8s.io/client-go", "k8s.io/api"}), Why: "it tells how a bridge is doing, whatever it reads and publishes to",
	},
	{Path: "internal/endpoint", Never: slices.Concat(brokers, stores, cluster), Why: "it knows HTTP"},
	{Path: "internal/metric", Never: slices.Concat(brokers, codecs, stores, cluster), Why: "it says what metrics there are"},
	{Path: "internal/monitoring", Ours: []string{"internal/metric"}, Never: slices.Concat(brokers, stores, cluster), Why: "rules and dashboards follow from the metrics"},
	{Path: "internal/archtest"},
	{Path: "internal/testcert", Ours: []string{"internal/must"}},
	{Path: "internal/must"},
	{Path: "internal/testlog"},
	{Path: "internal/testtier"},
	{Path: "internal/pause"},
	{Path: "internal/sequence", Never: slices.Concat(brokers, codecs, stores, cluster), Why: "what orders events follows from numbers alone"},
	{Path: "cmd/...", Ours: []string{"cmd/...", "source", "encode", "sink/...", "checkpoint/...", "internal/..."}},
}

func TestImports_follow_the_arrows(t *testing.T) {
	var packages []Package
	d := json.NewDecoder(strings.NewReader(goCommand(t, "list", "-e", "-json=ImportPath,Imports", "./...")))
	for {
		var p Package
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
	require.GreaterOrEqual(t, len(packages), 8, "only %d packages were found", len(packages))
	for _, problem := range CheckImports(module, rules, packages) {
		t.Error(problem)
	}
}

// Who uses this module as a library pays for all that its go.mod names.
func TestModule_requires_nothing_that_only_tests_need(t *testing.T) {
	var mod struct{ Require []struct{ Path string } }
	require.NoError(t, json.Unmarshal([]byte(goCommand(t, "mod", "edit", "-json")), &mod))
	require.NotEmpty(t, mod.Require, "no requirements were read")
	for _, r := range mod.Require {
		for _, never := range []string{"k8s.io/kubernetes", "go.etcd.io/etcd", "sigs.k8s.io/controller-runtime", "github.com/testcontainers", "github.com/twmb/franz-go"} {
			assert.True(t, r.Path != never && !strings.HasPrefix(r.Path, never+"/"),
				"go.mod requires %s: tests that need it belong to the module in integration", r.Path)
		}
	}
}

func TestFiles_have_a_licence_and_packages_one_comment(t *testing.T) {
	broken := must.Get(CheckFiles(os.DirFS("../..")))(t)
	for _, problem := range broken {
		t.Error(problem)
	}
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = "../.."
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err, "go %v", args)
	return string(out)
}

func TestCheckImports_sees_what_is_wrong(t *testing.T) {
	rules := []Rule{
		{Path: "a/...", Ours: []string{"b"}, Never: []string{"broker.example"}, Why: "no broker here"},
		{Path: "b"},
	}
	for _, c := range []struct {
		name, imports string
		want          []string
	}{
		{"a", "m/b fmt broker.example.org/x", nil},
		{"a/deep", "m/b/inner", []string{"a/deep imports m/b/inner: of this module it may import [b]"}},
		{"b", "m/a", []string{"b imports m/a: of this module it may import []"}},
		{"a", "broker.example/client broker.example", []string{"a imports broker.example/client: no broker here", "a imports broker.example: no broker here"}},
		{"b/below", "", []string{"b/below has no rule: say in rules what it may import"}},
	} {
		got := CheckImports("m", rules, []Package{{"m/" + c.name, strings.Fields(c.imports)}})
		assert.Equal(t, c.want, got, "%s imports %s", c.name, c.imports)
	}
}

func TestCheckFiles_sees_what_is_wrong(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	got, err := CheckFiles(fstest.MapFS{
		"good/a.go":           file(License + "\n\n// Package good is.\npackage good\n"),
		"good/b.go":           file(License + "\n\npackage good\n"),
		"good/a_test.go":      file(License + "\n\npackage good_test\n"),
		"good/testdata/x.go":  file("package x\n"),
		".cache/x.go":         file("package x\n"),
		"none/a.go":           file(License + "\n\npackage none\n"),
		"two/a.go":            file(License + "\n\n// Package two is.\npackage two\n"),
		"two/b.go":            file(License + "\n\n// Package two is too.\npackage two\n"),
		"licence/a.go":        file("// Package licence is.\npackage licence\n"),
		"attached/a.go":       file(License + "\n// Package attached is.\npackage attached\n"),
		"onlytests/a_test.go": file(License + "\n\npackage onlytests\n"),
	})
	want := []string{
		`attached/a.go does not begin with "// SPDX-License-Identifier: Apache-2.0" and an empty line`,
		`licence/a.go does not begin with "// SPDX-License-Identifier: Apache-2.0" and an empty line`,
		`none has 0 package comments, in []: one is right`,
		`two has 2 package comments, in [two/a.go two/b.go]: one is right`,
	}
	require.NoError(t, err)
	assert.Equal(t, want, got)
}
