// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// epochs stops a replica whose source began with other versions: its etcd was restored, or its cluster rebuilt. It is
// safe for concurrent use.
type epochs struct {
	follow bool

	mu sync.Mutex
	// began has the greatest epoch that began with such a gap.
	began map[part]uint64
	// released is the greatest epoch that a person has released.
	released uint64
	// held is the epoch that stops the replica; 0 is none.
	held uint64
}

// part is a resource of the source, or one namespace of it.
type part struct {
	resource  uint16
	namespace string
}

func newEpochs(follow bool, released uint64) *epochs {
	return &epochs{follow: follow, released: released, began: make(map[part]uint64)}
}

// note says that a part of the source has an epoch that began with such a gap.
func (e *epochs) note(p part, epoch uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.began[p] = max(e.began[p], epoch)
}

// stops reports whether the replica must not write, because of what it knows of an object: it was written in an epoch
// before, or its version goes back.
func (e *epochs) stops(row *keys.Row) (stops, isNew bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.follow || e.held != 0 || row.Actual.Owner != keys.Ours {
		return e.held != 0, false
	}
	began := max(e.began[part{row.Resource, ""}], e.began[part{row.Resource, row.Namespace}])
	applied, desired := row.Actual.Applied, row.Desired.Sequence
	switch {
	case began > e.released && applied.Epoch < began:
		e.held = began
	case desired.Epoch > e.released && desired.Epoch > applied.Epoch && desired.Version < applied.Version:
		e.held = desired.Epoch
	}
	return e.held != 0, e.held != 0
}

// holds returns the epoch that stops the replica; 0 where none does.
func (e *epochs) holds() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.held
}

// confirmed returns the epoch up to which a person who lets the replica go on confirms what is known: the newest one if
// the replica is stopped, else what was confirmed before.
func (e *epochs) confirmed() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.held == 0 {
		return e.released
	}
	return max(e.released, e.held, slices.Max(append(slices.Collect(maps.Values(e.began)), 0)))
}

// release lets the replica go on in epochs up to one.
func (e *epochs) release(epoch uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.released, e.held = epoch, 0
}

// learnGap takes over a marker of a gap.
func (r *run) learnGap(res *resource, e *event.Event) {
	var data struct {
		Namespace, Cause string
		Epoch            uint64
	}
	if json.Unmarshal(e.Data, &data) != nil || data.Cause != "restored" && data.Cause != "rebuilt" {
		return
	}
	r.epochs.note(part{res.number, data.Namespace}, data.Epoch)
	r.checkEpochs(res)
}

// checkEpochs stops the replica if any object of a resource says so, before others are written; nil is all resources.
func (r *run) checkEpochs(res *resource) {
	for _, row := range r.table.All() {
		if (res == nil || row.Resource == res.number) && r.stopped(&row) {
			return
		}
	}
}

// stopped reports whether the replica must not write because the source began with other versions, and says so once.
func (r *run) stopped(row *keys.Row) bool {
	stops, isNew := r.epochs.stops(row)
	if isNew {
		r.log.Error("the source's versions begin again: the replica stops until it is resumed",
			slog.Uint64("epoch", r.epochs.holds()), slog.String("object", row.Name))
	}
	return stops
}
