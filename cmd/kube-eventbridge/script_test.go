// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
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
	example := must.Get(filepath.Abs("../../config.example.yaml"))(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			data, err := os.ReadFile(example)
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(e.WorkDir, "example.yaml"), data, 0o600)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "saved": saved, "held": held},
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

// held opens a checkpoint as a bridge that runs does, until the script ends: held FILE PIPELINE.
func held(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: held FILE PIPELINE")
	}
	store, err := file.Open(ts.MkAbs(args[0]), checkpoint.Identity{ClusterUID: "5f7d2a30", Cluster: "prod", Pipeline: args[1]})
	ts.Check(err)
	ts.Defer(func() { _ = store.Close() })
}

// saved writes a checkpoint as a bridge does: saved FILE PIPELINE.
func saved(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: saved FILE PIPELINE")
	}
	path, id := ts.MkAbs(args[0]), checkpoint.Identity{ClusterUID: "5f7d2a30", Cluster: "prod", Pipeline: args[1]}
	store, err := file.Open(path, id)
	ts.Check(err)
	at := time.Date(2026, 11, 22, 11, 0, 0, 0, time.UTC)
	ts.Check(errors.Join(store.Commit(context.Background(), &checkpoint.Batch{ //nolint:forbidigo // a script has no context
		Identity: id, Log: &checkpoint.Log{ID: "KUBERNETES", Marks: map[int32]uint64{0: 7}, Trail: []checkpoint.Waypoint{
			{Marks: map[int32]uint64{0: 7}, Positions: map[string]string{"configmaps.v1": "100"}},
		}},
		Streams: map[string]checkpoint.Stream{"configmaps.v1": {Position: "100", Fingerprint: "4c3f1f1c"}, "deployments.v1.apps/web": {}},
		Put:     map[string]map[string]checkpoint.Row{"configmaps.v1": {"web/a": {UID: "u", ResourceVersion: "90"}, "web/b": {UID: "v", ResourceVersion: "95", Deleted: true}}},
	}), store.Close(), os.Chtimes(path, at, at)))
}
