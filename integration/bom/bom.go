// SPDX-License-Identifier: Apache-2.0

// Package bom says of what a Go program consists, as a CycloneDX document: from what the linker wrote into the program,
// and not from what a go.mod asks for.
package bom

import (
	"bytes"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
	"github.com/google/uuid"
)

// Options say of which program a document is made. All of them are needed.
type Options struct {
	// Program is a Go program's file, for whatever platform.
	Program string
	// Root is the directory of the module that it was made from; there the go command finds the sources of the modules,
	// whose licenses are read.
	Root string
	// Version is the program's.
	Version string
	// Created is the document's time; the commit's, so that it can be made again.
	Created time.Time
}

// Read returns the document: the module of the program, and each module that is linked into it, with its version, the
// hash that go.sum has of it, and its license; and the standard library. The same program gives the same document. A
// module without a license that can be recognised is an error: what is shipped has to say under which terms.
func Read(ctx context.Context, o Options) (*cdx.BOM, error) {
	if o.Program == "" || o.Root == "" || o.Version == "" || o.Created.IsZero() {
		return nil, errors.New("read a bill of materials: program, root, version and time are needed")
	}
	info, err := buildinfo.ReadFile(o.Program)
	if err != nil {
		return nil, fmt.Errorf("read what %s is made of: %w", o.Program, err)
	}
	program, err := os.ReadFile(o.Program)
	if err != nil {
		return nil, err
	}
	dirs, err := directories(ctx, o.Root)
	if err != nil {
		return nil, err
	}
	licenses, err := newLicenses()
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(program)
	main := component(info.Main.Path, o.Version, cdx.ComponentTypeApplication)
	main.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	if main.Licenses, err = licenses.of(o.Root); err != nil {
		return nil, err
	}
	std := component("std", strings.TrimPrefix(info.GoVersion, "go"), cdx.ComponentTypeLibrary)
	std.PackageURL = "pkg:golang/std@" + std.Version
	std.BOMRef, std.Licenses = std.PackageURL, &cdx.Licenses{{License: &cdx.License{ID: "BSD-3-Clause"}}}
	parts := []cdx.Component{std}
	for _, dep := range info.Deps {
		part, err := module(dep, dirs, licenses)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part)
	}
	refs := make([]string, len(parts))
	for i := range parts {
		refs[i] = parts[i].BOMRef
	}
	doc := cdx.NewBOM()
	doc.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, sum[:]).URN()
	doc.Metadata = &cdx.Metadata{Timestamp: o.Created.UTC().Format(time.RFC3339), Component: &main}
	doc.Components = &parts
	doc.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return doc, nil
}

func component(path, version string, kind cdx.ComponentType) cdx.Component {
	url := "pkg:golang/" + path + "@" + version
	return cdx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}

// module describes a module that is linked into a program.
func module(m *debug.Module, dirs map[string]string, licenses *licenses) (cdx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	c := component(m.Path, m.Version, cdx.ComponentTypeLibrary)
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return c, fmt.Errorf("module %s %s: %q is not a hash of go.sum", m.Path, m.Version, m.Sum)
	}
	c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}}
	dir := dirs[m.Path+"@"+m.Version]
	if dir == "" {
		return c, fmt.Errorf("module %s %s: its source is not here; was the program made from this checkout?", m.Path,
			m.Version)
	}
	if c.Licenses, err = licenses.of(dir); err != nil {
		return c, fmt.Errorf("module %s %s: %w", m.Path, m.Version, err)
	}
	return c, nil
}

// directories returns where the go command has the sources of modules, by path@version.
func directories(ctx context.Context, root string) (map[string]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}}@{{.Version}} {{.Dir}}", "all")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	said, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list modules: %w\n%s", err, stderr.Bytes())
	}
	dirs := map[string]string{}
	for line := range strings.Lines(string(said)) {
		if name, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			dirs[name] = dir
		}
	}
	return dirs, nil
}

// licenses recognises licenses by their texts.
type licenses struct{ texts *classifier.Classifier }

func newLicenses() (*licenses, error) {
	c, err := assets.DefaultClassifier()
	if err != nil {
		return nil, fmt.Errorf("load the texts of licenses: %w", err)
	}
	return &licenses{c}, nil
}

// of returns the licenses that the files of a module's directory have, by their SPDX identifiers.
func (l *licenses) of(dir string) (*cdx.Licenses, error) {
	var files []string
	for _, pattern := range []string{"LICEN[SC]E*", "COPYING*", "License*"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	var all cdx.Licenses
	seen := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, m := range l.texts.Match(text).Matches {
			if m.MatchType == "License" && !seen[m.Name] {
				seen[m.Name] = true
				all = append(all, cdx.LicenseChoice{License: &cdx.License{ID: m.Name}})
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no license that can be recognised in %d files", len(files))
	}
	return &all, nil
}
