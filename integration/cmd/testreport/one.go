// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// oneCommand runs the test with a name, or with a beginning of one, such as TestReload_moves or TestBridge/leaving.
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
	test, err := pick(all, args[0])
	if err != nil {
		return err
	}
	_, sub, _ := strings.Cut(args[0], "/")
	cmd := exec.Command("go", test.arguments(sub, args[1:])...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = filepath.Join(root, test.Module), out, os.Stderr
	if _, err := fmt.Fprintf(out, "cd %s && %s\n", cmd.Dir, strings.Join(cmd.Args, " ")); err != nil {
		return err
	}
	return cmd.Run()
}

// repository returns the directory of the repository that the working directory is in: of its outermost go.mod.
func repository() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	root := ""
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

// pick returns the one test that is meant. What is behind a slash names subtests. Otherwise the error lists the tests
// that could be meant.
func pick(all []location, name string) (location, error) {
	name, _, _ = strings.Cut(name, "/")
	switch found := match(all, name); len(found) {
	case 1:
		return found[0], nil
	case 0:
		return location{}, fmt.Errorf("no test is called %s; the nearest are:\n%s", name, list(nearest(all, name)))
	default:
		return location{}, fmt.Errorf("%d tests are called so; say more of the name:\n%s", len(found), list(found))
	}
}

func list(all []location) string {
	if len(all) == 0 {
		return "  (there is none)"
	}
	var names []string
	for _, l := range all {
		names = append(names, l.String())
	}
	return indent(strings.Join(names, "\n"))
}

// arguments are those of go that run the test, with more flags of go test.
func (l location) arguments(sub string, flags []string) []string {
	pattern := "^" + l.Name + "$"
	if sub != "" {
		pattern += "/" + sub
	}
	which := []string{"-v", "-run=" + pattern}
	if strings.HasPrefix(l.Name, "Benchmark") {
		which = []string{"-run=^$", "-bench=" + pattern}
	}
	return slices.Concat([]string{"test", "-count=1"}, which, flags, []string{"./" + l.Dir})
}
