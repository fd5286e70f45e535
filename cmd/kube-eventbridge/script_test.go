// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"kube-eventbridge": main})
}

// leakChecked fails tests that pass and leave goroutines behind. The commands of scripts are processes of their own, and not
// checked.
type leakChecked struct{ testscript.TestingM }

func (m leakChecked) Run() int {
	code := m.TestingM.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		_, _ = fmt.Fprintf(os.Stderr, "goleak: %v\n", err)
		return 1
	}
	return code
}

func TestScripts(t *testing.T) {
	example, err := filepath.Abs("../../config.example.yaml")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			data, err := os.ReadFile(example)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "example.yaml"), data, 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits},
	})
}

// exits runs a command that must end with the exit code of its first argument: exits 2 kube-eventbridge run.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND...")
	}
	err := ts.Exec(args[1], args[2:]...)
	code := "0"
	if err != nil {
		if code, _ = exitStatus(err); code == "" {
			ts.Fatalf("%v", err)
		}
	}
	if code != args[0] {
		ts.Fatalf("exit code %s, want %s", code, args[0])
	}
}
