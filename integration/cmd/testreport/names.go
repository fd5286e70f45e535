// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// location is where a test is.
type location struct {
	Name string
	// Module is the directory of the go.mod in the repository, Dir that of the package in the module.
	Module, Dir string
}

func (l location) String() string { return path.Join(l.Module, l.Dir) + " " + l.Name }

var declared = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(\w+ \*testing\.[TFB]\)`)

// findTests returns all tests of the modules of a repository, by name. Its directories are relative to it.
func findTests(repo fs.FS) ([]location, error) {
	var all []location
	var modules []string // outer ones first
	err := fs.WalkDir(repo, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if base := path.Base(name); name != "." && (strings.HasPrefix(base, ".") || base == "testdata") {
				return fs.SkipDir
			}
			if _, err := fs.Stat(repo, path.Join(name, "go.mod")); err == nil {
				modules = append(modules, name)
			}
			return nil
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		data, err := fs.ReadFile(repo, name)
		if err != nil {
			return err
		}
		l := locate(path.Dir(name), modules)
		for _, m := range declared.FindAllSubmatch(data, -1) {
			l.Name = string(m[1])
			all = append(all, l)
		}
		return nil
	})
	slices.SortFunc(all, func(x, y location) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.String(), y.String()))
	})
	return all, err
}

// locate finds the innermost module that a directory is in.
func locate(dir string, modules []string) location {
	for _, m := range slices.Backward(modules) {
		switch in, is := strings.CutPrefix(dir, m+"/"); {
		case dir == m:
			return location{Module: m, Dir: "."}
		case is:
			return location{Module: m, Dir: in}
		}
	}
	return location{Module: ".", Dir: dir}
}

// match returns the tests with this name, or else those whose name begins with it, or else those that contain it, in
// whatever case.
func match(all []location, name string) []location {
	for _, fits := range []func(string) bool{
		func(s string) bool { return s == name },
		func(s string) bool { return strings.HasPrefix(s, name) },
		func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(name)) },
	} {
		if found := slices.DeleteFunc(slices.Clone(all), func(l location) bool { return !fits(l.Name) }); len(found) > 0 {
			return found
		}
	}
	return nil
}

// nearest returns the tests whose names share most words with a name, at most five, best first.
func nearest(all []location, name string) []location {
	const most = 5
	wanted := words(name)
	shared := func(l location) int {
		n := 0
		for _, w := range words(l.Name) {
			if slices.ContainsFunc(wanted, func(s string) bool { return strings.HasPrefix(w, s) || strings.HasPrefix(s, w) }) {
				n++
			}
		}
		return n
	}
	found := slices.DeleteFunc(slices.Clone(all), func(l location) bool { return shared(l) == 0 })
	slices.SortStableFunc(found, func(x, y location) int { return cmp.Compare(shared(y), shared(x)) })
	return found[:min(most, len(found))]
}

// words are those of a name from the fourth letter on, in lower case: TestReload_moves has reload and moves.
func words(name string) []string {
	const least = 4
	name = strings.ToLower(strings.TrimPrefix(name, "Test"))
	all := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '/' })
	return slices.DeleteFunc(all, func(w string) bool { return len(w) < least })
}
