// SPDX-License-Identifier: Apache-2.0

// Package handover computes what streams take over from stored ones: rows, positions, and what is owed. It is a
// function of what is stored, and commits nothing.
package handover

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// Handover is what streams take over at once from stored ones.
type Handover struct {
	To   []*membership.Assignment
	From []string
}

// Movement is the commit of a [Handover], without what is known of the log, and the rows that its streams have after
// that.
type Movement struct {
	Batch *checkpoint.Batch
	Rows  map[string]map[string]checkpoint.Row
}

type planner struct {
	stored *checkpoint.State
	// epoch returns the same number each time: what one change concerns has one.
	epoch func() uint64
	moved Movement
	// taken are the keys of the rows that are taken, by stream.
	taken map[string]map[string]struct{}
}

// Plan returns what a handover moves between stored streams, under an epoch that next returns. What is left of a stream
// is being deleted in the log from then on; a stream of which nothing is left is forgotten.
func Plan(stored *checkpoint.State, h Handover, next func() uint64) Movement {
	p := &planner{
		stored: stored, epoch: sync.OnceValue(next), taken: map[string]map[string]struct{}{},
		moved: Movement{Rows: map[string]map[string]checkpoint.Row{}, Batch: &checkpoint.Batch{
			Streams: map[string]checkpoint.Stream{}, Put: map[string]map[string]checkpoint.Row{}, Drop: map[string][]string{},
		}},
	}
	for _, a := range h.To {
		p.takeOver(a)
	}
	for _, name := range h.From {
		if _, goesOn := p.moved.Batch.Streams[name]; !goesOn {
			p.leave(name)
		}
	}
	return p.moved
}

// leave adds what becomes of a stream whose rows were taken.
func (p *planner) leave(name string) {
	left, dropped := map[string]checkpoint.Row{}, []string(nil)
	for key, row := range p.stored.Rows[name] {
		if _, is := p.taken[name][key]; is {
			dropped = append(dropped, key)
		} else {
			left[key] = row
		}
	}
	batch := p.moved.Batch
	if len(left) == 0 {
		batch.Forget = append(batch.Forget, name)
		return
	}
	saved := p.stored.Streams[name]
	batch.Streams[name] = ledger.Retiring(&saved, p.epoch, saved.Position, string(membership.Deselected))
	batch.Drop[name], p.moved.Rows[name] = dropped, left
}

// takeOver adds what one stream takes over.
func (p *planner) takeOver(a *membership.Assignment) {
	name, rows, put := a.Stream.Name(), map[string]checkpoint.Row{}, map[string]checkpoint.Row{}
	for _, from := range a.From {
		at, _ := source.ParseName(from)
		if p.taken[from] == nil {
			p.taken[from] = map[string]struct{}{}
		}
		for key, row := range p.stored.Rows[from] {
			id := ledger.Ident(key, &row)
			if a.Stream.Namespace != "" && a.Stream.Namespace != id.Namespace {
				continue
			}
			p.taken[from][key] = struct{}{}
			if at.Version != a.Stream.Version { // nothing that is made of the data compares with what was
				row.Form, row.Digest = 0, [16]byte{}
			}
			last := row.Last()
			if other, both := rows[key]; both && other.Last().After(last.Sequence) {
				continue
			}
			rows[key] = row
			if from != name {
				put[key] = row
			} else {
				delete(put, key)
			}
		}
	}
	p.moved.Rows[name], p.moved.Batch.Put[name] = rows, put
	p.moved.Batch.Streams[name] = successor(p.stored, a, rows, p.epoch)
}

