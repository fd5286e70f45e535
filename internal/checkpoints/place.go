// SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/checkpoint/file"
)

// Found is what a checkpoint holds, and when that was committed.
type Found struct {
	State *checkpoint.State
	Saved time.Time
}

// Place is where a pipeline's checkpoint is.
type Place interface {
	// String names it for a person.
	String() string
	// Look returns what the checkpoint holds, and disturbs no process. A checkpoint that was never written has the zero
	// identity.
	Look(ctx context.Context) (*Found, error)
	// Running is a [*RunningError] if a bridge is seen to run with the checkpoint now. At a broker that takes a while,
	// and [Place.Change] does it.
	Running() error
	// Caution says for a person what to know before a change, if Running cannot tell; it is empty otherwise.
	Caution() string
	// Change opens a checkpoint that was written, and commits what decide makes of its state, if that moves anything.
	// Backup is where a copy of what it held is; empty where there is none. The error is a [*RunningError] while a
	// bridge runs.
	Change(ctx context.Context, decide func(*checkpoint.State) (*Change, error)) (backup string, err error)
	// Discard removes a checkpoint that an older version has written, so that the next start makes a new one. Backup is
	// where it is now; empty where it is gone. The error is a [*RunningError] while a bridge is seen to run.
	Discard(ctx context.Context) (backup string, err error)
}

// RunningError says that a bridge uses the checkpoint.
type RunningError struct{ Where string }

// Error implements error.
func (e *RunningError) Error() string {
	return fmt.Sprintf("a kube-eventbridge runs with the checkpoint in %s: stop it first; nothing was changed", e.Where)
}

// UnwrittenError says that there is no checkpoint yet.
type UnwrittenError struct{ Where string }

// Error implements error.
func (e *UnwrittenError) Error() string {
	return fmt.Sprintf("there is no checkpoint in %s yet: a bridge makes it when it runs first", e.Where)
}

// File is the path of one.
type File string

// String implements [Place].
func (f File) String() string { return "file " + string(f) }

// Look implements [Place].
func (f File) Look(ctx context.Context) (*Found, error) {
	state, saved, err := file.Peek(ctx, string(f))
	if errors.Is(err, fs.ErrNotExist) {
		return &Found{State: &checkpoint.State{}}, nil
	}
	return &Found{state, saved}, err
}

// Running implements [Place].
func (f File) Running() error {
	if used, err := file.InUse(string(f)); err != nil || !used {
		return nil // an error comes again when the file is to be read or changed
	}
	return &RunningError{f.String()}
}

// Caution implements [Place].
func (File) Caution() string { return "" }

// Change implements [Place].
func (f File) Change(ctx context.Context, decide func(*checkpoint.State) (*Change, error)) (backup string, err error) {
	found, err := f.Look(ctx)
	if err != nil {
		return "", err
	}
	if found.State.Identity == (checkpoint.Identity{}) {
		return "", &UnwrittenError{f.String()}
	}
	store, err := file.Open(string(f), found.State.Identity)
	var busy *file.BusyError
	if errors.As(err, &busy) {
		return "", &RunningError{f.String()}
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	return change(ctx, store, decide, func() (string, error) { return f.backup(store) })
}

// backup copies an open checkpoint beside itself, to a name that nothing has.
func (f File) backup(store *file.Store) (string, error) { return f.beside(store.Backup) }

// Discard implements [Place].
func (f File) Discard(context.Context) (backup string, err error) {
	backup, err = f.beside(func(to string) error { return file.Discard(string(f), to) })
	var busy *file.BusyError
	if errors.As(err, &busy) {
		return "", &RunningError{f.String()}
	}
	if err != nil {
		return "", err
	}
	return backup, nil
}

// beside calls do with a path beside the file that nothing has.
func (f File) beside(do func(to string) error) (string, error) {
	base := string(f) + "." + time.Now().UTC().Format("20060102T150405Z")
	for n := 0; ; n++ {
		to := base + ".bak"
		if n > 0 {
			to = fmt.Sprintf("%s.%d.bak", base, n)
		}
		if err := do(to); !errors.Is(err, os.ErrExist) {
			return to, err
		}
	}
}

// change commits what is decided of a store's state, after a copy of it was made.
func change(
	ctx context.Context, store checkpoint.Store, decide func(*checkpoint.State) (*Change, error),
	copied func() (string, error),
) (backup string, err error) {
	state, err := store.Load(ctx)
	if err != nil {
		return "", err
	}
	c, err := decide(state)
	if err != nil || len(c.Moves) == 0 {
		return "", err
	}
	if backup, err = copied(); err != nil {
		return "", err
	}
	return backup, store.Commit(ctx, c.Batch)
}
