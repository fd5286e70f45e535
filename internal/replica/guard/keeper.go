// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"time"
)

// Stops are what guards have stopped, and what a person has released of that.
type Stops struct {
	// Deletes is the time of the log up to which deletes were released, and Epoch the released epoch of the source.
	Deletes time.Time
	Epoch   uint64
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
	// turn has a value while somebody uses stored, which is what the state has.
	turn   chan struct{}
	stored Stops
}

// NewKeeper returns one of a state that has stops.
func NewKeeper(state State, stops Stops, deletes *Deletes, epochs *Epochs) *Keeper {
	return &Keeper{deletes: deletes, epochs: epochs, state: state, turn: make(chan struct{}, 1), stored: stops}
}

// Save returns when what the guards hold is stored.
func (k *Keeper) Save(ctx context.Context) error {
	return k.inTurn(ctx, func() error {
		held := Stops{
			Deletes: k.stored.Deletes, Epoch: k.stored.Epoch, HeldDeletes: k.deletes.Held(), HeldEpoch: k.epochs.Holds(),
		}
		if held == k.stored {
			return nil
		}
		return k.store(ctx, held)
	})
}

// Release stores that a person has released what the guards hold, and lets them go on.
func (k *Keeper) Release(ctx context.Context) error {
	return k.inTurn(ctx, func() error {
		if err := k.store(ctx, Stops{Deletes: k.deletes.Confirmed(), Epoch: k.epochs.Confirmed()}); err != nil {
			return err
		}
		k.deletes.Release()
		k.epochs.Release(k.stored.Epoch)
		return nil
	})
}

func (k *Keeper) inTurn(ctx context.Context, f func() error) error {
	select {
	case k.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-k.turn }()
	return f()
}

func (k *Keeper) store(ctx context.Context, s Stops) error {
	if err := k.state.Store(ctx, s); err != nil {
		return err
	}
	k.stored = s
	return nil
}
