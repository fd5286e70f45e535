// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	bolt "go.etcd.io/bbolt"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
	"github.com/kube-eventbridge/kube-eventbridge/encode"
	"github.com/kube-eventbridge/kube-eventbridge/internal/cli/cmdutil"
	"github.com/kube-eventbridge/kube-eventbridge/internal/config"
	"github.com/kube-eventbridge/kube-eventbridge/internal/exit"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){"kube-eventbridge": func() { os.Exit(Main("", "")) }})
}

// leakChecked fails tests that pass and leave goroutines behind. The commands of scripts are processes of their own,
// and not checked.
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
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits": exits, "saved": saved, "held": held, "outdated": outdated,
		},
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
	store, err := file.Open(ts.MkAbs(args[0]), checkpoint.Identity{
		ClusterUID: "5f7d2a30", Cluster: "prod",
		Pipeline: args[1],
	})
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
		Identity: id,
		Log: &checkpoint.Log{
			ID: "KUBERNETES", Marks: map[int32]uint64{0: 7}, Ends: map[int32]uint64{0: 7},
			IDs: map[int32]string{0: "v.8.95.1"}, Given: 8, Resyncs: 3,
		},
		Streams: map[string]checkpoint.Stream{
			"configmaps.v1":           {Position: "100", Fingerprint: "4c3f1f1c", Epoch: 8, Since: 7},
			"deployments.v1.apps/web": {Epoch: 8, Owes: checkpoint.Owes{List: sequence.Reselect}},
		},
		Put: map[string]map[string]checkpoint.Row{"configmaps.v1": {
			"web/a": {UID: "u", ResourceVersion: "90", Epoch: 7, Version: 90},
			"web/b": {UID: "v", ResourceVersion: "95", Epoch: 8, Version: 95, Deleted: true},
		}},
	}), store.Close(), os.Chtimes(path, at, at)))
}

// outdated makes a checkpoint one that an older version has written: outdated FILE.
func outdated(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: outdated FILE")
	}
	db, err := bolt.Open(ts.MkAbs(args[0]), 0o600, nil)
	ts.Check(err)
	ts.Check(errors.Join(db.Update(func(tx *bolt.Tx) error {
		return tx.Bucket([]byte("meta")).Put([]byte("format"), []byte("1"))
	}), db.Close()))
}

// exitStatus returns the exit code that err, of a command that ran, holds.
func exitStatus(err error) (string, bool) {
	var e *exec.ExitError
	if !errors.As(err, &e) {
		return "", false
	}
	return strconv.Itoa(e.ExitCode()), true
}

func TestExecute_maps_errors_to_exit_codes(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		code   int
		stderr string
	}{
		{"done", nil, exit.Done, ""},
		{"failed", fmt.Errorf("publish k8s.a: %w", errors.New("no route")), exit.Failed, "error: publish k8s.a: no route\n"},
		{"usage", fmt.Errorf("x: %w", exit.Usagef("give a file")), exit.Usage, "error: x: give a file\nsee: x --help\n"},
		{
			"config", fmt.Errorf("load: %w", config.Problems{{File: "f", Line: 1, Column: 2, Message: "m"}}), exit.Usage,
			"f:1:2: m\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stderr bytes.Buffer
			cmd := &cobra.Command{
				Use: "x", RunE: func(*cobra.Command, []string) error { return c.err }, SilenceErrors: true,
				SilenceUsage: true,
			}
			cmd.SetArgs(nil)
			if code := executeCommand(t.Context(), cmd, &cmdutil.Streams{Err: &stderr}); code != c.code || stderr.String() != c.stderr {
				t.Errorf("got %d, %q; want %d, %q", code, stderr.String(), c.code, c.stderr)
			}
		})
	}
}

// The words of the configuration are those of the encoder.
func TestWords_of_config_are_those_of_encode(t *testing.T) {
	for _, c := range [][2]string{
		{string(config.ManagedFields), encode.KeepManagedFields},
		{string(config.LastApplied), encode.KeepLastApplied},
	} {
		assert.Equal(t, c[1], c[0], "config, encode")
	}
}
