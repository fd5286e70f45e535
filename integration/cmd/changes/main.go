// SPDX-License-Identifier: Apache-2.0

// Command changes shows that tests notice a broken rule. It makes small changes to the code, one at a time, and runs
// the test that the list names for each: the test must fail.
//
// A change is an overlay of the compiler, so that the tree stays as it is. The exit code is 1 if a change is not
// noticed, or cannot be tried.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/edit"
)

// change breaks a rule. The text old occurs once in the file. The test is one of the package at home, or a subtest; of
// the file's package if home is empty.
type change struct{ file, rule, old, new, test, home string }

func (c *change) pkg() string { return cmp.Or(c.home, filepath.Dir(c.file)) }

// apply returns the changed file.
func (c *change) apply(root string) (string, error) {
	files, err := edit.Apply(root, edit.Change{File: c.file, Old: c.old, New: c.new})
	return files[c.file], err
}

// options are those of the command.
type options struct {
	root     string
	parallel int
	timeout  time.Duration
	only     *regexp.Regexp
}

func main() {
	o := options{only: regexp.MustCompile("")}
	flag.StringVar(&o.root, "root", "..", "the root of the repository")
	flag.IntVar(&o.parallel, "parallel", 2, "how many changes to try at a time")
	flag.DurationVar(&o.timeout, "timeout", 150*time.Second,
		"how long a test may take; one that waits in vain takes a minute")
	flag.Func("only", "try only changes whose file, rule or test matches", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout, o, list)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run tries changes and writes the outcome of each. The error is nil if all are noticed.
func run(ctx context.Context, out io.Writer, o options, all []change) (err error) {
	all = slices.DeleteFunc(slices.Clone(all), func(c change) bool {
		return !o.only.MatchString(c.file + " " + c.rule + " " + c.test)
	})
	t := tester{options: o}
	if t.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	if t.dir, err = os.MkdirTemp("", "changes"); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(t.dir) }()
	if err := t.runUnchanged(ctx, all); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(o.parallel)
	var mu sync.Mutex // guards noticed and out
	noticed := 0
	for i := range all {
		group.Go(func() error {
			c, began, outcome := &all[i], time.Now(), "noticed"
			err := t.try(ctx, c, filepath.Join(t.dir, fmt.Sprint(i)))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case ctx.Err() != nil:
				return ctx.Err()
			case err == nil:
				noticed++
			default:
				outcome = "NOT NOTICED"
			}
			took := time.Since(began).Seconds()
			_, _ = fmt.Fprintf(out, "%-11s %5.1f s  %s: %s (%s)\n", outcome, took, c.file, c.rule, c.test)
			if err != nil {
				_, _ = fmt.Fprintln(out, "\t"+strings.ReplaceAll(err.Error(), "\n", "\n\t"))
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "%d of %d changes are noticed\n", noticed, len(all))
	if noticed < len(all) {
		return errors.New("tests do not notice a change, or it cannot be tried; see above")
	}
	return nil
}

// tester compiles and runs tests.
type tester struct {
	options
	dir string
	// unchanged is the output of the tests without a change, by package.
	unchanged map[string]string
}

// runUnchanged runs the tests of all changes without a change.
func (t *tester) runUnchanged(ctx context.Context, all []change) error {
	tests := map[string][]string{}
	for _, c := range all {
		test, _, _ := strings.Cut(c.test, "/")
		tests[c.pkg()] = append(tests[c.pkg()], "^"+test+"$")
	}
	t.unchanged = map[string]string{}
	for pkg, names := range tests {
		bin := filepath.Join(t.dir, "unchanged")
		if err := t.compile(ctx, pkg, bin); err != nil {
			return err
		}
		t.unchanged[pkg], _ = t.run(ctx, pkg, bin, strings.Join(names, "|"))
	}
	return nil
}

// try applies a change and runs its test. The error says why the change is not noticed.
func (t *tester) try(ctx context.Context, c *change, dir string) error {
	shown := strings.ReplaceAll(c.test, " ", "_")
	if !strings.Contains(t.unchanged[c.pkg()], "--- PASS: "+shown+" (") {
		return errors.New("without the change, the test does not exist or does not pass")
	}
	text, err := c.apply(t.root)
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := writeOverlay(dir, filepath.Join(t.root, c.file), text)
	if err != nil {
		return err
	}
	bin := filepath.Join(dir, "test")
	if err := t.compile(ctx, c.pkg(), bin, "-overlay", overlay); err != nil {
		return err
	}
	names := strings.Split(shown, "/")
	for i, name := range names {
		names[i] = "^" + regexp.QuoteMeta(name) + "$"
	}
	output, err := t.run(ctx, c.pkg(), bin, strings.Join(names, "/"))
	switch {
	case err == nil:
		return fmt.Errorf("the test passes in spite of the change\n- %s\n+ %s",
			strings.ReplaceAll(c.old, "\n", "\n- "), strings.ReplaceAll(c.new, "\n", "\n+ "))
	case strings.Contains(output, "panic: test timed out"):
		return fmt.Errorf("the test does not end within %s", t.timeout)
	case strings.Contains(output, "--- FAIL: "), strings.Contains(output, "panic: "):
		return nil
	default:
		return fmt.Errorf("the test ends without a failure: %w\n%s", err, output)
	}
}

// writeOverlay writes the overlay that gives a file another text, and returns its name.
func writeOverlay(dir, file, text string) (name string, err error) {
	changed := filepath.Join(dir, "changed.go")
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {file: changed}})
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, "overlay.json")
	return name, errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(changed, []byte(text), 0o600),
		os.WriteFile(name, overlay, 0o600))
}

// compile compiles the tests of a package. Its flags are those of make test, so that little is compiled twice.
func (t *tester) compile(ctx context.Context, pkg, bin string, flags ...string) error {
	args := append([]string{"test", "-c", "-trimpath", "-vet=off", "-ldflags=-s -w", "-o", bin}, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = t.root
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("compile %s: %w\n%s", pkg, err, output)
	}
	return nil
}

// run runs tests of a package in its directory. The error says that one of them failed.
func (t *tester) run(ctx context.Context, pkg, bin, tests string) (output string, err error) {
	cmd := exec.CommandContext(ctx, bin, "-test.v", "-test.failfast", "-test.run", tests,
		"-test.timeout", t.timeout.String())
	cmd.Dir = filepath.Join(t.root, pkg)
	cmd.Env = append(os.Environ(), "RAPID_NOFAILFILE=true") // else rapid leaves a file in the tree
	all, err := cmd.CombinedOutput()
	return string(all), err
}
