// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

const results = `{"Action":"start","Package":"encode"}
{"Action":"run","Package":"encode","Test":"TestFast"}
{"Action":"pass","Package":"encode","Test":"TestFast","Elapsed":0.1}
{"Action":"run","Package":"encode","Test":"TestSlow"}
{"Action":"run","Package":"encode","Test":"TestSlow/sub"}
{"Action":"pass","Package":"encode","Test":"TestSlow/sub","Elapsed":2}
{"Action":"pass","Package":"encode","Test":"TestSlow","Elapsed":2.5}
{"Action":"run","Package":"encode","Test":"TestPage"}
{"Action":"output","Package":"encode","Test":"TestPage","Output":"=== RUN   TestPage\n"}
{"Action":"output","Package":"encode","Test":"TestPage","Output":"    a_test.go:7: NOT RUN: needs Chromium\n"}
{"Action":"skip","Package":"encode","Test":"TestPage","Elapsed":0}
{"Action":"run","Package":"encode","Test":"TestStress"}
{"Action":"output","Package":"encode","Test":"TestStress","Output":"    x_test.go:1: NOT IN THIS TIER: runs with make nightly\n"}
{"Action":"skip","Package":"encode","Test":"TestStress","Elapsed":0}
{"Action":"run","Package":"encode","Test":"TestNone"}
{"Action":"output","Package":"encode","Test":"TestNone","Output":"    x_test.go:1: NOT APPLICABLE: this sink has no broker\n"}
{"Action":"skip","Package":"encode","Test":"TestNone","Elapsed":0}
{"Action":"pass","Package":"encode","Elapsed":3}
{"Action":"start","Package":"github.com/kube-eventbridge/kube-eventbridge/source"}
{"Action":"run","Package":"github.com/kube-eventbridge/kube-eventbridge/source","Test":"TestKilled"}
`

func TestReport_has_times_reasons_and_numbers(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "unit.json", results)
	write(t, dir, tierFile, "core\n")
	write(t, dir, notRunFile, "the race detector: NOT RUN: there is no C compiler\n")
	write(t, dir, laterFile, "github.com/kube-eventbridge/kube-eventbridge/integration/node make test-all\n")
	const want = `
slowest packages:
     3.0 s  encode
     0.0 s  source

slowest tests:
     2.5 s  encode TestSlow
     0.1 s  encode TestFast
     0.0 s  encode TestPage
     0.0 s  encode TestStress
     0.0 s  encode TestNone
     0.0 s  source TestKilled

in other tiers:
  1 test: runs with make nightly
  1 package: runs with make test-all: integration/node

not run:
  the race detector: NOT RUN: there is no C compiler
  NOT RUN: needs Chromium
    encode TestPage

3 passed, 1 failed, 3 skipped
`
	assert.Equal(t, want, report(t, dir))
}

func TestFew_names_each_test_once_and_counts_the_rest(t *testing.T) {
	for _, c := range []struct{ all, want string }{
		{"b a b", "a b"},
		{"a b c d e f g h i j", "a b c d e f g h i j"},
		{"a b c d e f g h i j k l", "a b c d e f g h i j and 2 tests more"},
	} {
		assert.Equal(t, c.want, strings.Join(few(strings.Fields(c.all)), " "), c.all)
	}
}

func TestReport_says_that_everything_was_run(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "unit.json", `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":0.1}
{"Action":"pass","Package":"p","Elapsed":0.1}
`)
	got := report(t, dir)
	for _, want := range []string{"in other tiers: nothing\n", "not run: nothing\n", "\n1 passed, 0 failed, 0 skipped\n"} {
		assert.Contains(t, got, want)
	}
}

func TestReport_counts_a_package_that_does_not_build(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "unit.json", `{"Action":"build-output","ImportPath":"p","Output":"x.go:1: no\n"}
{"Action":"build-fail","ImportPath":"p"}
{"Action":"start","Package":"p"}
{"Action":"fail","Package":"p","Elapsed":0,"FailedBuild":"p"}
`)
	got := report(t, dir)
	assert.True(t, strings.HasSuffix(got, "\n0 passed, 1 failed, 0 skipped\n"), got)
}

