// SPDX-License-Identifier: Apache-2.0

package outage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/canary"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// play starts the bridge, changes objects, takes the broker away and brings it back, and returns when all is quiet
// again.
func (o *outage) play(ctx context.Context) error {
	if err := o.recorder.Sync(ctx); err != nil {
		return err
	}
	if err := o.world.StartBridge(); err != nil {
		return err
	}
	if err := o.world.WaitSettled(ctx, settling); err != nil {
		return err
	}
	sampling, enough := context.WithCancel(ctx)
	defer enough()
	measuring, sampling := errgroup.WithContext(sampling)
	measuring.Go(func() error { return o.samples.run(sampling) })
	err := o.drive(sampling)
	if err == nil {
		err = o.world.WaitSettled(sampling, settling, func() (bool, string) { return o.arrived(sampling, "the-last") })
	}
	enough()
	err = errors.Join(err, measuring.Wait())
	o.result.Changes = o.driver.Counts().Changes()
	o.result.Samples = o.samples.taken
	return err
}

// drive changes objects until the log has what was made when the broker came back.
func (o *outage) drive(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return o.driver.Run(ctx) })
	err := o.takeAway(ctx)
	stop()
	return errors.Join(err, g.Wait())
}

func (o *outage) takeAway(ctx context.Context) error {
	if err := pause.For(ctx, before); err != nil {
		return err
	}
	made := o.driver.Counts().Changes()
	o.world.StopBroker()
	o.samples.gone()
	if err := pause.For(ctx, o.cfg.Away); err != nil {
		return err
	}
	o.result.ChangesAway = o.driver.Counts().Changes() - made
	if err := o.world.StartBroker(ctx); err != nil {
		return err
	}
	o.samples.back()
	back := time.Now()
	_, _ = fmt.Fprintf(o.cfg.Log, "the broker is back\n")
	if err := o.await(ctx, "the-first"); err != nil {
		return err
	}
	o.result.CaughtUp = time.Since(back)
	_, _ = fmt.Fprintf(o.cfg.Log, "the log has caught up after %s\n", o.result.CaughtUp.Round(time.Millisecond))
	return nil
}

// await makes an object in each stream and waits until all of them are in the log.
func (o *outage) await(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, settling)
	defer cancel()
	for {
		there, instead := o.arrived(ctx, name)
		if there {
			return nil
		}
		if err := pause.For(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("wait for the log to catch up: %w: %s", err, instead)
		}
	}
}

// namespace is where objects are made whose arrival says how far the log is.
const namespace = "drive-a"

// arrived reports whether the log has an object of the name in each stream. The first time asked, they are made.
func (o *outage) arrived(ctx context.Context, name string) (ok bool, instead string) {
	missing, err := canary.Missing(ctx, o.world, o.world.ReadLog, namespace, name, o.streams)
	return err == nil && len(missing) == 0, fmt.Sprintf("%s is missing in %v: %v", name, missing, err)
}
