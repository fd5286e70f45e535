// SPDX-License-Identifier: Apache-2.0

package world

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// A pair of which one finds no occasion is the other one.
func TestFaults_of_a_pair_that_miss_do_not_count(t *testing.T) {
	hit := func(context.Context, *injection) error { return nil }
	miss := func(context.Context, *injection) error { return ErrMissed }
	fail := func(context.Context, *injection) error { return ErrUsed }
	for name, c := range map[string]struct {
		first, second func(context.Context, *injection) error
		injected      string
		err           error
	}{
		"both hit":          {hit, hit, "[a b]", nil},
		"the first misses":  {miss, hit, "[b]", nil},
		"the second misses": {hit, miss, "[a]", nil},
		"both miss":         {miss, miss, "[]", ErrMissed},
		"one fails":         {miss, fail, "[]", ErrUsed},
	} {
		t.Run(name, func(t *testing.T) {
			w := &World{}
			both := Fault{Name: "a", w: w, run: c.first}.With(Fault{Name: "b", w: w, run: c.second})
			injected, err := both.inject(t.Context(), rand.New(rand.NewPCG(1, 2)))
			assert.Equal(t, c.injected, fmt.Sprint(injected), "%v was injected", injected)
			assert.ErrorIs(t, err, c.err, "%v was injected", injected)
			assert.True(t, errors.Is(c.err, ErrMissed) || !errors.Is(err, ErrMissed),
				"it says that it missed: %v", err)
		})
	}
}

// A fault that says nothing of what it did, or of another thing, was not injected.
func TestFault_is_proved_by_what_is_recorded(t *testing.T) {
	now := time.Now()
	did := func(kind Kind) Event {
		return Event{At: now, Kind: kind, Fault: "a", Text: "did it", Before: 9, Kept: 5}
	}
	begins := Event{At: now, Kind: Begun, Fault: "a", Text: "begins"}
	kept := []Removed{{LogDeleted, []rig.Message{{}}}}
	for name, c := range map[string]struct {
		loses   Kind
		events  []Event
		removed []Removed
		proved  bool
	}{
		"it did":                       {Note, []Event{begins, did(Note)}, nil, true},
		"it only began":                {Note, []Event{begins}, nil, false},
		"another fault did":            {Note, []Event{begins, {At: now, Kind: Note, Fault: "b", Text: "it"}}, nil, false},
		"a log is gone":                {LogDeleted, []Event{begins, did(LogDeleted)}, kept, true},
		"a log is gone, and not kept":  {LogDeleted, []Event{begins, did(LogDeleted)}, nil, false},
		"a log is kept and not gone":   {Note, []Event{begins, did(Note)}, kept, false},
		"a log is kept, and was empty": {LogDeleted, []Event{begins, did(LogDeleted)}, []Removed{{Kind: LogDeleted}}, false},
		"etcd is restored":             {EtcdRestored, []Event{begins, did(EtcdRestored)}, nil, true},
		"etcd has lost nothing": {
			EtcdRestored, []Event{begins, {At: now, Kind: EtcdRestored, Fault: "a", Before: 5, Kept: 5}}, nil, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &World{events: c.events, removed: c.removed}
			err := (Fault{Name: "a", Loses: c.loses, w: w}).Proof(Mark{})
			assert.Equal(t, c.proved, (err == nil), "proved: %v", err)
		})
	}
}

func TestFaults_that_may_cause_a_gap_exist(t *testing.T) {
	left := maps.Clone(mayGap)
	for _, f := range slices.Concat(Catalogue(NATS, true, true), Catalogue(Kafka, true, true)) {
		delete(left, f.Name)
	}
	assert.Empty(t, left, "there are no faults of these names")
}

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
			must.Get(w.AwaitExit(t.Context()))(t)
			if err := w.StartBridge(); errors.Is(err, ErrEnded) != c.itself || (err != nil) != c.itself {
				t.Errorf("it is started again: %v", err)
			}
		})
	}
}

func TestFaults_start_a_bridge_again_that_may_have_ended(t *testing.T) {
	again := filepath.Join(t.TempDir(), "again")
	w := newProgram(t, "[ -e "+again+" ] && exec sleep 100; touch "+again+"; exit 1")
	must.Get(w.AwaitExit(t.Context()))(t)
	f := Fault{Name: "a", w: w}
	require.ErrorIs(t, f.running("before"), ErrEnded)
	w.Bridge().mayEnd.Store(true)
	require.NoError(t, f.running("before"))
	assert.True(t, w.Bridge().Running())
}

func TestFaults_need_a_bridge_that_runs(t *testing.T) {
	w := newProgram(t, "exit 3")
	must.Get(w.AwaitExit(t.Context()))(t)
	if _, err := (Fault{Name: "a", w: w}).Inject(t.Context(), nil); !errors.Is(err, ErrEnded) ||
		!strings.Contains(err.Error(), "before the fault") {
		t.Errorf("a dead bridge is broken: %v", err)
	}
}

// A bridge that hangs makes faults miss. A fault that has missed must not heal it.
func TestFault_that_missed_leaves_a_bridge_that_runs(t *testing.T) {
	w := newProgram(t, "exec sleep 100")
	before := w.Bridge()
	i := &injection{World: w}
	err := i.revive(ErrMissed)
	assert.True(t, errors.Is(err, ErrMissed) && w.Bridge() == before, "the bridge was replaced, %v", err)
	require.NoError(t, w.KillBridge())
	if err := i.revive(ErrMissed); !errors.Is(err, ErrMissed) || !w.Bridge().Running() {
		t.Errorf("a bridge that does not run was not started, %v", err)
	}
}

// echo is a server that says again what it hears.
func echo(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c) }()
		}
	}()
	return l.Addr().String()
}

func TestWay_can_be_broken_and_silent_and_opened_again(t *testing.T) {
	t.Parallel()
	w := must.Get(proxy.To(echo(t)))(t)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	say := func(c net.Conn, within time.Duration) error {
		_ = c.SetDeadline(time.Now().Add(within))
		if _, err := fmt.Fprintln(c, "hello"); err != nil {
			return err
		}
		_, err := bufio.NewReader(c).ReadString('\n')
		return err
	}
	dialed := func() error {
		c, err := net.Dial("tcp", w.Address())
		if err != nil {
			return err
		}
		return errors.Join(say(c, patience), c.Close())
	}
	c := must.Get(net.Dial("tcp", w.Address()))(t)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, say(c, patience))
	w.Silence()
	assert.Error(t, say(c, 100*time.Millisecond), "a silent way lets something through")
	w.Open()
	_ = c.SetDeadline(time.Now().Add(patience))
	assert.NoError(t, must.Err(bufio.NewReader(c).ReadString('\n')), "what was sent meanwhile does not arrive")
	w.Sever()
	require.Error(t, say(c, patience), "a broken way lets something through")
	assert.Error(t, dialed(), "a broken way lets something through")
	w.Open()
	require.NoError(t, dialed())
}

func TestMain(m *testing.M) {
	if os.Getenv(asWriter) != "" {
		writer()
	}
	if os.Getenv(asMounter) != "" {
		mounter()
	}
	goleak.VerifyTestMain(m)
}
