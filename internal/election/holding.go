// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// releaseTimeout bounds giving a Lease back. Who waits for it takes it when it expires.
const releaseTimeout = 5 * time.Second

// Why a Lease is not held any more.
var (
	errExpires  = errors.New("the lease could not be renewed in time")
	errTaken    = errors.New("another process holds the lease")
	errDeleted  = errors.New("the lease was deleted")
	errResigned = errors.New("the work is done")
)

// holding is a Lease that this process has taken. Only one goroutine at a time uses it.
type holding struct {
	candidate *Candidate
	lease     *v1.Lease
	held      context.Context
	lose      context.CancelCauseFunc
	expiry    *time.Timer
}

// hold returns what the request that was begun then has taken. Others count the duration from when they see it, which
// is later.
func (c *Candidate) hold(ctx context.Context, lease *v1.Lease, began time.Time) *holding {
	h := &holding{candidate: c, lease: lease}
	h.held, h.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	h.expiry = time.AfterFunc(time.Until(began.Add(c.cfg.Deadline)), func() { h.lose(errExpires) })
	return h
}

// renew renews the Lease until it is not held any more.
func (h *holding) renew() {
	defer h.expiry.Stop()
	tick := time.NewTicker(h.candidate.cfg.Retry)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-h.held.Done():
			return
		}
		began := time.Now()
		err := h.renewOnce()
		h.candidate.report(h.held, err)
		if err != nil {
			continue
		}
		if !h.expiry.Stop() { // it is too late
			<-h.held.Done()
			return
		}
		h.expiry.Reset(time.Until(began.Add(h.candidate.cfg.Deadline)))
	}
}

func (h *holding) renewOnce() error {
	ctx, cancel := context.WithTimeout(h.held, h.candidate.cfg.Deadline/2)
	defer cancel()
	lease, now := h.lease.DeepCopy(), metav1.NowMicro()
	lease.Spec.RenewTime = &now
	renewed, err := h.candidate.cfg.Client.Update(ctx, lease, metav1.UpdateOptions{})
	switch {
	case err == nil:
		h.lease = renewed
	case apierrors.IsNotFound(err):
		h.lose(errDeleted)
	case apierrors.IsConflict(err):
		return h.reread(ctx)
	}
	return err
}

// reread looks whose the Lease is that was changed meanwhile; it may have been by a renewal of which the answer was
// lost. It returns an error: nothing was renewed.
func (h *holding) reread(ctx context.Context) error {
	lease, err := h.candidate.cfg.Client.Get(ctx, h.candidate.cfg.Name, metav1.GetOptions{})
	switch {
	case err == nil && holderOf(lease) == h.candidate.cfg.Identity:
		h.lease = lease
		return errors.New("the lease has changed meanwhile")
	case err == nil:
		h.candidate.see(lease)
		h.lose(errTaken)
		return errTaken
	case apierrors.IsNotFound(err):
		h.lose(errDeleted)
	}
	return err
}

// release gives the Lease back if it is as it was renewed last, or a renewal of which the answer was lost has changed
// it.
func (h *holding) release(ctx context.Context) {
	if cause := context.Cause(h.held); !errors.Is(cause, errTaken) && !errors.Is(cause, errDeleted) {
		h.candidate.giveBack(ctx, h.lease)
	}
}

// giveBack makes the Lease free if it is this process's: in the state that it is known in, or, where that is nil or
// not the newest, whatever it is.
func (c *Candidate) giveBack(ctx context.Context, known *v1.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	give := func(lease *v1.Lease) error {
		none, atOnce := "", int32(1)
		lease = lease.DeepCopy()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &none, &atOnce
		_, err := c.cfg.Client.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	}
	var err error
	if known != nil {
		err = give(known)
	}
	if known == nil || apierrors.IsConflict(err) {
		var now *v1.Lease
		if now, err = c.cfg.Client.Get(ctx, c.cfg.Name, metav1.GetOptions{}); err == nil && holderOf(now) == c.cfg.Identity {
			err = give(now)
		}
	}
	if err != nil && !apierrors.IsNotFound(err) {
		c.cfg.Log.Warn("the lease could not be given back; who stands by takes it when it has expired", "err", err)
	}
}
