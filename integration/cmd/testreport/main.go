// SPDX-License-Identifier: Apache-2.0

// Command testreport says how a run of the tests went: what took longest, what was not run and why, and which package
// took longer than recorded. It also finds one test by its name and runs it. See the Makefile.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
)

const usage = `testreport calibrate            prints the seconds that a fixed loop takes here
testreport report [flags] DIR…  reads the runs in these directories
testreport record [flags] DIR…  records the times of these runs
testreport one NAME [flag…]     runs one test, with these flags of go test`

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
	}
	os.Exit(code)
}

// run returns the exit code of the command.
func run(args []string, out io.Writer) (int, error) {
	if len(args) == 0 {
		return 2, errors.New("no command\n" + usage)
	}
	var err error
	switch command, rest := args[0], args[1:]; command {
	case "calibrate":
		_, err = fmt.Fprintf(out, "%.3f\n", calibrate().Seconds())
	case "report":
		err = reportCommand(rest, out)
	case "record":
		err = recordCommand(rest, out)
	case "one":
		err = oneCommand(rest, out)
	default:
		return 2, fmt.Errorf("unknown command %q\n%s", command, usage)
	}
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed): // what it ran has said why
		return failed.ExitCode(), nil
	case err != nil:
		return 1, err
	}
	return 0, nil
}

func reportCommand(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("report", flag.ContinueOnError)
	file := flags.String("recorded", "", "the file with recorded times; without it no time is judged")
	if err := flags.Parse(args); err != nil {
		return err
	}
	r, err := readRuns(flags.Args())
	if err != nil {
		return err
	}
	var late error
	if *file != "" {
		recorded, err := readRecorded(*file)
		if err != nil {
			return err
		}
		late = recorded.judge(r)
	}
	if err := r.print(out, late); err != nil {
		return err
	}
	if os.Getenv("CI") == "" {
		return nil // elsewhere a machine may have other work
	}
	return errors.Join(late, r.complete())
}

func recordCommand(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	file := flags.String("recorded", "", "the file to change")
	machine := flags.String("machine", "", "what the times were measured on")
	if err := flags.Parse(args); err != nil {
		return err
	}
	recorded, err := readRecorded(*file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, dir := range flags.Args() {
		r, err := readRuns([]string{dir})
		if err != nil {
			return err
		}
		if err := recorded.record(r); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	recorded.Machine = cmp.Or(*machine, recorded.Machine)
	if err := recorded.write(*file); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s is written; commit it\n", filepath.Base(*file))
	return err
}
