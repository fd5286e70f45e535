// SPDX-License-Identifier: Apache-2.0

package bom_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/bom"
	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// permissive are the licenses under which what is linked into a program that is Apache-2.0 may be.
var permissive = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0"}

func options(t *testing.T) bom.Options {
	t.Helper()
	root := must.Get(controlplane.Root())(t)
	return bom.Options{Program: rig.ProgramForTest(t), Root: root, Version: "v1.2.3", Created: time.Unix(1700000000, 0)}
}

func run(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	said, err := cmd.Output()
	require.NoError(t, err, "%v", command)
	return string(said)
}

func text(t *testing.T, doc *cdx.BOM) string {
	t.Helper()
	var out strings.Builder
	require.NoError(t, cdx.NewBOMEncoder(&out, cdx.BOMFileFormatJSON).EncodeVersion(doc, cdx.SpecVersion1_6))
	return out.String()
}

func TestRead_names_each_module_that_is_compiled_in_with_a_permissive_license(t *testing.T) {
	o := options(t)
	doc := must.Get(bom.Read(t.Context(), o))(t)
	// What the compiler was given, from the go command: a way of its own.
	want := strings.Fields(run(t, o.Root, "go", "list", "-deps", "-f",
		"{{with .Module}}{{if not .Main}}pkg:golang/{{.Path}}@{{.Version}}{{end}}{{end}}", "./cmd/kube-eventbridge"))
	slices.Sort(want)
	want = slices.Compact(want)
	var got []string
	for _, c := range *doc.Components {
		if c.Name != "std" {
			got = append(got, c.PackageURL)
			assert.NotNil(t, c.Hashes, "%s has no hash", c.PackageURL)
		}
		for _, l := range *c.Licenses {
			assert.Contains(t, permissive, l.License.ID, "%s is under", c.PackageURL)
		}
	}
	slices.Sort(got)
	assert.Equal(t, want, got)
	again := must.Get(bom.Read(t.Context(), o))(t)
	assert.Equal(t, text(t, again), text(t, doc), "the same program gives two documents")
}

func TestRead_refuses(t *testing.T) {
	o := options(t)
	strange := filepath.Join(t.TempDir(), "strange")
	require.NoError(t, os.WriteFile(strange, []byte("#!/bin/sh\n"), 0o600))
	empty := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(empty, "go.mod"), []byte("module example.com/empty\n"), 0o600))
	for name, of := range map[string]struct {
		change func(*bom.Options)
		want   string
	}{
		"what is not a Go program":       {func(o *bom.Options) { o.Program = strange }, "read what " + strange},
		"no version":                     {func(o *bom.Options) { o.Version = "" }, "version"},
		"the checkout of another module": {func(o *bom.Options) { o.Root = empty }, "no license"},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			of.change(&o)
			_, err := bom.Read(t.Context(), o)
			assert.True(t, err != nil && strings.Contains(err.Error(), of.want), "got %v, want %q", err, of.want)
		})
	}
	require.NoError(t, os.WriteFile(filepath.Join(empty, "LICENSE"), []byte(run(t, o.Root, "cat", "LICENSE")), 0o600))
	o.Root = empty
	_, err := bom.Read(t.Context(), o)
	assert.True(t, err != nil && strings.Contains(err.Error(), "its source is not here"), "got %v", err)
}
