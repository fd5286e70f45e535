// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSurvey(t *testing.T) {
	root := t.TempDir()
	write := func(path, format string, n int, each string) {
		var lines strings.Builder
		for i := range n {
			fmt.Fprintf(&lines, each+"\n", i)
		}
		path = filepath.Join(root, path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, format, lines.String()), 0o600))
	}
	write("hall/hall.go", "package hall\n%s", 2500, "// %d")
	write("room/room.go", "package room\n%s", 2499, "// %d")
	write("methods/many.go", "package methods\ntype t struct{}\n%s", 26, "func (*t) m%d() {}\n")
	write("methods/most.go", "package methods\ntype u struct{}\n%s", 25, "func (u) m%d() {}\n")
	write("fields/many.go", "package fields\ntype t struct {\n%s}\n"+strings.Repeat("\n", 40), 16, "f%d int")
	write("fields/data.go", "package fields\ntype u struct {\n%s}\n"+strings.Repeat("\n", 40), 16, "F%d int")
	write("files/doc.go", "package files\n%s", 0, "%d")
	write("files/small.go", "package files\n%s", 37, "// %d")
	write("files/enough.go", "package files\n%s", 39, "// %d")
	write("files/unix.go", "//go:build unix\n\npackage files\n%s", 0, "%d")
	write("files/small_test.go", "package files\n%s", 0, "%d")
	write("alone/alone.go", "package alone\n%s", 0, "%d")
	write("integration/hall/hall.go", "package hall\n%s", 2500, "// %d")

	found, err := survey(root)
	require.NoError(t, err)
	assert.Equal(t, []string{
		"fields: type t has 16 fields, above 15",
		"files/small.go has 38 lines, under 40",
		"hall has 2501 lines, above 2500",
		"methods: type t has 26 methods, above 25",
	}, found)
}
