// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// oneCommand runs the test with a name, or with a part of one, such as TestReload_moves or TestBridge/leaving.
func oneCommand(args []string, out io.Writer) error {
	if len(args) == 0 || args[0] == "" {
		return errors.New("say which test: make one T=TestReload_moves")
	}
	root, err := repository()
	if err != nil {
		return err
	}
	all, err := findTests(os.DirFS(root))
	if err != nil {
		return err
	}
	name, sub := split(args[0])
	test, err := pick(all, name)
	if err != nil {
		return err
	}
	var lines bytes.Buffer
	cmd := exec.Command("go", test.arguments(sub, args[1:])...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(root, test.dir), io.MultiWriter(out, &lines), os.Stderr
	if _, err := fmt.Fprintf(out, "cd %s && %s\n", cmd.Dir, strings.Join(cmd.Args, " ")); err != nil {
		return err
	}
	if err := cmd.Run(); err != nil {
		return err
	}
	return test.ran(sub, lines.String())
}

// repository returns the directory of the repository that the working directory is in: of its outermost go.mod.
func repository() (root string, err error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			root = dir
		}
	}
	if root == "" {
		return "", fmt.Errorf("no go.mod in %s or above", wd)
	}
	return root, nil
}

// test is a test, a benchmark or a fuzz test, with the directory of its package.
type test struct{ dir, name string }

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(\w+ \*testing\.[TFB]\)`)

// findTests returns all tests of the modules of a repository, by directory.
func findTests(repo fs.FS) (all []test, err error) {
	err = fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		base := path.Base(name)
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(base, ".") || base == "testdata"):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := fs.ReadFile(repo, name)
		for _, m := range declared.FindAllSubmatch(data, -1) {
			all = append(all, test{path.Dir(name), string(m[1])})
		}
		return err
	})
	return all, err
}

// split returns the name of a test, with a directory and a dot before it if they are given, and the pattern of
// subtests.
func split(what string) (name, sub string) {
	dir := directory.FindString(what)
	name, sub, _ = strings.Cut(strings.TrimPrefix(what, dir), "/")
	return dir + name, sub
}

// directory is what may stand before the name of a test. A pattern of subtests has the name before it.
var directory = regexp.MustCompile(`^[a-z][\w/-]*\.`)

// String returns the name with the directory.
func (t test) String() string { return t.dir + "." + t.name }

// pick returns the test with a name, or else the only one whose name contains it, in whatever case. A name may have the
// directory's, or the end of it, and a dot before it. Otherwise the error lists the tests that could be meant.
func pick(all []test, name string) (test, error) {
	if dir, base, found := strings.Cut(name, "."); found {
		elsewhere := func(t test) bool { return t.dir != dir && !strings.HasSuffix(t.dir, "/"+dir) }
		all = slices.DeleteFunc(slices.Clone(all), elsewhere)
		if one, err := pick(all, base); err == nil {
			return one, nil
		}
		all = nil
	}
	find := func(fits func(string) bool) []test {
		return slices.DeleteFunc(slices.Clone(all), func(t test) bool { return !fits(t.name) })
	}
	found := find(func(s string) bool { return s == name })
	if len(found) == 0 {
		found = find(func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(name)) })
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) == 0 {
		return test{}, fmt.Errorf("no test is called %s", name)
	}
	text := fmt.Sprintf("%d tests are called %s; name one, such as T=%v", len(found), name, found[0])
	for _, t := range found {
		text += "\n  " + t.String()
	}
	return test{}, errors.New(text)
}

// arguments are those of go that run the test, with more flags of go test.
func (t test) arguments(sub string, flags []string) []string {
	pattern := "^" + t.name + "$"
	if sub != "" {
		pattern += "/" + sub
	}
	which := []string{"-v", "-run=" + pattern}
	if strings.HasPrefix(t.name, "Benchmark") {
		which = []string{"-run=^$", "-bench=" + pattern}
	}
	return slices.Concat([]string{"test", "-count=1"}, which, flags)
}

// begun is a line of go test that names what ran: a test or subtest, one that was skipped, or a benchmark.
var begun = regexp.MustCompile(`(?m)(?:=== RUN +|--- SKIP: |^)((?:Test|Fuzz|Benchmark)\S*)`)

// ran returns an error if the output of a run without failures names no test that fits. For go test that is a success.
func (t test) ran(sub, output string) error {
	depth := 0
	if sub != "" {
		depth = 1 + strings.Count(sub, "/")
	}
	skipped := strings.Contains(output, "--- SKIP: "+t.name+" ")
	for _, m := range begun.FindAllStringSubmatch(output, -1) {
		if skipped || strings.HasPrefix(m[1], t.name) && strings.Count(m[1], "/") >= depth {
			return nil
		}
	}
	if sub == "" {
		return fmt.Errorf("%s did not run; see whether a build constraint or a flag leaves it out", t.name)
	}
	return fmt.Errorf("no subtest of %s matches %q, so nothing was tested; make one T=%s shows the names of all",
		t.name, sub, t.name)
}
