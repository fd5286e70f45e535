// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const pages = "../../docs/consumers"

var (
	// quote is a block that is a file, but for the lines before its first comment or code, or a part of one.
	quote = regexp.MustCompile("(?ms)^<!-- (file|part of): (\\S+) -->\n```[a-z]*\n(.*?)\n```$")
	// sample is a block of what an example has printed.
	sample = regexp.MustCompile("(?ms)^```json\n(.*?)\n```$")
)

// eachPage calls check with each page's name and text.
func eachPage(t *testing.T, check func(name, text string)) {
	t.Helper()
	names := must.Get(filepath.Glob(filepath.Join(pages, "*.md")))(t)
	require.NotEmpty(t, names, "there are no pages")
	for _, name := range names {
		b := must.Get(os.ReadFile(name))(t)
		check(filepath.Base(name), string(b))
	}
}

// body returns a file without its first lines, which say how it is run and under which license it is.
func body(text string) string {
	lines := strings.Split(text, "\n")
	for len(lines) > 0 && (lines[0] == "" || strings.HasPrefix(lines[0], "#!") || strings.Contains(lines[0], "SPDX-")) {
		lines = lines[1:]
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

func TestPages_quote_the_examples_that_are_tested(t *testing.T) {
	t.Parallel()
	quoted := map[string]bool{}
	eachPage(t, func(name, text string) {
		for _, q := range quote.FindAllStringSubmatch(text, -1) {
			file := must.Get(os.ReadFile(filepath.Join("../..", q[2])))(t)
			quoted[filepath.Clean(filepath.Join("../..", q[2]))] = true
			whole := q[3] == body(string(file))
			part := strings.Contains("\n"+string(file), "\n"+q[3]+"\n")
			if !whole && (q[1] == "file" || !part) {
				t.Errorf("%s does not quote %s as it is", name, q[2])
			}
		}
		tagged, blocks := strings.Count(text, ": integration/interop/"), len(quote.FindAllString(text, -1))
		assert.Equal(t, blocks, tagged, "%s has %d quotations, of which %d can be checked", name, tagged, blocks)
	})
	for _, example := range examples(t) {
		assert.True(t, quoted[filepath.Join("../../integration/interop", example)], "no page quotes %s", example)
	}
}

// examples returns the files that a page has to show.
func examples(t *testing.T) (files []string) {
	t.Helper()
	for _, dir := range []string{"java", "python", "node", "go", "shell"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && d.Name() != "package-lock.json" {
				files = append(files, path)
			}
			return err
		}))
	}
	return files
}

func TestPages_show_events_of_which_nothing_is_missing(t *testing.T) {
	t.Parallel()
	eachPage(t, func(name, text string) {
		for _, s := range sample.FindAllStringSubmatch(quote.ReplaceAllString(text, ""), -1) {
			for line := range strings.Lines(s[1]) {
				e, err := parseLine([]byte(line))
				if err == nil && e.gone == "" && (e.attributes["id"] == "" || e.attributes["recordedtime"] == "" || e.data == nil) {
					err = fmt.Errorf("it is not whole: %v", e.attributes)
				}
				assert.NoError(t, err, "%s: %v in %.200s", name, err, line)
			}
		}
	})
}