func TestRecorded_judges_by_twice_the_time_and_the_speed_of_the_machine(t *testing.T) {
	rec := recorded{Calibration: 1, Tiers: map[string]map[string]float64{"core": {"p": 100}}}
	for _, c := range []struct {
		name        string
		pkg         result
		calibration float64
		want        string
	}{
		{"as recorded", result{Package: "p", Action: "pass", Seconds: 100}, 1, ""},
		{"at the limit", result{Package: "p", Action: "pass", Seconds: 230}, 1, ""},
		{
			"too long",
			result{Package: "p", Action: "pass", Seconds: 231},
			1,
			"p took 231.0 s; recorded are 100.0 s, and 230 s are",
		},
		{"on a machine of half the speed", result{Package: "p", Action: "pass", Seconds: 460}, 2, ""},
		{"too long there as well", result{Package: "p", Action: "pass", Seconds: 461}, 2, "p took 461.0 s"},
		{"on a machine of twice the speed", result{Package: "p", Action: "pass", Seconds: 230}, 0.5, ""},
		{"failed and too long", result{Package: "p", Action: "fail", Seconds: 231}, 1, "p took 231.0 s"},
		{"not recorded", result{Package: "q", Action: "pass", Seconds: 1}, 1, "until make record-times TIERS=core: q"},
		{"without tests", result{Package: "q", Action: "skip"}, 1, ""},
		{"not run again", result{Package: "q", Action: "pass", Cached: true}, 1, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := rec.judge(&runs{Tier: "core", Packages: []result{c.pkg}, Calibration: c.calibration})
			assert.True(t, (err == nil) == (c.want == "") && (err == nil || strings.Contains(err.Error(), c.want)),
				"got %v, want %q", err, c.want)
		})
	}
}

func TestRecorded_names_packages_that_did_not_run(t *testing.T) {
	rec := recorded{Tiers: map[string]map[string]float64{"all": {
		"p": 1, "q": 1, "integration/e2e": 1, "integration/node": 1, "integration/containers": 1,
	}}}
	for parts, want := range map[string]string{
		"unit race":       "with a recorded time, and not run: q",
		"race":            "",
		"integration":     "with a recorded time, and not run: integration/node",
		"containers unit": "with a recorded time, and not run: integration/containers q",
	} {
		run := &runs{Tier: "all", Parts: strings.Fields(parts), Packages: []result{
			{Package: "p", Action: "pass"}, {Package: "integration/e2e", Action: "pass"},
		}}
		text := ""
		if err := rec.judge(run); err != nil {
			text = err.Error()
		}
		assert.Equal(t, want, text, "run are %s", parts)
	}
}

func TestRecorded_keeps_other_tiers_and_refuses_runs_that_say_nothing(t *testing.T) {
	rec := recorded{Tiers: map[string]map[string]float64{"all": {"p": 7}, "core": {"gone": 1}}}
	run := &runs{Tier: "core", Calibration: 2.5, Packages: []result{
		{Package: "p", Action: "pass", Seconds: 1.26}, {Package: "q", Action: "skip"},
	}}
	require.NoError(t, rec.record(run))
	file := filepath.Join(t.TempDir(), "times.json")
	require.NoError(t, rec.write(file))
	got := must.Get(readRecorded(file))(t)
	core := got.Tiers["core"]
	assert.True(t, got.Tiers["all"]["p"] == 7 && len(core) == 1 && core["p"] == 1.3 && got.Calibration == 2.5,
		"recorded is %+v", got)
	for name, bad := range map[string]*runs{
		"failed":  {Tier: "core", Packages: []result{{Package: "p", Action: "fail", Seconds: 1}}},
		"cached":  {Tier: "core", Packages: []result{{Package: "p", Action: "pass", Cached: true}}},
		"nothing": {Tier: "core"},
		"no tier": {Packages: []result{{Package: "p", Action: "pass", Seconds: 1}}},
	} {
		assert.Error(t, rec.record(bad), "%s: a run that says nothing is recorded", name)
	}
}

