// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/ledger"
	"github.com/kube-eventbridge/kube-eventbridge/internal/bridge/membership"
	"github.com/kube-eventbridge/kube-eventbridge/internal/sequence"
	"github.com/kube-eventbridge/kube-eventbridge/source"
)

// move moves rows and positions of streams that are only stored to those that take them over, in one commit. What is
// left of a stream is being deleted in the log from then on. The error is ctx's, or permanent.
func (p *session) move(ctx context.Context, h handover) error {
	return p.insist(ctx, func() error {
		p.committing.Lock()
		defer p.committing.Unlock()
		m := p.planMove(h)
		if err := p.cfg.Store.Commit(ctx, m.batch); err != nil {
			return err
		}
		p.logged, p.unlogged = *m.batch.Log, false
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, name := range m.batch.Forget {
			delete(p.state.Streams, name)
			delete(p.state.Rows, name)
			delete(p.unopenedSaved, name)
		}
		for name, saved := range m.batch.Streams {
			p.state.Streams[name], p.state.Rows[name] = saved, m.rows[name]
			delete(p.unopenedSaved, name)
			p.log.Info("stream takes over", "stream", name, "epoch", saved.Epoch, "objects", len(m.rows[name]),
				"from", saved.Owes.From, "retires", saved.Retiring)
		}
		return nil
	})
}

// movement is the commit of a handover, and the rows of the streams in it after that.
type movement struct {
	batch *checkpoint.Batch
	rows  map[string]map[string]checkpoint.Row
}

// planMove makes the commit of a handover. The caller holds committing.
func (p *session) planMove(h handover) movement {
	p.mu.Lock()
	defer p.mu.Unlock()
	m := movement{rows: map[string]map[string]checkpoint.Row{}, batch: &checkpoint.Batch{
		Identity: p.cfg.Identity, Streams: map[string]checkpoint.Stream{},
		Put: map[string]map[string]checkpoint.Row{}, Drop: map[string][]string{},
	}}
	epoch := sync.OnceValue(p.epochs.Next) // what one change concerns has one number
	taken := map[string]map[string]struct{}{}
	for _, a := range h.to {
		p.takeOver(&m, a, epoch, taken)
	}
	for _, name := range h.from {
		if _, goesOn := m.batch.Streams[name]; goesOn {
			continue
		}
		left, dropped := map[string]checkpoint.Row{}, []string(nil)
		for key, row := range p.state.Rows[name] {
			if _, is := taken[name][key]; is {
				dropped = append(dropped, key)
			} else {
				left[key] = row
			}
		}
		if len(left) == 0 {
			m.batch.Forget = append(m.batch.Forget, name)
			continue
		}
		saved := p.state.Streams[name]
		m.batch.Streams[name] = ledger.Retiring(&saved, epoch, saved.Position, string(membership.Deselected))
		m.batch.Drop[name], m.rows[name] = dropped, left
	}
	log := p.logged
	log.Given = p.epochs.Last()
	m.batch.Log = &log
	return m
}

// takeOver adds what one stream takes over to a movement. Taken are the keys of the rows that are taken of each stream.
func (p *session) takeOver(
	m *movement, a *membership.Assignment, epoch func() uint64, taken map[string]map[string]struct{},
) {
	name, rows, put := a.Stream.Name(), map[string]checkpoint.Row{}, map[string]checkpoint.Row{}
	for _, from := range a.From {
		at, _ := source.ParseName(from)
		if taken[from] == nil {
			taken[from] = map[string]struct{}{}
		}
		for key, row := range p.state.Rows[from] {
			id := ledger.Ident(key, &row)
			if a.Stream.Namespace != "" && a.Stream.Namespace != id.Namespace {
				continue
			}
			taken[from][key] = struct{}{}
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
	m.rows[name], m.batch.Put[name] = rows, put
	m.batch.Streams[name] = p.successor(a, rows, epoch)
}

// successor returns the state of a stream that goes on where others were.
func (p *session) successor(
	a *membership.Assignment, rows map[string]checkpoint.Row, epoch func() uint64,
) checkpoint.Stream {
	to := checkpoint.Stream{
		Fingerprint: a.Stream.Scope(), Kind: a.Stream.Kind, Namespaced: a.Stream.Namespaced, Called: a.Called,
	}
	var order []sequence.Stream
	var namespaces []string
	var position, from string
	for i, name := range a.From {
		saved := p.state.Streams[name]
		at, _ := source.ParseName(name)
		order = append(order, sequence.Stream{
			Epoch: saved.Epoch, Since: saved.Since, Position: ledger.Numeric(saved.Position), Owes: saved.Owes.List,
			Floors: saved.Floors,
		})
		namespaces = append(namespaces, at.Namespace)
		if i == 0 || ledger.Numeric(saved.Position) < ledger.Numeric(position) {
			position = saved.Position
		}
		if had := complete(&saved, len(p.state.Rows[name])); had != "" &&
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
	to.Position, to.Epoch, to.Since, to.Floors = position, next.Epoch, next.Since, next.Floors
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

// stored returns the streams of which the store has something, or will, in the order of their names; and of each
// namespace the version at which a selector took it last.
func (p *session) stored() (all []membership.Stored, entered map[string]string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	entered = map[string]string{}
	add := func(at source.Stream, saved *checkpoint.Stream, left map[string]struct{}) {
		all = append(all, membership.Stored{
			Stream: at, Scope: saved.Fingerprint, Called: saved.Called, Retiring: saved.Retiring, Left: left,
		})
		if saved.Entered != "" && !ledger.After(entered[at.Namespace], saved.Entered) {
			entered[at.Namespace] = saved.Entered
		}
	}
	open := map[string]bool{}
	for _, s := range p.streams {
		open[s.Name] = true
		s.Mu.Lock()
		saved := s.Saved
		s.Mu.Unlock()
		add(s.At(), &saved, s.Left)
	}
	for name, saved := range p.state.Streams {
		if at, ok := source.ParseName(name); ok && !open[name] {
			at.Kind, at.Namespaced = saved.Kind, saved.Namespaced
			var left map[string]struct{}
			if saved.Retiring {
				left = inNamespaces(p.state.Rows[name])
			}
			add(at, &saved, left)
		}
	}
	slices.SortFunc(all, func(a, b membership.Stored) int { return cmp.Compare(a.Stream.Name(), b.Stream.Name()) })
	return all, entered
}

// inNamespaces returns the namespaces of objects.
func inNamespaces(rows map[string]checkpoint.Row) map[string]struct{} {
	all := map[string]struct{}{}
	for key, row := range rows {
		id := ledger.Ident(key, &row)
		all[id.Namespace] = struct{}{}
	}
	return all
}
