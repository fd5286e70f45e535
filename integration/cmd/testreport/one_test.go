// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/stretchr/testify/assert"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFindTests_finds_those_of_all_modules(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	all := must.Get(findTests(fstest.MapFS{
		"a_test.go":                     file("func TestTop(t *testing.T) {\n"),
		"encode/encode_test.go":         file("func TestEncode_one(t *testing.T) {}\nfunc help() {}\nfunc FuzzIt(f *testing.F) {\n"),
		"encode/encode.go":              file("func TestNot(t *testing.T) {\n"),
		"integration/e2e/e2e_test.go":   file("func BenchmarkAll(b *testing.B) {\n"),
		".cache/x_test.go":              file("func TestCached(t *testing.T) {\n"),
		"encode/testdata/mod/b_test.go": file("func TestData(t *testing.T) {\n"),
	}))(t)
	want := []test{{".", "TestTop"}, {"encode", "TestEncode_one"}, {"encode", "FuzzIt"}, {"integration/e2e", "BenchmarkAll"}}
	assert.Equal(t, want, all)
}

func TestPick_takes_a_name_or_a_part_of_one_test(t *testing.T) {
	var all []test
	for _, name := range []string{"TestBridge", "TestBridge_killed", "TestReload_keeps", "TestReload_moves_a_pipeline"} {
		all = append(all, test{"e2e", name})
	}
	for name, want := range map[string]string{
		"TestBridge": "TestBridge", "TestReload_moves": "TestReload_moves_a_pipeline", "moves_a": "TestReload_moves_a_pipeline",
		"killed":     "TestBridge_killed",
		"TestReload": "2 tests are called TestReload; name one\n  e2e TestReload_keeps\n  e2e TestReload_moves_a_pipeline",
		"TestZ":      "0 tests are called TestZ; name one",
	} {
		got, err := pick(all, name)
		if got.name != want && fmt.Sprint(err) != want {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestArguments_run_one_test_or_some_of_its_subtests(t *testing.T) {
	for _, c := range []struct{ name, sub, want string }{
		{"TestBridge", "", "test -count=1 -v -run=^TestBridge$ -race -short"},
		{"TestBridge", "leaving", "test -count=1 -v -run=^TestBridge$/leaving -race -short"},
		{"BenchmarkAll", "", "test -count=1 -run=^$ -bench=^BenchmarkAll$ -race -short"},
	} {
		assert.Equal(t, c.want, strings.Join(test{"e2e", c.name}.arguments(c.sub, []string{"-race", "-short"}), " "))
	}
}

var (
	document = regexp.MustCompile(`^(Makefile|.*\.md)$`)
	// example is what follows -run or T= in a command, without quotes.
	example = regexp.MustCompile(`(?:-run[ =]|\bT=)'?([\w^$/|]+)`)
)

// An example that runs no test looks like one that passes.
func TestExamples_in_documents_name_tests_that_exist(t *testing.T) {
	root := must.Get(repository())(t)
	all := must.Get(findTests(os.DirFS(root)))(t)
	examples := 0
	for _, dir := range []string{".", "docs", "docs/adr"} {
		files := must.Get(os.ReadDir(filepath.Join(root, dir)))(t)
		for _, f := range files {
			if !document.MatchString(f.Name()) {
				continue
			}
			data := must.Get(os.ReadFile(filepath.Join(root, dir, f.Name())))(t)
			for _, m := range example.FindAllStringSubmatch(string(data), -1) {
				examples++
				assert.True(t, names(all, m[1]), "%s: %s names no test", filepath.Join(dir, f.Name()), m[0])
			}
		}
	}
	assert.GreaterOrEqual(t, examples, 5,
		"there are %d examples in the documents; is the pattern of this test still right?", examples)
}

// names tells whether a pattern of -run fits a test. One that is to fit none, for benchmarks, is right.
func names(all []test, pattern string) bool {
	top, _, _ := strings.Cut(pattern, "/")
	if strings.HasPrefix(top, "^$") {
		return true
	}
	re, err := regexp.Compile(top)
	return err == nil && slices.ContainsFunc(all, func(t test) bool { return re.MatchString(t.name) })
}
