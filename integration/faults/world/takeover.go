// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Takeover is a change of the leader that a fault has caused.
type Takeover struct {
	// Cause is what became of the leader.
	Cause Cause
	// Seconds is the time from that to when another one leads and has begun to read.
	Seconds float64
	// Joined says that something else was broken at the same time, which the next one may have had to wait for.
	Joined bool
}

// Cause is what became of a leader.
type Cause string

// The causes of takeovers.
const (
	Stopped    Cause = "stopped" // as an operator does; the time begins when the process has ended
	Killed     Cause = "killed"
	Asleep     Cause = "asleep"
	CutOff     Cause = "cut off from the API server"
	LeaseGone  Cause = "Lease deleted" // the same one may lead again
	LeaseTaken Cause = "Lease taken by another"
)

// Promised is how long a takeover takes at most, on a machine with nothing else to do.
func (c Cause) Promised() time.Duration {
	if c == Stopped {
		return 2 * time.Second
	}
	return LeaseDuration + 2*time.Second
}

// Takeovers returns those that there were so far, in their order.
func (w *World) Takeovers() []Takeover {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.takeovers)
}

// taking is for how long no bridge may lead, whatever else is broken meanwhile.
const taking = 2 * time.Minute

// takeover waits until another process than the former leader leads and reads, which has to come, and records how long
// that took since the leader was lost.
func (i *injection) takeover(ctx context.Context, cause Cause, former *Bridge, since time.Time) error {
	return i.tookOver(ctx, cause, since, func() bool { return i.leader(ctx, former) != nil })
}

// tookOver waits until what has to come, and records it.
func (i *injection) tookOver(ctx context.Context, cause Cause, since time.Time, done func() bool) error {
	if err := i.awaitLeader(ctx, done); err != nil {
		return err
	}
	took := time.Since(since)
	i.mu.Lock()
	i.takeovers = append(i.takeovers, Takeover{cause, took.Seconds(), i.fault.joined})
	i.mu.Unlock()
	i.note(ctx, "%s: another one leads after %s", cause, took.Round(time.Millisecond))
	return nil
}

// awaitLeader waits until ok, which has to come.
func (i *injection) awaitLeader(ctx context.Context, ok func() bool) error {
	err := poll(ctx, taking, "a replica to lead", ok)
	if err == nil || ctx.Err() != nil {
		return err
	}
	said := ""
	for n, b := range i.processes() {
		_, ready := b.Ready(ctx)
		said += fmt.Sprintf("\nreplica %d: %s: %s", n+1, ready, b.lastWords())
	}
	return fmt.Errorf("%w: %w; %s", ErrUnsettled, err, said)
}

// theLeader waits until one leads, and returns it.
func (i *injection) theLeader(ctx context.Context) (b *Bridge, err error) {
	err = i.awaitLeader(ctx, func() bool {
		b = i.leader(ctx, nil)
		return b != nil
	})
	return b, err
}
