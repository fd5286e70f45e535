// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
)

// Status is how a replica is doing.
type Status struct {
	Name string `json:"name"`
	// Cluster and Pipeline say which events of the log count.
	Cluster  string `json:"cluster"`
	Pipeline string `json:"pipeline"`
	// CaughtUp: the log was read up to the end that it had at the start, so that the replica writes.
	CaughtUp bool `json:"caughtUp"`
	// Objects is how many objects of the target are the replica's; Keys is how many the log has.
	Objects int `json:"objects"`
	Keys    int `json:"keys"`
	// Pending is how many keys have events that are not handled, and Lag is how long ago the oldest of them was recorded,
	// or for how long the log has not answered or is read up to its end, if that is longer: the replica may be so far
	// behind.
	Pending int           `json:"pending"`
	Lag     time.Duration `json:"lag"`
	// Parked counts the objects that wait, by reason.
	Parked map[plan.Reason]int `json:"parked,omitempty"`
	// HeldDeletes: deletes wait for Resume. HeldEpoch, if not 0, is the epoch at which all writes do.
	HeldDeletes bool   `json:"heldDeletes"`
	HeldEpoch   uint64 `json:"heldEpoch,omitempty"`
	// Writes counts requests to the target by their outcome.
	Writes map[string]uint64 `json:"writes,omitempty"`
	// Failing is for how long what fails at present has failed that has failed for longest.
	Failing  time.Duration `json:"failing,omitempty"`
	Failures `json:"-"`
}

// Failures are what keeps a replica from doing its work.
type Failures struct {
	// Starting is why it does not run yet, and Ended why it does not run any more.
	Starting, Ended error
	// Target has, by stream of the target, why it cannot be read. Log is why the log does not answer.
	Target map[string]error
	Log    error
}

// Texts returns the failures for a person, by what fails.
func (f *Failures) Texts() map[string]string {
	all := make(map[string]string)
	for stream, err := range f.Target {
		all[stream] = err.Error()
	}
	for what, err := range map[string]error{"target": f.Starting, "replica": f.Ended, "log": f.Log} {
		if err != nil {
			all[what] = err.Error()
		}
	}
	return all
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

// longQuiet is for how long a log that is not read up to its end tells nothing before that is a failure.
const longQuiet = 10 * time.Second

// Status returns how the replica is doing; ok is false while it does not run.
func (p *Replica) Status() (s Status, ok bool) {
	s = Status{Name: p.cfg.Name, Cluster: p.cfg.Cluster, Pipeline: p.cfg.Pipeline}
	r, stopped := p.current()
	if r == nil {
		s.Failures = stopped
		return s, false
	}
	s.Parked, s.HeldDeletes, s.HeldEpoch = r.parked.ByReason(), r.deletes.Held(), r.epochs.Holds()
	s.Keys, s.Objects = r.table.Len()
	_, pending, oldest := r.outstanding.State()
	s.Pending = pending
	var silent time.Time
	s.Target = make(map[string]error)
	for part, f := range r.health.Now() {
		s.Failing = max(s.Failing, time.Since(f.Since))
		if part == partLog {
			s.Log, silent = f.Err, f.Since
		} else {
			s.Target[part] = f.Err
		}
	}
	select {
	case <-r.begun:
		s.CaughtUp = true
	default:
		silent = r.began
		if quiet := time.Since(time.Unix(0, r.heard.Load())); s.Log == nil && quiet > longQuiet {
			s.Log = fmt.Errorf("it has told nothing for %s: does the broker of from answer?", quiet.Round(time.Second))
		}
	}
	for _, at := range []time.Time{oldest, silent} {
		if !at.IsZero() {
			s.Lag = max(s.Lag, time.Since(at))
		}
	}
	s.Writes = r.counts.Now()
	return s, true
}

// Waiting returns, of each reason for which objects wait, at most so many objects that have waited for longest. They
// are in the order of [Waiting.Compare].
func (p *Replica) Waiting(most int) (all []Waiting) {
	r, _ := p.current()
	if r == nil {
		return nil
	}
	for id, k := range r.parked.Oldest(most) {
		row := r.table.Get(id)
		all = append(all, Waiting{
			Resource: r.selection.At(row.Resource).GroupResource().String(), Namespace: row.Namespace, Name: row.Name,
			Reason: k.Reason, Detail: k.Detail, Since: k.Since,
		})
	}
	slices.SortFunc(all, Waiting.Compare)
	return all
}

// errNotRunning is the answer of a replica that does not run in this process.
var errNotRunning = errors.New("the replica does not run here")

// errReading is the answer of a replica that has not read the log up to its end.
var errReading = errors.New("the log is not read up to its end yet, so it is not known what waits: try again later")

// Resume lets a replica go on that a guard has stopped: deletes that are held are made, or an epoch is followed. Only
// what holds it is released: what a person was not told, a person has not confirmed. What is released survives
// restarts. Before the log was read up to the end that it had at the start it is not known what waits: then Resume
// returns an error.
func (p *Replica) Resume(ctx context.Context) error {
	r, _ := p.current()
	if r == nil {
		return errNotRunning
	}
	if !r.hasBegun() {
		return errReading
	}
	r.targets.listing.Ask()
	if err := r.keeper.Release(ctx, r.deletions.Left); err != nil {
		return err
	}
	r.log.Info("the replica was resumed", slog.Int("released_deletes", r.keeper.Stored().Left))
	for id, row := range r.table.All() {
		if row.Desired.Claim != keys.Unknown {
			r.queue.Add(id)
		}
	}
	return nil
}

// current returns the run; where there is none, why.
func (p *Replica) current() (*run, Failures) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now, p.stopped
}
