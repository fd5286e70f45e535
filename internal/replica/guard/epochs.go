// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"maps"
	"slices"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// Epochs stops a replica whose source began with other versions: its etcd was restored, or its cluster rebuilt. It is
// safe for concurrent use.
type Epochs struct {
	follow bool

	mu sync.Mutex
	// began has the greatest epoch that began with such a gap.
	began map[Part]uint64
	// released is the greatest epoch that a person has released.
	released uint64
	// held is the epoch that stops the replica; 0 is none.
	held uint64
}

// Part is a resource of the source, or one namespace of it.
type Part struct {
	Resource  uint16
	Namespace string
}

// NewEpochs returns a guard that follows every epoch, or those up to released, which a person has confirmed. It stops
// the replica at once if held is not 0.
func NewEpochs(follow bool, released, held uint64) *Epochs {
	if follow {
		held = 0
	}
	return &Epochs{follow: follow, released: released, held: held, began: make(map[Part]uint64)}
}

// Note says that a part of the source has an epoch that began with such a gap.
func (e *Epochs) Note(p Part, epoch uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.began[p] = max(e.began[p], epoch)
}

// Stops reports whether the replica must not write, because of what it knows of an object: it was written in an epoch
// before, or its version goes back.
func (e *Epochs) Stops(row *keys.Row) (stops, isNew bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.follow || e.held != 0 || row.Actual.Owner != keys.Ours {
		return e.held != 0, false
	}
	began := max(e.began[Part{row.Resource, ""}], e.began[Part{row.Resource, row.Namespace}])
	applied, desired := row.Actual.Applied, row.Desired.Sequence
	switch {
	case began > e.released && applied.Epoch < began:
		e.held = began
	case desired.Epoch > e.released && desired.Epoch > applied.Epoch && desired.Version < applied.Version:
		e.held = desired.Epoch
	}
	return e.held != 0, e.held != 0
}

// Holds returns the epoch that stops the replica; 0 where none does.
func (e *Epochs) Holds() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held
}

// Confirmed returns the epoch up to which a person who lets the replica go on confirms what is known: the newest one if
// the replica is stopped, else what was confirmed before.
func (e *Epochs) Confirmed() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held == 0 {
		return e.released
	}
	return max(e.released, e.held, slices.Max(append(slices.Collect(maps.Values(e.began)), 0)))
}

// Release lets the replica go on in epochs up to one.
func (e *Epochs) Release(epoch uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.released, e.held = epoch, 0
}
