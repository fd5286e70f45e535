// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// Config says which Lease is stood for, and how. All fields are needed except Log.
type Config struct {
	Client coordination.LeaseInterface
	Name   string
	// Identity tells this process from all others, also from those before it.
	Identity string
	// Duration is how long after its last renewal others leave the Lease alone, in whole seconds. Who holds it renews
	// it every Retry, and gives up Deadline after the last renewal, which has to be shorter than Duration.
	Duration, Deadline, Retry time.Duration
	Log                       *slog.Logger
}

// A Lease that another holds is looked at so often in the time between two renewals, but not more often than every
// leastLook. That bounds how long a Lease stays free that was given back, or has expired. A shorter time would let
// another process take a deleted Lease long before the leader knows of it.
const (
	looks     = 5
	leastLook = 400 * time.Millisecond
)

// Candidate stands for a Lease, term after term. Its methods may be called while it runs.
type Candidate struct {
	cfg    Config
	leader atomic.Pointer[string]
	leads  atomic.Bool
	number atomic.Int64
	failed atomic.Pointer[error]
}

// New returns a candidate that does nothing until Run.
func New(c Config) *Candidate {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Log = c.Log.With("lease", c.Name)
	return &Candidate{cfg: c}
}

// Leads reports whether this process holds the Lease.
func (c *Candidate) Leads() bool { return c.leads.Load() }

// Identity tells this process from all others.
func (c *Candidate) Identity() string { return c.cfg.Identity }

// Term returns the number of the newest term in which this process has led; 0 where it has not.
func (c *Candidate) Term() int64 { return c.number.Load() }

// Leader returns the identity of who holds the Lease, as far as is known; empty where no process does.
func (c *Candidate) Leader() string {
	if l := c.leader.Load(); l != nil {
		return *l
	}
	return ""
}

// Err returns why the Lease could not be read or written the last time that was tried; nil if it could.
func (c *Candidate) Err() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Term is a time for which a process holds the Lease.
type Term struct {
	// Number is greater than those of all terms before, and at least 1, unless somebody has deleted the Lease.
	Number int64
	// Held ends when the Lease is lost, or may be: Deadline after the last renewal was begun, and as soon as another
	// holder is seen. Its cause says why. Nothing may be written from then on.
	Held context.Context
}

// Run stands for the Lease until ctx ends, and calls lead for each term, with ctx. Lead has to return when ctx has
// ended and it is done with what it has begun, and at once when the term's Held has ended. The Lease is given back when
// lead has returned, if it is still held. Run returns nil when ctx has ended, or the first error of lead.
func (c *Candidate) Run(ctx context.Context, lead func(context.Context, Term) error) error {
	for ctx.Err() == nil {
		h := c.acquire(ctx)
		if h == nil {
			return nil
		}
		if err := c.term(ctx, h, lead); err != nil {
			return err
		}
	}
	return nil
}

func (c *Candidate) term(ctx context.Context, h *holding, lead func(context.Context, Term) error) error {
	t := Term{Number: numberOf(h.lease), Held: h.held}
	renewing := make(chan struct{})
	go func() {
		defer close(renewing)
		h.renew()
	}()
	c.cfg.Log.Info("this process leads", "term", t.Number)
	c.number.Store(t.Number)
	c.leads.Store(true)
	err := lead(ctx, t)
	c.leads.Store(false)
	if cause := context.Cause(h.held); cause != nil {
		c.cfg.Log.Warn("this process does not lead any more", "term", t.Number, "err", cause)
	}
	h.lose(errResigned)
	<-renewing
	h.release(ctx)
	return err
}

