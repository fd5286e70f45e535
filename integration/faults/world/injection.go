// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// injection is one fault under way.
type injection struct {
	*World
	random *rand.Rand
	fault  Fault
}

// StartBridge is that of the world. Of two faults the other one may have started the bridge.
func (i *injection) StartBridge() error {
	err := i.World.StartBridge()
	if i.fault.joined && errors.Is(err, errRuns) {
		return nil
	}
	return err
}

// restartBridge kills the bridge if it runs and starts it.
func (i *injection) restartBridge() error { return errors.Join(i.KillBridge(), i.StartBridge()) }

// note records what was done.
func (i *injection) note(ctx context.Context, format string, args ...any) {
	i.record(ctx, Event{Kind: Note, Fault: i.fault.Name, Text: fmt.Sprintf(format, args...)})
}

// failed records why a fault was not injected.
func (i *injection) failed(ctx context.Context, err error) {
	e := Event{Kind: Note, Fault: i.fault.Name, Text: err.Error()}
	if errors.Is(err, ErrMissed) {
		e.Kind = Missed
	}
	i.record(ctx, e)
}

// lost records that something is not to be expected from the log any more.
func (i *injection) lost(ctx context.Context, kind Kind, format string, args ...any) {
	i.record(ctx, Event{Kind: kind, Fault: i.fault.Name, Text: fmt.Sprintf(format, args...)})
}

// between draws a duration.
func (i *injection) between(from, to time.Duration) time.Duration {
	return from + time.Duration(i.random.Int64N(int64(to-from)))
}

// patience is for how long a fault waits for its moment.
const patience = 20 * time.Second

// await waits for the fault's moment.
func (i *injection) await(ctx context.Context, what string, ok func() bool) error {
	if err := poll(ctx, patience, what, ok); err != nil {
		if ctx.Err() != nil {
			return err
		}
		return fmt.Errorf("%w: %w", ErrMissed, err)
	}
	return nil
}

// awaitReady waits until the bridge has seen its first lists through.
func (i *injection) awaitReady(ctx context.Context) error {
	return i.await(ctx, "the bridge to be ready", func() bool {
		leads := i.follow(ctx)
		ready, _ := i.Bridge().Ready(ctx)
		return leads && ready
	})
}

// revive mends the world for a fault that has missed its moment, and starts what does not run. A bridge that runs is
// not replaced: if it hangs, that would heal it before somebody sees it.
func (i *injection) revive(err error) error {
	i.mend(i.fault.Parts)
	if !errors.Is(err, ErrMissed) {
		return err
	}
	for _, r := range i.replicas {
		if !i.process(r).Running() {
			return errors.Join(err, i.StartBridge())
		}
	}
	return err
}