// successor returns the state of a stream that goes on where stored ones were, with their rows.
func successor(
	stored *checkpoint.State, a *membership.Assignment, rows map[string]checkpoint.Row, epoch func() uint64,
) checkpoint.Stream {
	to := checkpoint.Stream{
		Fingerprint: a.Stream.Scope(), Kind: a.Stream.Kind, Namespaced: a.Stream.Namespaced, Called: a.Called,
	}
	var order []sequence.Stream
	var namespaces []string
	var from string
	for i, name := range a.From {
		saved := stored.Streams[name]
		saved.Position = position(&saved, a.Stream.Namespace)
		at, _ := source.ParseName(name)
		order = append(order, sequence.Stream{
			Epoch: saved.Epoch, Since: saved.Since, Position: ledger.Numeric(saved.Position), Owes: saved.Owes.List,
			Floors: concerning(saved.Floors, cmp.Or(a.Stream.Namespace, at.Namespace)),
		})
		namespaces = append(namespaces, at.Namespace)
		if i == 0 || ledger.Numeric(saved.Position) < ledger.Numeric(to.Position) {
			to.Position = saved.Position
		}
		if had := complete(&saved, len(stored.Rows[name])); had != "" &&
			(from == "" || ledger.Numeric(had) < ledger.Numeric(from)) {
			from = had
		}
		if i == 0 || saved.Owes.List > to.Owes.List {
			to.Owes, to.Unannounced = saved.Owes, saved.Unannounced
		}
		to.Counter, to.ResyncDue = max(to.Counter, saved.Counter), to.ResyncDue || saved.ResyncDue
		if i == 0 || saved.Resynced < to.Resynced {
			to.Resynced = saved.Resynced
		}
		to.Reselected = to.Reselected || saved.Reselected
		if ledger.Numeric(saved.Replay.To) > ledger.Numeric(to.Replay.To) {
			to.Replay = saved.Replay
		}
		for _, o := range saved.Refused {
			if id := ledger.Ident(o.Key, &checkpoint.Row{}); a.Stream.Namespace == "" || a.Stream.Namespace == id.Namespace {
				to.Refused = append(to.Refused, o)
			}
		}
		if at.Namespace == a.Stream.Namespace {
			to.Entered = cmp.Or(to.Entered, saved.Entered)
		}
	}
	slices.SortFunc(to.Refused, func(a, b checkpoint.Refused) int {
		return cmp.Or(ledger.ByKey(a, b.Key), cmp.Compare(ledger.Numeric(b.Version), ledger.Numeric(a.Version)))
	})
	to.Refused = slices.CompactFunc(to.Refused, func(a, b checkpoint.Refused) bool { return a.Key == b.Key })
	next := sequence.TakeOver(order, namespaces)
	next.Resume(newest(rows))
	if !a.Same {
		next.Reselected(epoch(), sequence.Reselect)
		to.Unannounced, to.Reselected = checkpoint.Snapshot{}, true
	}
	to.Epoch, to.Since, to.Floors = next.Epoch, next.Since, next.Floors
	if to.Owes.List > sequence.Nothing {
		to.Owes.From = cmp.Or(from, to.Owes.From)
	}
	switch {
	case to.Owes.Cause == string(source.CauseCheckpointLost) && to.Owes.List >= next.Owes:
		// That list shows everything that another selection would.
	case !a.Same && next.Owes == sequence.Reselect:
		to.Owes = checkpoint.Owes{List: sequence.Reselect, From: from}
		if from != "" {
			to.Owes.Cause, to.Owes.Message = string(source.CauseSelection), "the entry selects other objects than before"
		}
	case next.Owes > to.Owes.List:
		to.Owes = checkpoint.Owes{
			List: next.Owes, From: from, Cause: string(source.CauseRestored), Message: "versions of a part do not compare",
		}
	}
	if next.Owes >= sequence.Republish {
		to.Position, to.Floors, to.Refused = "", nil, ledger.WithoutVersions(to.Refused)
	}
	return to
}

// position returns the version up to which the objects of a namespace are in the log of a stream that has them.
func position(saved *checkpoint.Stream, namespace string) string {
	at := saved.Position
	for _, f := range saved.Floors {
		// A floor of all namespaces is of what a stream has selected of them.
		if namespace != "" && f.Namespace == namespace && f.Position > ledger.Numeric(at) {
			at = strconv.FormatUint(f.Position, 10)
		}
	}
	return at
}

// concerning returns the floors that concern a namespace; all concern an empty one, which stands for all.
func concerning(floors []sequence.Floor, namespace string) (those []sequence.Floor) {
	for _, f := range floors {
		if namespace == "" || f.Namespace == "" || f.Namespace == namespace {
			those = append(those, f)
		}
	}
	return those
}

// complete returns the version up to which the log is complete of a stream with so many rows; "0" where it has a part
// of a first list, and empty where it has nothing.
func complete(saved *checkpoint.Stream, rows int) string {
	if at := cmp.Or(saved.Position, saved.Owes.From); at != "" || rows == 0 {
		return at
	}
	return "0"
}

// newest returns the greatest epoch of rows.
func newest(rows map[string]checkpoint.Row) (epoch uint64) {
	for _, row := range rows {
		epoch = max(epoch, row.Epoch)
	}
	return epoch
}
