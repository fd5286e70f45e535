// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"encoding/json"
	"log/slog"
	"strconv"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
)

// scope is what a stream of the source covers: all of it, if its members are empty.
type scope struct {
	Resource                                uint16
	Namespace, LabelSelector, FieldSelector string
}

// resync is one that the log has.
type resync struct {
	number int64
	// told is the mark of what was told since it began. A later resync has a greater one.
	told uint32
	// began has, by lane, the position of the marker that begins it, and ended the lanes that it has ended in.
	began map[uint16]uint64
	ended map[uint16]bool
	// gone is what is claimed of objects that it did not tell.
	gone keys.Desired
}

// tells reports whether an event is behind the resync's beginning.
func (s *resync) tells(e *event.Event) bool {
	began, ok := s.began[e.Lane]
	return ok && e.Position > began
}

// resyncs follows the complete resyncs of the log. It is used by who reads the log.
type resyncs struct {
	// next is the mark of the newest resync; 0 is none.
	next uint32
	// current has, by scope, the newest resync that has begun, and done the newest one that is complete and not pruned.
	current, done map[scope]*resync
}

func newResyncs() *resyncs {
	return &resyncs{current: make(map[scope]*resync), done: make(map[scope]*resync)}
}

// told returns the mark of the newest resync that an event of an object is told by; 0 where none has begun before it.
// What comes behind the end of a resync counts as told too.
func (s *resyncs) told(res *resource, e *event.Event) (mark uint32) {
	for _, known := range []map[scope]*resync{s.current, s.done} {
		for sc, state := range known {
			within := sc.Resource == res.number && (sc.Namespace == "" || sc.Namespace == e.Attr("namespace"))
			if within && state.tells(e) {
				mark = max(mark, state.told)
			}
		}
	}
	return mark
}

// learn takes over a marker.
func (s *resyncs) learn(res *resource, e *event.Event) {
	var data struct {
		Namespace, LabelSelector, FieldSelector string
		N                                       json.Number
		Complete                                bool
	}
	if json.Unmarshal(e.Data, &data) != nil {
		return
	}
	number, err := strconv.ParseInt(data.N.String(), 10, 64)
	if err != nil {
		return
	}
	sc := scope{res.number, data.Namespace, data.LabelSelector, data.FieldSelector}
	state := s.current[sc]
	if e.Op == event.ResyncStarted {
		if state == nil || state.number != number {
			s.next++
			state = &resync{number: number, told: s.next, began: make(map[uint16]uint64), ended: make(map[uint16]bool)}
			s.current[sc] = state
		}
		state.began[e.Lane] = e.Position
		return
	}
	if state == nil || state.number != number || !data.Complete || state.began[e.Lane] == 0 {
		return
	}
	state.ended[e.Lane] = true
	if len(state.ended) < int(e.Lanes) {
		return
	}
	state.gone = keys.Desired{Claim: keys.Gone, Position: e.Position, At: e.Time().Truncate(time.Millisecond)}
	s.done[sc] = state
}

// prune claims that what complete resyncs did not tell is gone. It is called once all that they told was learned.
func (r *run) prune(ctx context.Context) {
	for sc, state := range r.resyncs.done {
		delete(r.resyncs.done, sc)
		r.pruning.Go(func() { r.pruneScope(ctx, sc, state) })
	}
}

// pruneScope prunes within one scope. One with a field selector cannot be told from others in the target: there nothing
// is pruned.
func (r *run) pruneScope(ctx context.Context, sc scope, state *resync) {
	res := r.selection.at(sc.Resource)
	if sc.FieldSelector != "" {
		r.log.Warn("a complete resync prunes nothing: its stream has a field selector", slog.String("resource", res.Resource))
		return
	}
	if !r.targets.await(ctx, res) {
		return
	}
	within, err := r.targets.within(ctx, res, sc)
	if err != nil {
		r.log.Warn("a complete resync prunes nothing", slog.String("resource", res.Resource), slog.Any("reason", err))
		return
	}
	untold := r.untold(sc, state, within)
	for range untold { // all are counted before the first one is deleted
		r.deletes.Went(state.gone.At)
	}
	for _, id := range untold {
		if !r.table.Prune(id, state.gone, state.told) {
			r.deletes.CameBack(state.gone.At)
			continue
		}
		r.enqueue(id)
	}
}

// untold returns what a resync did not tell.
func (r *run) untold(sc scope, state *resync, within func(keys.Key) bool) (ids []keys.ID) {
	for id, row := range r.table.Of(sc.Resource) {
		if (sc.Namespace == "" || row.Namespace == sc.Namespace) && within(row.Key) && r.table.Untold(id, state.told) {
			ids = append(ids, id)
		}
	}
	return ids
}
