// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/clean"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/health"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/keys"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/listing"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/observed"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/plan"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/waiting"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/write"
)

// Difference is what a replica would do with an object.
type Difference struct {
	// Do is create, change, delete, recreate or wait.
	Do string `json:"do"`
	// Namespace and Name are those of the target.
	Resource  string `json:"resource"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Why says why it waits, and Diff what would change, as unified diff of YAML.
	Why  string `json:"why,omitempty"`
	Diff string `json:"diff,omitempty"`
}

// Compare tells what the replica would write, and writes nothing. It waits until the log was read and the target's
// objects are listed, or ctx ends. It fails if neither of the two tells anything for half a minute. Tell is called once
// for each object that differs.
func (p *Replica) Compare(ctx context.Context, tell func(Difference) error) error {
	for {
		err := p.compareOnce(ctx, tell)
		if err == nil || !p.again(err) {
			return err
		}
	}
}

func (p *Replica) compareOnce(ctx context.Context, tell func(Difference) error) error {
	r, err := p.begin(ctx, p.cfg.State.Load)
	if err != nil {
		return fmt.Errorf("replica %s: %w", p.cfg.Name, err)
	}
	defer r.source.Close()
	r.compares = true
	group, within := errgroup.WithContext(ctx)
	reading, stop := context.WithCancel(within)
	unknown, known := context.WithCancel(reading)
	group.Go(func() error { return r.targets.catalog.Run(reading) })
	group.Go(func() error { return r.read(reading) })
	group.Go(func() error { return r.ends(reading) })
	group.Go(func() error { return comparing{r}.stalls(unknown) })
	group.Go(func() error {
		defer stop()
		return comparing{r}.compare(reading, known, tell)
	})
	err = group.Wait()
	r.pruning.Wait()
	r.targets.reading.Wait()
	r.queue.ShutDown()
	return err
}

// lookEvery is how often it is looked whether all that is to be compared is known.
const lookEvery = 50 * time.Millisecond

// comparing compares, and writes nothing.
type comparing struct{ *run }

// longestSilence is for how long neither the log nor the target may tell anything before a comparison fails.
const longestSilence = 30 * time.Second

// stalls returns an error if nothing that a comparison needs comes for too long, and nil when ctx ends.
func (r comparing) stalls(ctx context.Context) error {
	if !health.Stalls(ctx, longestSilence, func() [3]uint64 {
		rows, ours := r.table.Len()
		return [3]uint64{uint64(r.heard.Load()), uint64(rows), uint64(ours)} //nolint:gosec // they are not negative
	}) {
		return nil
	}
	select {
	case <-r.begun:
	default:
		return fmt.Errorf("replica %s: the log of cluster %s told nothing for %s, and is not read up to its end: does the "+
			"broker of from answer?", r.cfg.Name, r.cfg.Cluster, longestSilence)
	}
	err := fmt.Errorf("replica %s: the target told nothing for %s, and is not listed", r.cfg.Name, longestSilence)
	for part, failure := range r.health.Now() {
		err = fmt.Errorf("%w; %s: %w", err, part, failure.Err)
	}
	return err
}

// compare waits until both sides are known, says so, and tells how they differ. It is nil if ctx ended because reading
// failed.
func (r comparing) compare(ctx context.Context, known func(), tell func(Difference) error) error {
	defer known()
	select {
	case <-r.begun:
	case <-ctx.Done():
		return nil
	}
	r.pruning.Wait()
	for r.targets.listing.Busy() {
		if pause.For(ctx, lookEvery) != nil {
			return nil
		}
	}
	known()
	for id, row := range r.table.All() {
		if d := r.difference(ctx, id, row); d != nil {
			if err := tell(*d); err != nil {
				return err
			}
		}
	}
	return nil
}

// difference returns what would be done with an object; nil if it is as it shall be.
func (r comparing) difference(ctx context.Context, id keys.ID, row keys.Row) *Difference {
	o := &object{run: r.run, id: id, row: row, res: r.selection.At(row.Resource)}
	at := o.place()
	d := &Difference{Resource: o.res.GroupResource().String(), Namespace: at.Namespace, Name: at.Name}
	switch state := r.targets.state(o.res, row.Key); {
	case state == listing.Listing:
		d.Do, d.Why = "wait", string(waiting.NotListed)
		return d
	case state == listing.Unserved && row.Desired.Claim.Exists():
		d.Do, d.Why = "wait", string(waiting.NoResource)
		return d
	}
	action := o.decide(false)
	if action.Do != plan.Leave && r.stopped(&row) {
		d.Do, d.Why = "wait", string(waiting.HeldEpoch)
		return d
	}
	switch action.Do {
	case plan.Leave:
		return nil
	case plan.Park:
		d.Do, d.Why = "wait", string(action.Why)
	case plan.Delete:
		d.Do = "delete"
		if !r.deletions.Allowed(&row) {
			d.Why = string(waiting.HeldDelete)
		} else if kept, err := (ending{o}).kept(ctx); kept != "" || err != nil {
			d.Do, d.Why = "wait", string(waiting.NotEmpty)
		}
	case plan.Recreate:
		d.Do = "recreate"
		if wanted, _, _ := o.desired(ctx); wanted == nil && o.parked.Reason(id) == string(waiting.LeftOut) {
			return o.compareLeftOut(d)
		}
	default:
		return o.compareWith(ctx, d, action.Do)
	}
	return d
}

// compareLeftOut says what would become of a copy of an object that is left out now.
func (o *object) compareLeftOut(d *Difference) *Difference {
	if !o.cfg.Deletes {
		return nil
	}
	d.Do = "delete"
	o.deletions.CountEnd(&o.row, o.deletes.Time(o.row.Desired.At))
	if !o.deletions.Allowed(&o.row) {
		d.Why = string(waiting.HeldDelete)
	}
	return d
}

// compareWith says what would change in an object that is to be written.
func (o *object) compareWith(ctx context.Context, d *Difference, do plan.Do) *Difference {
	wanted, uid, _ := o.desired(ctx)
	if wanted == nil {
		d.Do, d.Why = "wait", o.parked.Reason(o.id)
		if d.Why == string(waiting.LeftOut) {
			return nil
		}
		return d
	}
	if do == plan.Verify && o.right(ctx, wanted) {
		return nil
	}
	a, err := o.target.Get(ctx, o.place())
	if err != nil {
		d.Do, d.Why = "wait", err.Error()
		return d
	}
	if a.Outcome == write.Gone {
		d.Do = "create"
		return d
	}
	object, err := observed.Decode(a.Object)
	if a.Outcome != write.Done || err != nil {
		d.Do, d.Why = "wait", cmp.Or(string(parkedBy[a.Outcome]), string(a.Outcome))
		return d
	}
	actual := o.observer.Actual(o.res, o.row.Key, object)
	refuses := o.cfg.Existing == plan.Refuse
	switch {
	case o.isSource(actual, uid) || refuses && actual.Owner == keys.Absent:
		d.Do, d.Why = "wait", string(waiting.Exists)
	case refuses && actual.Owner == keys.Detached:
		d.Do, d.Why = "wait", string(plan.DetachedObject)
	case o.cfg.Existing == plan.Overwrite && actual.Owner == keys.Absent:
		d.Do, d.Diff = "change", observed.Replacement(o.res, o.row.Key, wanted, object)
	default:
		d.Do, d.Diff = "change", clean.Diff(wanted, object)
	}
	return d
}
