// SPDX-License-Identifier: Apache-2.0

// Command sizes lists what is too large, or too small, for a reader: packages above 2,500 lines, types with more than
// 25 methods or 15 fields, and files under 40 lines. It reads the Go files below a directory that are no tests.
// A struct that has exported fields only is data (a configuration, a report, a record), and may have more of them.
//
// It ends with exit code 1 if it lists something.
package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const (
	mostLines   = 2500 // of a package
	mostMethods = 25   // of a type
	mostFields  = 15   // of a struct
	leastLines  = 40   // of a file
)

func main() {
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	found, err := survey(root)
	if err != nil {
		fmt.Fprintln(os.Stderr, "sizes:", err)
		os.Exit(2)
	}
	for _, line := range found {
		fmt.Println(line)
	}
	if len(found) > 0 {
		os.Exit(1)
	}
}

// pkg is what a directory has.
type pkg struct {
	lines   int
	files   map[string]int // their lines
	methods map[string]int // by type
	fields  map[string]int // by type
}

// survey describes all that is out of bounds below a directory. Hidden directories, testdata and the module of the
// integration tests are left out.
func survey(root string) ([]string, error) {
	pkgs := map[string]*pkg{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && left(d.Name()):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		p := pkgs[dir]
		if p == nil {
			p = &pkg{files: map[string]int{}, methods: map[string]int{}, fields: map[string]int{}}
			pkgs[dir] = p
		}
		return p.add(path)
	})
	if err != nil {
		return nil, err
	}
	var found []string
	for _, dir := range slices.Sorted(maps.Keys(pkgs)) {
		found = append(found, pkgs[dir].outOfBounds(dir)...)
	}
	return found, nil
}

// left reports whether a directory is left out.
func left(name string) bool {
	return strings.HasPrefix(name, ".") || name == "testdata" || name == "integration"
}

// add counts what a file has.
func (p *pkg) add(path string) error {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	lines := fset.File(file.Pos()).LineCount()
	p.lines += lines
	if name := filepath.Base(path); name != "doc.go" && name != "main.go" && !constrained(file) {
		p.files[name] = lines
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv != nil {
				p.methods[receiver(decl.Recv.List[0].Type)]++
			}
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				t, ok := spec.(*ast.TypeSpec)
				if !ok {
					continue
				}
				if s, ok := t.Type.(*ast.StructType); ok && !data(s) {
					p.fields[t.Name.Name] = s.Fields.NumFields()
				}
			}
		}
	}
	return nil
}

// data says whether all fields of a struct are exported.
func data(s *ast.StructType) bool {
	for _, field := range s.Fields.List {
		for _, name := range field.Names {
			if !name.IsExported() {
				return false
			}
		}
	}
	return true
}

// constrained says whether a file is compiled for some systems only.
func constrained(file *ast.File) bool {
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if constraint.IsGoBuild(comment.Text) {
				return true
			}
		}
	}
	return false
}

func receiver(t ast.Expr) string {
	switch t := t.(type) {
	case *ast.StarExpr:
		return receiver(t.X)
	case *ast.IndexExpr:
		return receiver(t.X)
	case *ast.IndexListExpr:
		return receiver(t.X)
	case *ast.Ident:
		return t.Name
	}
	return "?"
}

// outOfBounds describes what is too large or too small in a package. A package of one file may be small.
func (p *pkg) outOfBounds(dir string) []string {
	var found []string
	if p.lines > mostLines {
		found = append(found, fmt.Sprintf("%s has %d lines, above %d", dir, p.lines, mostLines))
	}
	above := func(counts map[string]int, most int, what string) {
		for _, name := range sortedByCount(counts) {
			if counts[name] > most {
				found = append(found, fmt.Sprintf("%s: type %s has %d %s, above %d", dir, name, counts[name], what, most))
			}
		}
	}
	above(p.methods, mostMethods, "methods")
	above(p.fields, mostFields, "fields")
	for _, name := range slices.Sorted(maps.Keys(p.files)) {
		if p.files[name] < leastLines && len(p.files) > 1 {
			found = append(found, fmt.Sprintf("%s has %d lines, under %d", filepath.Join(dir, name), p.files[name], leastLines))
		}
	}
	return found
}

func sortedByCount(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(counts[b]-counts[a], strings.Compare(a, b))
	})
}
