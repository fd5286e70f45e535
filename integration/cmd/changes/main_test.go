// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const code = `package small

func Max(a, b int) int {
	if a > b {
		return a
	}
	return b
}
`

const itsTests = `package small

import "testing"

func TestMax(t *testing.T) {
	t.Run("of a pair", func(t *testing.T) {
		if Max(2, 1) != 2 {
			t.Error("it is not the greater one")
		}
	})
}

func TestMax_of_equal_ones(t *testing.T) {
	if Max(1, 1) != 1 {
		t.Error("it is another one")
	}
}

func TestMax_that_fails(t *testing.T) { t.Error("always") }
`

func TestRun_writes_the_outcome_of_each_change(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module small\n\ngo 1.26\n", "small/max.go": code, "small/max_test.go": itsTests,
	} {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	for name, c := range map[string]struct {
		change
		timeout time.Duration
		want    string
		noticed bool
	}{
		"noticed": {change{old: "a > b", new: "a < b", test: "TestMax/of a pair"}, 0, "noticed", true},
		"not noticed": {
			change{old: "a > b", new: "a >= b", test: "TestMax_of_equal_ones"}, 0, "the test passes", false,
		},
		"stale":          {change{old: "b > a", new: "a < b", test: "TestMax"}, 0, "this text 0 times", false},
		"ambiguous":      {change{old: "return", new: "return 1+", test: "TestMax"}, 0, "this text 2 times", false},
		"does not build": {change{old: "a > b", new: "a > c", test: "TestMax"}, 0, "undefined: c", false},
		"no such test":   {change{old: "a > b", new: "a < b", test: "TestMin"}, 0, "does not exist", false},
		"no such subtest": {
			change{old: "a > b", new: "a < b", test: "TestMax/of three"}, 0, "does not exist", false,
		},
		"fails anyway": {change{old: "a > b", new: "a < b", test: "TestMax_that_fails"}, 0, "does not pass", false},
		"does not end": {
			change{old: "if a > b", new: "for a > b {\n}\nif a > b", test: "TestMax"},
			time.Second,
			"does not end within 1s", false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			c.file, c.rule = "small/max.go", "the greater one"
			o := options{root: root, parallel: 1, timeout: cmp.Or(c.timeout, time.Minute)}
			o.only = regexp.MustCompile("greater")
			err := run(t.Context(), &out, o, []change{c.change, {rule: "another"}})
			assert.Equal(t, c.noticed, err == nil, "%v\n%s", err, &out)
			assert.Contains(t, out.String(), c.want)
			assert.Contains(t, out.String(), " of 1 changes are noticed")
		})
	}
}

// Whether the tests notice the changes takes minutes, and is for make changes.
func TestList_is_of_this_tree(t *testing.T) {
	const root = "../../.."
	rules := map[string]bool{}
	for _, c := range list {
		assert.False(t, rules[c.rule], "two changes have the rule %q", c.rule)
		rules[c.rule] = true
		assert.NotEqual(t, c.old, c.new, c.rule)
		assert.NoError(t, must.Err(c.apply(root)), c.rule)
		pkg := filepath.Join(root, c.pkg())
		assert.True(t, hasTest(t, pkg, c.test), "%s: %s has no test %s", c.rule, pkg, c.test)
	}
}

// hasTest reports whether a package has a test. The name of a subtest is a literal in the same file.
func hasTest(t *testing.T, pkg, test string) bool {
	test, sub, _ := strings.Cut(test, "/")
	files := must.Get(filepath.Glob(filepath.Join(pkg, "*_test.go")))(t)
	return slices.ContainsFunc(files, func(file string) bool {
		text := must.Get(os.ReadFile(file))(t)
		return bytes.Contains(text, []byte("\nfunc "+test+"(t *testing.T)")) &&
			(sub == "" || bytes.Contains(text, []byte(`"`+sub+`"`)))
	})
}
