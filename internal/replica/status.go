// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
)

// Status is how a replica is doing.
type Status struct {
	Name string `json:"name"`
	// CaughtUp: the log was read up to the end that it had at the start, so that the replica writes.
	CaughtUp bool `json:"caughtUp"`
	// Objects is how many objects of the target are the replica's; Keys is how many the log has.
	Objects int `json:"objects"`
	Keys    int `json:"keys"`
	// Pending is how many keys have events that are not handled, and Lag is how long ago the oldest of them was recorded.
	Pending int           `json:"pending"`
	Lag     time.Duration `json:"lag"`
	// Parked counts the objects that wait, by reason.
	Parked map[plan.Reason]int `json:"parked,omitempty"`
	// HeldDeletes: deletes wait for Resume. HeldEpoch, if not 0, is the epoch at which all writes do.
	HeldDeletes bool   `json:"heldDeletes"`
	HeldEpoch   uint64 `json:"heldEpoch,omitempty"`
	// Writes counts requests to the target by their outcome.
	Writes map[string]uint64 `json:"writes,omitempty"`
	// Problems are why parts of the target cannot be read, by stream, or the broker is not told how far the replica is.
	// Of a replica that does not run they say why, under start.
	Problems map[string]string `json:"problems,omitempty"`
	// Failing is for how long the problem has lasted that has lasted longest.
	Failing time.Duration `json:"failing,omitempty"`
}

// Waiting is an object that waits.
type Waiting struct {
	Resource  string      `json:"resource"`
	Namespace string      `json:"namespace,omitempty"`
	Name      string      `json:"name"`
	Reason    plan.Reason `json:"reason"`
	Detail    string      `json:"detail,omitempty"`
	Since     time.Time   `json:"since"`
}

// Compare orders objects by reason, resource, namespace and name.
func (w Waiting) Compare(o Waiting) int {
	return cmp.Or(cmp.Compare(w.Reason, o.Reason), cmp.Compare(w.Resource, o.Resource),
		cmp.Compare(w.Namespace, o.Namespace), cmp.Compare(w.Name, o.Name))
}

// Name returns the replica's name.
func (p *Replica) Name() string { return p.cfg.Name }

// Status returns how the replica is doing; ok is false while it does not run.
func (p *Replica) Status() (s Status, ok bool) {
	r := p.current()
	if r == nil {
		s = Status{Name: p.cfg.Name}
		if err := p.idleError(); err != nil {
			s.Problems = map[string]string{"start": err.Error()}
		}
		return s, false
	}
	s = Status{Name: p.cfg.Name, Parked: r.parked.ByReason(), HeldDeletes: r.deletes.Held(), HeldEpoch: r.epochs.Holds()}
	s.Keys, s.Objects = r.table.Len()
	_, pending, oldest := r.outstanding.State()
	if s.Pending = pending; pending > 0 && !oldest.IsZero() {
		s.Lag = max(time.Since(oldest), 0)
	}
	select {
	case <-r.begun:
		s.CaughtUp = true
	default:
	}
	s.Writes = r.counts.Now()
	s.Problems, s.Failing = r.health.Now()
	return s, true
}

// Waiting returns objects that wait, at most so many for each reason.
func (p *Replica) Waiting(most int) (all []Waiting) {
	r := p.current()
	if r == nil {
		return nil
	}
	for id, k := range r.parked.List(most) {
		row := r.table.Get(id)
		all = append(all, Waiting{
			Resource: r.selection.at(row.Resource).GroupResource().String(), Namespace: row.Namespace, Name: row.Name,
			Reason: k.Reason, Detail: k.Detail, Since: k.Since,
		})
	}
	return all
}

// errNotRunning is the answer of a replica that does not run in this process.
var errNotRunning = errors.New("the replica does not run here")

// Resume lets a replica go on that a guard has stopped: deletes that are held are made, or an epoch is followed. Only
// what holds it is released: what a person was not told, a person has not confirmed. What is released survives
// restarts.
func (p *Replica) Resume(ctx context.Context) error {
	r := p.current()
	if r == nil {
		return errNotRunning
	}
	released := Released{Deletes: r.deletes.Confirmed(), Epoch: r.epochs.Confirmed()}
	if err := p.cfg.State.Store(ctx, released); err != nil {
		return err
	}
	r.deletes.Release(released.Deletes)
	r.epochs.Release(released.Epoch)
	for id, row := range r.table.All() {
		if row.Desired.Claim != keys.Unknown {
			r.enqueue(id)
		}
	}
	return nil
}

func (p *Replica) idleError() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.idle
}

func (p *Replica) current() *run {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}
