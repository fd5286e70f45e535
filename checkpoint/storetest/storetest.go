// SPDX-License-Identifier: Apache-2.0

// Package storetest is the contract of [checkpoint.Store] as a test suite.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
)

// Store is a store that can be closed and opened again.
type Store interface {
	checkpoint.Store
	Close() error
}

// Opener opens the store at place for want. A place is the path of a file that does not exist the first time, in a
// directory that does; a store that is not made of files takes it as a name. An Opener is also called in a process of
// its own, and has nothing from the test's process but place and the environment.
type Opener func(place string, want checkpoint.Identity) (Store, error)

// Run checks that what open opens keeps the contract.
func Run(t *testing.T, open Opener) {
	if place := os.Getenv(childPlace); place != "" {
		commitForEver(t, open, place)
		return
	}
	s := suite{open}
	t.Run("a new store is empty", s.empty)
	t.Run("what was committed is there when it is opened again", s.model)
	t.Run("a forgotten stream is gone", s.forget)
	t.Run("what is known of the log stays until it is replaced", s.log)
	t.Run("a big batch", s.big)
	t.Run("5,000 streams", s.streams)
	t.Run("a context that has ended", s.cancelled)
	t.Run("another cluster or pipeline is refused", s.foreign)
	t.Run("a second user is refused", s.locked)
	t.Run("a kill leaves the state of a commit and loses none that returned", s.killed)
}

type suite struct{ open Opener }

// Identity is whose checkpoints the tests open.
var Identity = checkpoint.Identity{
	ClusterUID: "5f7d2a30-0c5b-4b8e-9a11-2f1f6f0f3b6d", Cluster: "prod-eu-1", Pipeline: "audit",
}

func place(t *testing.T) string { return filepath.Join(t.TempDir(), "store") }

func (s suite) mustOpen(t must.TB, place string) Store {
	t.Helper()
	store, err := s.open(place, Identity)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return store
}

// MustHold ends the test if what the store holds is not exactly want.
func MustHold(ctx context.Context, t must.TB, store checkpoint.Store, want *checkpoint.State) {
	t.Helper()
	if got := must.Get(store.Load(ctx))(t); !reflect.DeepEqual(got, want) {
		t.Fatalf("the checkpoint holds\n%+v, want\n%+v", got, want)
	}
}

// mustHold is for stores that may load a stream without rows as an empty map.
func mustHold(ctx context.Context, t must.TB, store Store, want *checkpoint.State) {
	t.Helper()
	got, err := store.Load(ctx)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	if diff := difference(got, want); diff != "" {
		t.Fatalf("the store holds something else: %s", diff)
	}
}

func (s suite) empty(t *testing.T) {
	at := place(t)
	store := s.mustOpen(t, at)
	mustHold(t.Context(), t, store, Empty())
	require.NoError(t, store.Close())
	store = s.mustOpen(t, at)
	mustHold(t.Context(), t, store, Empty())
	require.NoError(t, store.Close())
}

func (s suite) model(t *testing.T) {
	dir, n := t.TempDir(), 0
	ctx := t.Context()
	rapid.Check(t, func(t *rapid.T) {
		n++
		at := filepath.Join(dir, fmt.Sprint("store-", n))
		store, want := s.mustOpen(t, at), Empty()
		for i := range rapid.IntRange(1, 5).Draw(t, "batches") {
			b := drawBatch(t)
			require.NoError(t, store.Commit(ctx, b))
			Apply(want, b)
			if i%2 == 0 || rapid.Bool().Draw(t, "reopen") {
				require.NoError(t, store.Close())
				store = s.mustOpen(t, at)
			}
			mustHold(ctx, t, store, want)
		}
		require.NoError(t, store.Close())
	})
}

func (s suite) forget(t *testing.T) {
	at, want := place(t), Empty()
	store := s.mustOpen(t, at)
	for _, b := range []*checkpoint.Batch{
		numbered(1),
		{Identity: Identity, Forget: []string{"pods.v1", "never.v1"}},
	} {
		require.NoError(t, store.Commit(t.Context(), b))
		Apply(want, b)
		mustHold(t.Context(), t, store, want)
	}
	if _, ok := want.Rows["pods.v1"]; ok || len(want.Rows) == 0 {
		t.Fatal("the test forgets nothing, or everything")
	}
	require.NoError(t, store.Close())
	store = s.mustOpen(t, at)
	mustHold(t.Context(), t, store, want)
	require.NoError(t, store.Close())
}

// A batch that says nothing of the log leaves it as it is; one that knows nothing of it empties it.
func (s suite) log(t *testing.T) {
	at, want := place(t), Empty()
	store := s.mustOpen(t, at)
	known := checkpoint.Log{
		ID:    "l",
		Marks: map[int32]uint64{0: 1 << 63, 7: 0, -1: 3},
		Ends:  map[int32]uint64{0: 5, -1: 2},
		IDs:   map[int32]string{0: "id", -1: ""},
		Given: sequence.MaxEpoch, Resyncs: 1_764_000_000, Term: 3, ResyncNew: true,
	}
	for _, b := range []*checkpoint.Batch{
		{Identity: Identity},
		{Identity: Identity, Log: &known},
		numbered(3),
		{Identity: Identity, Forget: []string{"pods.v1"}},
		{Identity: Identity, Log: &checkpoint.Log{Marks: map[int32]uint64{}, IDs: map[int32]string{}}},
		{Identity: Identity, Log: &known},
		{Identity: Identity, Log: &checkpoint.Log{}},
	} {
		require.NoError(t, store.Commit(t.Context(), b))
		Apply(want, b)
		mustHold(t.Context(), t, store, want)
		require.NoError(t, store.Close())
		store = s.mustOpen(t, at)
		mustHold(t.Context(), t, store, want)
	}
	require.NoError(t, store.Close())
}

