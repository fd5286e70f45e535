// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever the file, nothing panics; what is wrong has a place in the file and fits one line; and what is taken is complete.
func FuzzLoad(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.yaml")
	for _, file := range append(files, exampleFile) {
		data := must.Get(os.ReadFile(file))(f)
		f.Add(data)
	}
	f.Add([]byte("\"a\\nb\": 1\npipelines: [{sink: {kafka: {create: {settings: {\"c\\u2028d\": [], \"\": 1}}}}}]"))
	line := regexp.MustCompile(`^f:[1-9]\d*:[1-9]\d*: \S`)
	f.Fuzz(func(t *testing.T, data []byte) {
		c, warnings, err := Parse("f", data)
		require.NotEqual(t, (err == nil), (c == nil), "both or none: %v, %v", c, err)
		var problems Problems
		if err != nil && (!errors.As(err, &problems) || len(problems) == 0) {
			t.Fatalf("no problems in %T %v", err, err)
		}
		lines := 1 + strings.Count(string(data), "\n") + strings.Count(string(data), "\r")
		for _, p := range append(problems, warnings...) {
			if s := p.String(); !line.MatchString(s) || strings.Contains(s, "\n") || p.Line > lines {
				t.Errorf("%q", s)
			}
		}
		if c == nil {
			return
		}
		assert.NoError(t, c.Validate(), "taken, and not valid")
		for _, p := range c.Pipelines {
			if p.Sink == (Sink{}) || c.BufferShare(&p) <= 0 {
				t.Errorf("not complete: %+v", p)
			}
		}
	})
}
