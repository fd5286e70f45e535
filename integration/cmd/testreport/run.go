// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/kube-eventbridge/kube-eventbridge/"

// Files of a run's directory, besides the *.json of go test.
const (
	tierFile        = "tier"        // the tier that was run
	calibrationFile = "calibration" // a line with seconds from before each part, and one from after the last
	notRunFile      = "not-run"     // a line for each part that could not be run as it should, with the reason
	laterFile       = "later"       // a line for each package that another tier has, with the command that runs it
)

// event is a line of go test -json.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// result is that of a test, or of a package, whose Test is empty.
type result struct {
	Package, Test, Action string
	Seconds               float64
	// Reason is why a test was skipped.
	Reason string
	// Cached: the tests of the package were not run, because nothing has changed since they last passed.
	Cached bool
}

func (r result) name() string {
	if r.Test == "" {
		return r.Package
	}
	return r.Package + " " + r.Test
}

// runs is what one or more runs of the tests had as results.
type runs struct {
	Tier            string
	Packages, Tests []result
	// Parts are the names of the files with results: what was to be run.
	Parts []string
	// Calibration is the longest time of the fixed loop, zero if it was not measured.
	Calibration float64
	NotRun      []string
	// Later has the packages that a command of another tier runs.
	Later map[string][]string
}

func readRuns(dirs []string) (*runs, error) {
	r := &runs{Later: map[string][]string{}}
	for _, dir := range dirs {
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := r.readFile(file); err != nil {
				return nil, err
			}
			r.Parts = append(r.Parts, strings.TrimSuffix(filepath.Base(file), ".json"))
		}
		if err := r.readNotes(dir); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// readNotes reads what the Makefile has written beside the results.
func (r *runs) readNotes(dir string) error {
	for _, line := range lines(filepath.Join(dir, tierFile)) {
		r.Tier = line
	}
	for _, line := range lines(filepath.Join(dir, calibrationFile)) {
		seconds, err := strconv.ParseFloat(line, 64)
		if err != nil {
			return fmt.Errorf("%s: %w", calibrationFile, err)
		}
		r.Calibration = max(r.Calibration, seconds)
	}
	r.NotRun = append(r.NotRun, lines(filepath.Join(dir, notRunFile))...)
	for _, line := range lines(filepath.Join(dir, laterFile)) {
		pkg, command, _ := strings.Cut(line, " ")
		r.Later[command] = append(r.Later[command], short(pkg))
	}
	return nil
}

// lines returns the lines of a file that are not empty. There is none in a file that does not exist.
func lines(path string) []string {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(strings.Split(string(data), "\n"), func(s string) bool { return s == "" })
}

func short(pkg string) string { return strings.TrimPrefix(pkg, module) }

// readFile adds what a go test -json says. A test that began and did not end has failed: its process was killed.
func (r *runs) readFile(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	began, output := map[string]*result{}, map[string]string{}
	for line := range bytes.Lines(text) {
		r.take(line, began, output)
	}
	for _, key := range slices.Sorted(maps.Keys(began)) {
		r.add(*began[key])
	}
	return nil
}

// take takes one line of a go test -json. What is no event is somebody's output.
func (r *runs) take(line []byte, began map[string]*result, output map[string]string) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Package == "" {
		return
	}
	key := e.Package + " " + e.Test
	switch e.Action {
	case "start", "run":
		began[key] = &result{Package: short(e.Package), Test: e.Test, Action: "fail"}
	case "output":
		output[key] += e.Output
	case "pass", "fail", "skip":
		res := result{
			Package: short(e.Package), Test: e.Test, Action: e.Action, Seconds: e.Elapsed,
			Cached: e.Test == "" && strings.Contains(output[key], "(cached)"),
		}
		if e.Action == "skip" {
			res.Reason = reason(output[key])
		}
		r.add(res)
		delete(began, key)
		delete(output, key)
	}
}

func (r *runs) add(res result) {
	if res.Test != "" {
		r.Tests = append(r.Tests, res)
	} else {
		r.Packages = append(r.Packages, res)
	}
}

var said = regexp.MustCompile(`(?m)^ +\S+\.go:\d+: (.*)$`)

// reason is what a test said last.
func reason(output string) string {
	all := said.FindAllStringSubmatch(output, -1)
	if len(all) == 0 {
		return "no reason given"
	}
	return all[len(all)-1][1]
}
