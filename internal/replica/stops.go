// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"log/slog"
)

// stop stores what the guards hold, so that a restart holds it too. It returns what comes of an object that waits for
// that: another look where it cannot be stored.
func (r *run) stop(ctx context.Context) result {
	err := r.alone(ctx, func() error {
		return r.store(ctx, Stops{
			Deletes: r.stored.Deletes, Epoch: r.stored.Epoch,
			HeldDeletes: r.deletes.Held(), HeldEpoch: r.epochs.Holds(),
		})
	})
	if err != nil {
		r.said.Do(func() { r.log.Warn("it cannot be stored that the replica is held", slog.Any("error", err)) })
		return later
	}
	return waits
}

// release lets the replica go on with what the guards hold, once that is stored.
func (r *run) release(ctx context.Context) error {
	return r.alone(ctx, func() error {
		if err := r.store(ctx, Stops{Deletes: r.deletes.Confirmed(), Epoch: r.epochs.Confirmed()}); err != nil {
			return err
		}
		r.deletes.Release()
		r.epochs.Release(r.stored.Epoch)
		return nil
	})
}

// alone calls f while no other caller's f runs.
func (r *run) alone(ctx context.Context, f func() error) error {
	select {
	case r.storing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-r.storing }()
	return f()
}

// store replaces the stops that the state has.
func (r *run) store(ctx context.Context, s Stops) error {
	if s == r.stored {
		return nil
	}
	if err := r.cfg.State.Store(ctx, s); err != nil {
		return err
	}
	r.stored = s
	return nil
}