func (s suite) big(t *testing.T) {
	at, want := place(t), Empty()
	store := s.mustOpen(t, at)
	b := &checkpoint.Batch{Identity: Identity, Put: map[string]map[string]checkpoint.Row{}}
	drop := &checkpoint.Batch{Identity: Identity, Drop: map[string][]string{}}
	for _, stream := range []string{"pods.v1", "deployments.v1.apps", "secrets.v1/kube-system"} {
		rows := map[string]checkpoint.Row{}
		for i := range 10_000 {
			key := fmt.Sprintf("namespace-%d/object-%d", i%37, i)
			rows[key] = checkpoint.Row{
				UID: fmt.Sprintf("5f7d2a30-0c5b-4b8e-9a11-%012x", i), ResourceVersion: fmt.Sprint(1_000_000 + i),
				Epoch: 1_764_000_000, Version: uint64(1_000_000 + i), Sequence: uint64(i),
			}
			drop.Drop[stream] = append(drop.Drop[stream], key)
		}
		b.Put[stream] = rows
	}
	for _, b := range []*checkpoint.Batch{b, drop} {
		require.NoError(t, store.Commit(t.Context(), b))
		Apply(want, b)
		require.NoError(t, store.Close())
		store = s.mustOpen(t, at)
		mustHold(t.Context(), t, store, want)
	}
	require.NoError(t, store.Close())
}

// A selector of namespaces has a stream for each.
func (s suite) streams(t *testing.T) {
	at, want := place(t), Empty()
	store := s.mustOpen(t, at)
	all := &checkpoint.Batch{
		Identity: Identity, Streams: map[string]checkpoint.Stream{}, Put: map[string]map[string]checkpoint.Row{},
	}
	name := func(n int) string { return fmt.Sprintf("deployments.v1.apps/some-namespace-%d", n) }
	for n := range 5000 {
		all.Streams[name(n)] = checkpoint.Stream{Position: "1", Epoch: 1, Fingerprint: strings.Repeat("f", 16)}
		row := checkpoint.Row{UID: "u", ResourceVersion: "1", Epoch: 1, Version: 1}
		all.Put[name(n)] = map[string]checkpoint.Row{"some-namespace/a": row}
	}
	one := func(n int) *checkpoint.Batch {
		moved := map[string]checkpoint.Stream{name(n): {Position: "2", Epoch: 1}}
		return &checkpoint.Batch{Identity: Identity, Streams: moved}
	}
	for _, b := range []*checkpoint.Batch{
		all, one(7), all, one(4999), {Identity: Identity, Forget: []string{name(3)}}, one(8),
	} {
		require.NoError(t, store.Commit(t.Context(), b))
		Apply(want, b)
	}
	mustHold(t.Context(), t, store, want)
	require.NoError(t, store.Close())
	store = s.mustOpen(t, at)
	mustHold(t.Context(), t, store, want)
	require.NoError(t, store.Close())
}

func (s suite) cancelled(t *testing.T) {
	want := Empty()
	store := s.mustOpen(t, place(t))
	require.NoError(t, store.Commit(t.Context(), numbered(1)))
	Apply(want, numbered(1))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Commit(ended, numbered(2)); !errors.Is(err, context.Canceled) {
		t.Errorf("commit: error %v, want the context's", err)
	}
	if _, err := store.Load(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("load: error %v, want the context's", err)
	}
	mustHold(t.Context(), t, store, want)
	require.NoError(t, store.Commit(t.Context(), numbered(2)))
	Apply(want, numbered(2))
	mustHold(t.Context(), t, store, want)
	require.NoError(t, store.Close())
}

func (s suite) foreign(t *testing.T) {
	at, want := place(t), Empty()
	store := s.mustOpen(t, at)
	require.NoError(t, store.Commit(t.Context(), numbered(1)))
	Apply(want, numbered(1))
	others := map[string]func(*checkpoint.Identity){
		"cluster uid": func(id *checkpoint.Identity) { id.ClusterUID = "other" },
		"cluster":     func(id *checkpoint.Identity) { id.Cluster = "other" },
		"pipeline":    func(id *checkpoint.Identity) { id.Pipeline = "other" },
	}
	for name, change := range others {
		other := Identity
		change(&other)
		b := numbered(2)
		b.Identity = other
		mustBeForeign(t, name+": commit", store.Commit(t.Context(), b), other)
	}
	mustHold(t.Context(), t, store, want)
	require.NoError(t, store.Close())
	for name, change := range others {
		other := Identity
		change(&other)
		store, err := s.open(at, other)
		mustBeForeign(t, name+": open", err, other)
		if err == nil {
			require.NoError(t, store.Close())
		}
	}
	store = s.mustOpen(t, at)
	mustHold(t.Context(), t, store, want)
	require.NoError(t, store.Close())
}

func mustBeForeign(t *testing.T, what string, err error, other checkpoint.Identity) {
	t.Helper()
	var foreign *checkpoint.ForeignError
	if !errors.As(err, &foreign) || foreign.Has != Identity || foreign.Want != other || foreign.Path == "" {
		t.Errorf("%s: error %v, want a ForeignError that names both", what, err)
	}
}

func (s suite) locked(t *testing.T) {
	at := place(t)
	store := s.mustOpen(t, at)
	if second, err := s.open(at, Identity); err == nil {
		_ = second.Close()
		t.Error("opened twice")
	}
	require.NoError(t, store.Commit(t.Context(), numbered(1)))
	require.NoError(t, store.Close())
	require.NoError(t, s.mustOpen(t, at).Close())
}
