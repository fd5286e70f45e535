// SPDX-License-Identifier: Apache-2.0

// Package tools installs what the clients of package interop need, from npm, PyPI and Maven Central, in exact versions.
//
// An installation is a directory of the cache (see [controlplane.CacheDir]), whose name has a hash of what it is made
// of. The program interop/install makes all of them; tests only use them.
package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/once"
)

// Command is what a person types in the directory integration to install everything.
const Command = "go run ./interop/install"

// Installation is what clients of one kind need.
type Installation struct {
	// Name is also the beginning of the directory's name.
	Name string
	// inputs are files and directories below integration/interop. Their copies are where the commands work.
	inputs []string
	// needs are programs, with what installs them.
	needs map[string]string
	// commands are run one after the other, in the directory of the installation.
	commands [][]string
}

const (
	debian = "Debian: apt-get install "
	npm    = debian + "npm"
)

// The installations.
var (
	Java = Installation{
		Name: "java", inputs: []string{"java/pom.xml", "java/src"},
		needs: map[string]string{
			"mvn":   "Maven (" + debian + "maven)",
			"javac": "a Java development kit, 17 or newer (" + debian + "default-jdk-headless)",
		},
		commands: [][]string{{"mvn", "-B", "-q", "-ntp", "compiler:compile", "dependency:copy-dependencies"}},
	}
	Python1  = python("v1")
	Python2  = python("v2")
	Node     = node("node", "node")
	AsyncAPI = node("asyncapi", "asyncapi", "--ignore-scripts")
)

// All returns every installation.
func All() []Installation { return []Installation{Java, Python1, Python2, Node, AsyncAPI} }

func python(version string) Installation {
	requirements := "requirements-" + version + ".txt"
	return Installation{
		Name: "python-" + version, inputs: []string{"python/" + requirements},
		needs: map[string]string{"python3": "Python 3.10 or newer with venv (" + debian + "python3-venv)"},
		commands: [][]string{
			{"python3", "-m", "venv", "venv"},
			{"venv/bin/python", "-m", "pip", "install", "-q", "-r", requirements},
		},
	}
}

func node(name, dir string, options ...string) Installation {
	return Installation{
		Name: name, inputs: []string{dir + "/package.json", dir + "/package-lock.json"},
		needs:    map[string]string{"node": "Node 18 or newer (" + debian + "nodejs)", "npm": "npm (" + npm + ")"},
		commands: [][]string{append([]string{"npm", "ci", "--no-audit", "--no-fund"}, options...)},
	}
}

// Dir returns the directory of an installation. The error of one that is missing says how to install it.
func (i Installation) Dir() (string, error) {
	dir, err := i.path()
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(dir); err != nil {
		return "", fmt.Errorf("the libraries of %s, which are not installed; run: cd integration && %s", i.Name, Command)
	}
	return dir, nil
}

// Install makes an installation, unless it is there, and returns its directory. What is cut short leaves nothing.
func (i Installation) Install(ctx context.Context, say func(format string, args ...any)) (string, error) {
	dir, err := i.path()
	if err != nil {
		return "", err
	}
	return dir, once.Path(ctx, dir, say, func(tmp string) error {
		if err := i.make(ctx, tmp); err != nil {
			return fmt.Errorf("install the libraries of %s: %w", i.Name, err)
		}
		return nil
	})
}

// path returns where an installation of the present inputs is or will be.
func (i Installation) path() (string, error) {
	cache, err := controlplane.CacheDir()
	if err != nil {
		return "", err
	}
	interop, err := directory()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	for _, input := range i.inputs {
		err := filepath.WalkDir(filepath.Join(interop, input), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(path)
			_, _ = fmt.Fprintf(h, "%s %d %s", filepath.Base(path), len(b), b) // a hash takes everything
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read what %s is made of: %w", i.Name, err)
		}
	}
	return filepath.Join(cache, "interop", i.Name+"-"+hex.EncodeToString(h.Sum(nil)[:4])), nil
}

func directory() (string, error) {
	root, err := controlplane.Root()
	return filepath.Join(root, "integration", "interop"), err
}

func (i Installation) make(ctx context.Context, dir string) error {
	for name, advice := range i.needs {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("%w; install %s", err, advice)
		}
	}
	interop, err := directory()
	if err != nil {
		return err
	}
	for _, input := range i.inputs {
		if err := Copy(filepath.Join(dir, filepath.Base(input)), filepath.Join(interop, input)); err != nil {
			return err
		}
	}
	for _, command := range i.commands {
		name := command[0]
		if filepath.Base(name) != name {
			name = filepath.Join(dir, name)
		}
		cmd := exec.CommandContext(ctx, name, command[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", command[0], err, bytes.TrimSpace(out[max(0, len(out)-4096):]))
		}
	}
	return nil
}

// Copy copies a file, or what is in a directory.
func Copy(to, from string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
