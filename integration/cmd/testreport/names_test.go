// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFindTests_knows_the_innermost_module(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	all, err := findTests(fstest.MapFS{
		"go.mod":                           file("module m"),
		"a_test.go":                        file("func TestTop(t *testing.T) {\n"),
		"encode/encode_test.go":            file("func TestEncode_one(t *testing.T) {}\nfunc help() {}\nfunc FuzzIt(f *testing.F) {\n"),
		"encode/encode.go":                 file("func TestNot(t *testing.T) {\n"),
		"integration/go.mod":               file("module i"),
		"integration/e2e/e2e_test.go":      file("func BenchmarkAll(b *testing.B) {\n"),
		"integrations/other_test.go":       file("func TestOther(t *testing.T) {\n"),
		".cache/x_test.go":                 file("func TestCached(t *testing.T) {\n"),
		"encode/testdata/mod/b_test.go":    file("func TestData(t *testing.T) {\n"),
		"integration/containers/go.mod":    file("module c"),
		"integration/containers/c_test.go": file("func TestIn(t *testing.T) {\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []location{
		{"BenchmarkAll", "integration", "e2e"},
		{"FuzzIt", ".", "encode"},
		{"TestEncode_one", ".", "encode"},
		{"TestIn", "integration/containers", "."},
		{"TestOther", ".", "integrations"},
		{"TestTop", ".", "."},
	}
	if !slices.Equal(all, want) {
		t.Errorf("got %v\nwant %v", all, want)
	}
}

func TestPick_takes_a_name_a_beginning_or_a_part_of_one_test(t *testing.T) {
	var all []location
	for _, name := range []string{"TestBridge", "TestBridge_killed", "TestReload_keeps", "TestReload_moves_a_pipeline"} {
		all = append(all, location{Name: name, Module: "integration", Dir: "e2e"})
	}
	for _, c := range []struct{ name, want, err string }{
		{name: "TestBridge", want: "TestBridge"},
		{name: "TestBridge/leaving", want: "TestBridge"},
		{name: "TestReload_moves", want: "TestReload_moves_a_pipeline"},
		{name: "moves_a", want: "TestReload_moves_a_pipeline"},
		{name: "killed", want: "TestBridge_killed"},
		{name: "TestReload", err: `2 tests are called so; say more of the name:
  integration/e2e TestReload_keeps
  integration/e2e TestReload_moves_a_pipeline`},
		{name: "TestPipeline_moving", err: `no test is called TestPipeline_moving; the nearest are:
  integration/e2e TestReload_moves_a_pipeline`},
		{name: "TestZ", err: "no test is called TestZ; the nearest are:\n  (there is none)"},
	} {
		got, err := pick(all, c.name)
		if got.Name != c.want || fmt.Sprint(err) != c.err && (err != nil || c.err != "") {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
}

func TestArguments_run_one_test_or_some_of_its_subtests(t *testing.T) {
	for _, c := range []struct{ name, sub, want string }{
		{"TestBridge", "", "test -count=1 -v -run=^TestBridge$ -race -short ./e2e"},
		{"TestBridge", "leaving", "test -count=1 -v -run=^TestBridge$/leaving -race -short ./e2e"},
		{"FuzzIt", "", "test -count=1 -v -run=^FuzzIt$ -race -short ./e2e"},
		{"BenchmarkAll", "", "test -count=1 -run=^$ -bench=^BenchmarkAll$ -race -short ./e2e"},
	} {
		test := location{c.name, "integration", "e2e"}
		if got := strings.Join(test.arguments(c.sub, []string{"-race", "-short"}), " "); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

var (
	document = regexp.MustCompile(`^(Makefile|.*\.md)$`)
	// example is what follows -run or T= in a command, without quotes.
	example = regexp.MustCompile(`(?:-run[ =]|\bT=)'?([\w^$/|]+)`)
)

// An example that runs no test looks like one that passes.
func TestExamples_in_documents_name_tests_that_exist(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	all, err := findTests(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	examples := 0
	for _, dir := range []string{".", "docs", "docs/adr"} {
		files, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if !document.MatchString(f.Name()) {
				continue
			}
			data, err := os.ReadFile(filepath.Join(root, dir, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range example.FindAllStringSubmatch(string(data), -1) {
				examples++
				if !names(all, m[1]) {
					t.Errorf("%s: %s names no test", filepath.Join(dir, f.Name()), m[0])
				}
			}
		}
	}
	if examples < 5 {
		t.Errorf("there are %d examples in the documents; is the pattern of this test still right?", examples)
	}
}

// names tells whether a pattern of -run fits a test. One that is to fit none, for benchmarks, is right.
func names(all []location, pattern string) bool {
	top, _, _ := strings.Cut(pattern, "/")
	if strings.HasPrefix(top, "^$") {
		return true
	}
	re, err := regexp.Compile(top)
	return err == nil && slices.ContainsFunc(all, func(l location) bool { return re.MatchString(l.Name) })
}
