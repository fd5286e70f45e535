// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"encoding/json"
	"log/slog"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// epochs stops a replica whose source began with other versions: its etcd was restored, or its cluster rebuilt. It is
// safe for concurrent use.
type epochs struct {
	follow bool

	mu sync.Mutex
	// began has, by resource, the greatest epoch that began with such a gap.
	began map[uint16]uint64
	// released is the greatest epoch that a person has released.
	released uint64
	// held is the epoch that stops the replica; 0 is none.
	held uint64
}

func newEpochs(follow bool, released uint64) *epochs {
	return &epochs{follow: follow, released: released, began: make(map[uint16]uint64)}
}

// note says that a resource has an epoch that began with such a gap.
func (e *epochs) note(resource uint16, epoch uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.began[resource] = max(e.began[resource], epoch)
}

// stops reports whether the replica must not write, because of what it knows of an object: it was written in an epoch
// before, or its version goes back.
func (e *epochs) stops(row *keys.Row) (stops, isNew bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.follow || e.held != 0 || row.Actual.Owner != keys.Ours {
		return e.held != 0, false
	}
	began, applied, desired := e.began[row.Resource], row.Actual.Applied, row.Desired.Sequence
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

// newest returns the epoch that a person releases who looks now.
func (e *epochs) newest() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	newest := max(e.released, e.held)
	for _, began := range e.began {
		newest = max(newest, began)
	}
	return newest
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
		Cause string
		Epoch uint64
	}
	if json.Unmarshal(e.Data, &data) != nil || data.Cause != "restored" && data.Cause != "rebuilt" {
		return
	}
	r.epochs.note(res.number, data.Epoch)
	for _, row := range r.table.All() {
		if row.Resource == res.number && r.stopped(&row) {
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
