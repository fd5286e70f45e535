// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"sync/atomic"
	"time"
)

// Stops are what guards have stopped, and what a person has released of that.
type Stops struct {
	// Deletes is the time of the log up to which deletes were released, and Epoch the released epoch of the source.
	Deletes time.Time
	Epoch   uint64
	// Left is how many of the objects that ended up to Deletes the target still had when that was stored last.
	Left int
	// HeldDeletes: deletes wait for a person. HeldEpoch, if not 0, is the epoch at which all writes do.
	HeldDeletes bool
	HeldEpoch   uint64
}

// State keeps the stops of a replica.
type State interface {
	// Load returns what was stored; the zero Stops where nothing was.
	Load(ctx context.Context) (Stops, error)
	// Store replaces it.
	Store(ctx context.Context, s Stops) error
}

// Keeper stores what two guards hold, so that a restart holds it too. It is safe for concurrent use.
type Keeper struct {
	deletes *Deletes
	epochs  *Epochs
	state   State
	// turn has a value while somebody changes stored, which is what the state has.
	turn   chan struct{}
	stored atomic.Pointer[Stops]
}

// NewKeeper returns one of a state that has stops.
func NewKeeper(state State, stops Stops, deletes *Deletes, epochs *Epochs) *Keeper {
	k := &Keeper{deletes: deletes, epochs: epochs, state: state, turn: make(chan struct{}, 1)}
	k.stored.Store(&stops)
	return k
}

// Stored returns what was stored last.
func (k *Keeper) Stored() Stops { return *k.stored.Load() }

// Save returns when what the guards hold is stored, and whether that is new.
func (k *Keeper) Save(ctx context.Context) (isNew bool, err error) {
	err = k.inTurn(ctx, func(stored Stops) error {
		held := stored
		held.HeldDeletes, held.HeldEpoch = k.deletes.Held(), k.epochs.Holds()
		if isNew = held != stored; isNew {
			return k.store(ctx, held)
		}
		return nil
	})
	return isNew, err
}

// Release stores that a person has released what the guards hold, and lets them go on. Left tells how many of the
// objects that ended up to a time the target still has.
func (k *Keeper) Release(ctx context.Context, left func(until time.Time) int) error {
	return k.inTurn(ctx, func(stored Stops) error {
		held, until := k.deletes.Held(), k.deletes.Confirmed().UTC() // as Load returns it
		next := Stops{Deletes: until, Epoch: k.epochs.Confirmed(), Left: left(until)}
		if !held { // no delete is released
			next.Left = min(next.Left, stored.Left)
		}
		if err := k.store(ctx, next); err != nil {
			return err
		}
		k.deletes.Release()
		k.epochs.Release(next.Epoch)
		return nil
	})
}

// SaveLeft stores how many objects are left of those that a person has released, until none is. Left is as for Release.
// What another process has stored meanwhile stays.
func (k *Keeper) SaveLeft(ctx context.Context, left func(until time.Time) int) error {
	return k.inTurn(ctx, func(stored Stops) error {
		next := stored
		if stored.Left > 0 {
			next.Left = min(stored.Left, left(stored.Deletes))
		}
		if next == stored {
			return nil
		}
		if now, err := k.state.Load(ctx); err != nil || now != stored {
			return err
		}
		return k.store(ctx, next)
	})
}

func (k *Keeper) inTurn(ctx context.Context, f func(stored Stops) error) error {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-k.turn }()
	return f(k.Stored())
}

func (k *Keeper) store(ctx context.Context, s Stops) error {
	if err := k.state.Store(ctx, s); err != nil {
		return err
	}
	k.stored.Store(&s)
	return nil
}