// acquire waits until the Lease is free and takes it; nil when ctx ends.
func (c *Candidate) acquire(ctx context.Context) *holding {
	var last sighting
	look := time.NewTicker(max(c.cfg.Retry/looks, leastLook))
	defer look.Stop()
	for {
		if h := c.try(ctx, &last); h != nil {
			return h
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// try takes the Lease if it is free.
func (c *Candidate) try(ctx context.Context, last *sighting) *holding {
	request, cancel := context.WithTimeout(ctx, c.cfg.Deadline)
	defer cancel()
	lease, err := c.cfg.Client.Get(request, c.cfg.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		lease, err = nil, nil
	}
	if err != nil {
		c.report(ctx, err)
		return nil
	}
	c.see(lease)
	last.note(lease)
	if !last.free(c.cfg.Identity) {
		c.report(ctx, nil)
		return nil
	}
	began := time.Now()
	// Whoever ends while it takes the Lease has to know whether it has it, to give it back.
	taking, done := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Deadline/2)
	defer done()
	taken, err := c.take(taking, lease)
	if err != nil {
		if ctx.Err() != nil { // it may have been taken, and the answer lost
			c.giveBack(ctx, nil)
		}
		if !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) { // another one was faster
			c.report(ctx, err)
		}
		return nil
	}
	c.report(ctx, nil)
	c.see(taken)
	return c.hold(ctx, taken, began)
}

func (c *Candidate) take(ctx context.Context, lease *v1.Lease) (*v1.Lease, error) {
	seconds, now := int32(c.cfg.Duration/time.Second), metav1.NowMicro()
	spec := v1.LeaseSpec{
		HolderIdentity: &c.cfg.Identity, LeaseDurationSeconds: &seconds, AcquireTime: &now,
		RenewTime: &now, LeaseTransitions: new(int32),
	}
	if lease == nil {
		return c.cfg.Client.Create(ctx, &v1.Lease{ObjectMeta: metav1.ObjectMeta{Name: c.cfg.Name}, Spec: spec},
			metav1.CreateOptions{})
	}
	lease = lease.DeepCopy()
	if t := lease.Spec.LeaseTransitions; t != nil {
		*spec.LeaseTransitions = *t
	}
	*spec.LeaseTransitions++
	lease.Spec = spec
	return c.cfg.Client.Update(ctx, lease, metav1.UpdateOptions{})
}

// numberOf is the number of the term that begins with a Lease as it was taken.
func numberOf(l *v1.Lease) int64 { return int64(*l.Spec.LeaseTransitions) + 1 }

// see takes note of who holds the Lease; nil stands for one that does not exist.
func (c *Candidate) see(lease *v1.Lease) {
	holder := holderOf(lease)
	if before := c.leader.Swap(&holder); holder != "" && holder != c.cfg.Identity && (before == nil || *before != holder) {
		c.cfg.Log.Info("another process leads; this one stands by", "leader", holder)
	}
}

// report keeps an error for who asks, and logs it when it is new.
func (c *Candidate) report(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		c.failed.Store(nil)
		return
	}
	if before := c.failed.Swap(&err); before == nil {
		c.cfg.Log.Warn("the lease cannot be read or written; it is tried again", "err", err)
	}
}

// holderOf returns who holds a Lease; empty where no process does.
func holderOf(l *v1.Lease) string {
	if l == nil || l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// sighting is a state of the Lease, and when it was seen first. The times within a Lease are of another's clock and say
// nothing here.
type sighting struct {
	lease *v1.Lease
	at    time.Time
}

func (s *sighting) note(l *v1.Lease) {
	if s.lease == nil || l == nil || s.lease.UID != l.UID || s.lease.ResourceVersion != l.ResourceVersion {
		s.lease, s.at = l, time.Now()
	}
}

// free reports whether the Lease may be taken: it has no holder, it has not changed for its duration, or this process
// has taken it and the answer was lost.
func (s *sighting) free(self string) bool {
	holder := holderOf(s.lease)
	if holder == "" || holder == self || s.lease.Spec.LeaseDurationSeconds == nil {
		return true
	}
	return time.Since(s.at) > time.Duration(*s.lease.Spec.LeaseDurationSeconds)*time.Second
}