func TestReport_fails_for_a_slow_package_only_in_CI(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "unit.json", `{"Action":"start","Package":"p"}
{"Action":"pass","Package":"p","Elapsed":31}
`)
	write(t, dir, tierFile, "core")
	write(t, dir, "times", `{"calibration": 1, "tiers": {"core": {"p": 0.2}}}`)
	args := []string{"-recorded", filepath.Join(dir, "times"), dir}
	for ci, fails := range map[string]bool{"": false, "true": true} {
		t.Setenv("CI", ci)
		var out bytes.Buffer
		if err := reportCommand(args, &out); (err != nil) != fails || !strings.Contains(out.String(), "  p took 31.0 s") {
			t.Errorf("CI=%q: %v\n%s", ci, err, out.String())
		}
	}
}

func TestReport_fails_for_what_was_not_run_only_in_CI(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		fails      bool
	}{
		"a part":            {notRunFile, "NOT RUN: the race detector needs a C compiler\n", true},
		"a known violation": {notRunFile, "KNOWN: P3, 2 times\n", false},
		"a test":            {"unit.json", skipped("NOT RUN: needs Java"), true},
		"another tier":      {"unit.json", skipped(otherTier + "runs with make nightly"), false},
		"not applicable":    {"unit.json", skipped(notApplicable + "an option of the other broker"), false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, c.file, c.text)
			for _, ci := range []string{"", "true"} {
				t.Setenv("CI", ci)
				var out bytes.Buffer
				err := reportCommand([]string{dir}, &out)
				assert.Equal(t, c.fails && ci != "", err != nil, "CI=%q: %v\n%s", ci, err, out.String())
			}
		})
	}
}

// skipped is what go test -json says of a test that was skipped.
func skipped(reason string) string {
	return fmt.Sprintf(`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:1: %s\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
`, reason)
}

func TestRun_refuses_unknown_commands(t *testing.T) {
	for _, args := range [][]string{nil, {"reprot"}} {
		code, err := run(args, new(bytes.Buffer))
		assert.True(t, code == 2 && err != nil, "%q: code %d, %v", args, code, err)
	}
}

func TestReadRuns_refuses_a_calibration_that_is_no_number(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, calibrationFile, "1.5\nfast\n")
	assert.Error(t, must.Err(readRuns([]string{dir})), "it is taken")
	assert.ErrorIs(t, must.Err(readRecorded(filepath.Join(dir, "none"))), os.ErrNotExist, "a file that does not exist")
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
}

func report(t *testing.T, dir string) string {
	t.Helper()
	r := must.Get(readRuns([]string{dir}))(t)
	var out bytes.Buffer
	require.NoError(t, r.print(&out, nil))
	return out.String()
}

func TestFindTests_finds_those_of_all_modules(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	all := must.Get(findTests(fstest.MapFS{
		"a_test.go": file("func TestTop(t *testing.T) {\n"),
		"encode/encode_test.go": file(
			"func TestEncode_one(t *testing.T) {}\nfunc help() {}\nfunc FuzzIt(f *testing.F) {\n"),
		"encode/encode.go":              file("func TestNot(t *testing.T) {\n"),
		"integration/e2e/e2e_test.go":   file("func BenchmarkAll(b *testing.B) {\n"),
		".cache/x_test.go":              file("func TestCached(t *testing.T) {\n"),
		"encode/testdata/mod/b_test.go": file("func TestData(t *testing.T) {\n"),
	}))(t)
	want := []test{
		{".", "TestTop"},
		{"encode", "TestEncode_one"},
		{"encode", "FuzzIt"},
		{"integration/e2e", "BenchmarkAll"},
	}
	assert.Equal(t, want, all)
}

