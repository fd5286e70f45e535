// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

func (w *World) leases() (coordination.LeaseInterface, error) {
	k, err := kubernetes.NewForConfig(w.RESTConfig())
	if err != nil {
		return nil, err
	}
	return k.CoordinationV1().Leases(leaseNamespace), nil
}

func deleteLease(ctx context.Context, i *injection) error {
	return i.changeLease(ctx, LeaseGone, func(c coordination.LeaseInterface) error {
		return c.Delete(ctx, leaseName,
			metav1.DeleteOptions{})
	})
}

// takeLease writes the Lease as another process would that takes it and is gone.
func takeLease(ctx context.Context, i *injection) error {
	return i.changeLease(ctx, LeaseTaken, func(c coordination.LeaseInterface) error {
		for {
			l, err := c.Get(ctx, leaseName, metav1.GetOptions{})
			if err != nil {
				return err
			}
			stranger, seconds, now := "a-stranger", int32(LeaseDuration/time.Second), metav1.NowMicro()
			l.Spec.HolderIdentity, l.Spec.LeaseDurationSeconds, l.Spec.AcquireTime, l.Spec.RenewTime = &stranger, &seconds, &now,
				&now
			if _, err = c.Update(ctx, l, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				return err
			}
		}
	})
}

// changeLease waits until a process, which may be the same, has begun a term behind the change.
func (i *injection) changeLease(
	ctx context.Context, cause Cause, change func(coordination.LeaseInterface) error,
) error {
	if _, err := i.theLeader(ctx); err != nil {
		return err
	}
	c, err := i.leases()
	if err != nil {
		return err
	}
	since, before := time.Now(), i.terms()
	if err := change(c); err != nil {
		return fmt.Errorf("%w: %w", ErrMissed, err)
	}
	return i.tookOver(ctx, cause, since, func() bool { return i.terms() > before && i.leader(ctx, nil) != nil })
}

// terms counts how often processes have begun to lead.
func (w *World) terms() (n int) {
	for _, b := range w.processes() {
		out, _ := b.Stderr()
		n += strings.Count(out, `"msg":"this process leads"`)
	}
	return n
}
