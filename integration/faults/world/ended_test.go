// SPDX-License-Identifier: Apache-2.0

package world

import (
	"errors"
	"github.com/stretchr/testify/require"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// newProgram returns a world of a bridge and nothing else: a script.
func newProgram(t *testing.T, script string) *World {
	t.Helper()
	dir := t.TempDir()
	w := &World{dir: dir, binary: filepath.Join(dir, "bridge"), replicas: []*replica{{server: "127.0.0.1:1"}}}
	require.NoError(t, os.WriteFile(w.binary, []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	require.NoError(t, w.StartBridge())
	t.Cleanup(func() { require.NoError(t, w.KillBridge()) })
	return w
}

// A bridge that was not asked to end and has is never started again in silence.
func TestStartBridge_refuses_where_the_last_one_ended_by_itself(t *testing.T) {
	const runs = "exec sleep 100"
	for name, c := range map[string]struct {
		script string
		end    func(*World) error
		itself bool
	}{
		"it exits":                  {"exit 3", func(*World) error { return nil }, true},
		"it exits with code 0":      {"exit 0", func(*World) error { return nil }, true},
		"somebody else kills it":    {"kill -9 $$", func(*World) error { return nil }, true},
		"it was killed":             {runs, (*World).KillBridge, false},
		"it was asked to stop":      {runs, func(w *World) error { return w.Bridge().signal(syscall.SIGTERM) }, false},
		"it exits and may":          {"exit 1", func(w *World) error { w.Bridge().mayEnd.Store(true); return nil }, false},
		"it has exited when killed": {"exit 1", func(w *World) error { <-w.Bridge().Ended(); return w.KillBridge() }, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newProgram(t, c.script)
			require.NoError(t, c.end(w))
			_, err := w.AwaitExit(t.Context())
			require.NoError(t, err)
			if err := w.StartBridge(); errors.Is(err, ErrEnded) != c.itself || (err != nil) != c.itself {
				t.Errorf("it is started again: %v", err)
			}
		})
	}
}

func TestFaults_need_a_bridge_that_runs(t *testing.T) {
	w := newProgram(t, "exit 3")
	_, err := w.AwaitExit(t.Context())
	require.NoError(t, err)
	if _, err := (Fault{Name: "a", w: w}).Inject(t.Context(), nil); !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "before the fault") {
		t.Errorf("a dead bridge is broken: %v", err)
	}
}

// A bridge that hangs makes faults miss. A fault that has missed must not heal it.
func TestFault_that_missed_leaves_a_bridge_that_runs(t *testing.T) {
	w := newProgram(t, "exec sleep 100")
	before := w.Bridge()
	i := &injection{World: w}
	if err := i.revive(ErrMissed); !errors.Is(err, ErrMissed) || w.Bridge() != before {
		t.Errorf("the bridge was replaced, %v", err)
	}
	require.NoError(t, w.KillBridge())
	if err := i.revive(ErrMissed); !errors.Is(err, ErrMissed) || !w.Bridge().Running() {
		t.Errorf("a bridge that does not run was not started, %v", err)
	}
}
