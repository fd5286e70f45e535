// SPDX-License-Identifier: Apache-2.0

// Package archtest checks what the code of this repository must look like as a whole: which package may import which, one
// package comment for each package, and the licence line of each file. It is not part of the program.
package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Package is a package and what its files import, tests left out.
type Package struct {
	ImportPath string
	Imports    []string
}

// Rule is what the packages at Path may import.
type Rule struct {
	// Path is relative to the module; one that ends with /... holds for what is below too.
	Path string
	// Ours are the packages of the module, in the same form.
	Ours []string
	// Never are prefixes of any other import path, and Why is the reason.
	Never []string
	Why   string
}

// CheckImports returns where packages of module break the rules. The first rule that matches a package decides, and a package
// without one breaks them.
func CheckImports(module string, rules []Rule, packages []Package) []string {
	var broken []string
	for _, p := range packages {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		i := slices.IndexFunc(rules, func(r Rule) bool { return matches(r.Path, name) })
		if i < 0 {
			broken = append(broken, fmt.Sprintf("%s has no rule: say in rules what it may import", name))
			continue
		}
		for _, imported := range p.Imports {
			if why := rules[i].refuses(module, imported); why != "" {
				broken = append(broken, fmt.Sprintf("%s imports %s: %s", name, imported, why))
			}
		}
	}
	return broken
}

func (r Rule) refuses(module, imported string) string {
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		if slices.ContainsFunc(r.Ours, func(pattern string) bool { return matches(pattern, ours) }) {
			return ""
		}
		return fmt.Sprintf("of this module it may import %v", r.Ours)
	}
	if slices.ContainsFunc(r.Never, func(prefix string) bool { return imported == prefix || strings.HasPrefix(imported, prefix+"/") }) {
		return r.Why
	}
	return ""
}

func matches(pattern, name string) bool {
	base, deep := strings.CutSuffix(pattern, "/...")
	return name == base || deep && strings.HasPrefix(name, base+"/")
}

// License is the first line of every Go file.
const License = "// SPDX-License-Identifier: Apache-2.0"

// CheckFiles returns which Go files in tree lack the licence line, and which packages do not have exactly one package comment.
// Hidden folders and testdata are left out; test packages need no comment.
func CheckFiles(tree fs.FS) ([]string, error) {
	var broken []string
	docs := map[string][]string{}
	err := fs.WalkDir(tree, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && file != "." && (d.Name()[0] == '.' || d.Name() == "testdata" || d.Name() == "vendor"):
			return fs.SkipDir
		case d.IsDir() || path.Ext(file) != ".go":
			return nil
		}
		f, problem, err := read(tree, file)
		if err != nil {
			return err
		}
		if problem != "" {
			broken = append(broken, problem)
		}
		folder := path.Dir(file)
		files, known := docs[folder]
		switch {
		case f.Doc != nil:
			docs[folder] = append(files, file)
		case !known && !strings.HasSuffix(file, "_test.go"):
			docs[folder] = nil
		}
		return nil
	})
	for folder, files := range docs {
		if len(files) != 1 {
			broken = append(broken, fmt.Sprintf("%s has %d package comments, in %v: one is right", folder, len(files), files))
		}
	}
	slices.Sort(broken)
	return broken, err
}

// read parses a file as far as its package clause.
func read(tree fs.FS, file string) (f *ast.File, problem string, err error) {
	data, err := fs.ReadFile(tree, file)
	if err != nil {
		return nil, "", err
	}
	if !strings.HasPrefix(string(data), License+"\n\n") {
		problem = fmt.Sprintf("%s does not begin with %q and an empty line", file, License)
	}
	f, err = parser.ParseFile(token.NewFileSet(), file, data, parser.PackageClauseOnly|parser.ParseComments)
	return f, problem, err
}