func TestPages_name_tests_that_exist(t *testing.T) {
	root := must.Get(repository())(t)
	all := must.Get(findTests(os.DirFS(root)))(t)
	var pages []string
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		pages = append(pages, must.Get(filepath.Glob(filepath.Join(root, pattern)))(t)...)
	}
	named := 0
	for _, page := range pages {
		text := string(must.Get(os.ReadFile(page))(t))
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(text, -1) {
			named++
			begins := func(t test) bool { return strings.HasPrefix(t.name, name) }
			assert.True(t, name == "TestMain" || slices.ContainsFunc(all, begins), "%s names %s", page, name)
		}
	}
	assert.NotZero(t, named, "no page names a test")
}

func TestPick_takes_a_name_or_a_part_of_one_test(t *testing.T) {
	var all []test
	for _, name := range []string{"TestBridge", "TestBridge_killed", "TestReload_keeps", "TestReload_moves_a_pipeline"} {
		all = append(all, test{"e2e", name})
	}
	all = append(all, test{"sink/a", "TestContract"}, test{"sink/b", "TestContract"})
	for name, want := range map[string]string{
		"TestBridge": "TestBridge", "TestReload_moves": "TestReload_moves_a_pipeline",
		"moves_a": "TestReload_moves_a_pipeline",
		"killed":  "TestBridge_killed",
		"TestReload": "2 tests are called TestReload; name one, such as T=e2e.TestReload_keeps\n" +
			"  e2e.TestReload_keeps\n  e2e.TestReload_moves_a_pipeline",
		"TestZ":               "no test is called TestZ",
		"sink/a.TestContract": "TestContract", "b.TestContract": "TestContract",
		"c.TestContract": "no test is called c.TestContract",
		"TestContract": "2 tests are called TestContract; name one, such as T=sink/a.TestContract\n" +
			"  sink/a.TestContract\n  sink/b.TestContract",
	} {
		got, err := pick(all, name)
		assert.True(t, got.name == want || fmt.Sprint(err) == want, "%s: %v, %v", name, got, err)
	}
}

func TestSplit_knows_a_directory_and_a_pattern_of_subtests(t *testing.T) {
	for what, want := range map[string][2]string{
		"TestBridge":                {"TestBridge", ""},
		"TestBridge/v1.5/a":         {"TestBridge", "v1.5/a"},
		"sink/nats.TestSink/a.b":    {"sink/nats.TestSink", "a.b"},
		"checkpoint/file.TestStore": {"checkpoint/file.TestStore", ""},
		"moves_a":                   {"moves_a", ""},
	} {
		name, sub := split(what)
		assert.Equal(t, want, [2]string{name, sub}, what)
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

// For go test a pattern that fits no subtest is a success.
func TestRan_refuses_a_run_in_which_no_test_fitted(t *testing.T) {
	const top, sub = "=== RUN   TestBridge\n", "=== RUN   TestBridge/leaving\n    --- PASS: TestBridge/leaving (0.00s)\n"
	for _, c := range []struct {
		name, sub, output string
		ran               bool
	}{
		{"TestBridge", "", top, true},
		{"TestBridge", "", "testing: warning: no tests to run\nPASS\n", false},
		{"TestBridge", "leaving", top + sub, true},
		{"TestBridge", "nosuch", top + "--- PASS: TestBridge (0.00s)\n", false},
		{"TestBridge", "leaving/nosuch", top + sub, false},
		{"TestBridge", "leaving", top + "--- SKIP: TestBridge (0.00s)\n", true},
		{"BenchmarkAll", "", "goos: linux\nBenchmarkAll-2   \t 100\n", true},
		{"BenchmarkAll", "large", "BenchmarkAll/large-2   \t 100\n", true},
		{"BenchmarkAll", "nosuch", "goos: linux\nPASS\n", false},
	} {
		err := test{"e2e", c.name}.ran(c.sub, c.output)
		assert.Equal(t, c.ran, err == nil, "%s/%s after %q: %v", c.name, c.sub, c.output, err)
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
