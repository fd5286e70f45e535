// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// takeoverFaults take away what the next leader needs, in the moment of a takeover.
func takeoverFaults() []Fault {
	all := []Fault{
		{
			Name: "API server killed at a takeover", Parts: Process | API, Weight: 5, Cost: 25 * time.Second,
			run: takeOverWithout((*injection).killAPI),
		},
		{
			Name: "etcd compacted and API server restarted at a takeover", Parts: Process | API, Weight: 5,
			Cost: 25 * time.Second, run: takeOverWithout((*injection).compactAndRestart),
		},
		{
			Name: "etcd restored at a takeover", Parts: Process | API, Weight: 4, Cost: 40 * time.Second, Loses: EtcdRestored,
			run: restoreAtTakeover,
		},
		{
			Name: "broker away at a takeover", Parts: Process | Broker, Weight: 8, Cost: 30 * time.Second,
			run: takeOverWithoutBroker,
		},
	}
	for n := range all {
		all[n].Together, all[n].joined = true, true
	}
	return all
}

func (i *injection) killAPI(ctx context.Context) error { return killAPIServer(ctx, i) }

// takeOverWithout kills the leader, and breaks something at once.
func takeOverWithout(breakIt func(*injection, context.Context) error) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		leader := try.Get(i.theLeader(ctx))
		since := time.Now()
		try.Do(leader.kill())
		try.Do(breakIt(i, ctx))
		return i.replace(ctx, Killed, leader, since)
	}
}

// restoreAtTakeover puts etcd back, and so the Lease too, when the leader has been killed.
func restoreAtTakeover(ctx context.Context, i *injection) error {
	bump, missed := i.random.IntN(2) == 0, error(nil)
	err := takeOverWithout(func(i *injection, ctx context.Context) error {
		missed = restore(bump)(ctx, i)
		if errors.Is(missed, ErrMissed) {
			return nil
		}
		return missed
	})(ctx, i)
	if err != nil {
		return err
	}
	return missed
}

// takeOverWithoutBroker stops the broker, kills the leader, and starts the broker some time after another one holds the
// Lease.
func takeOverWithoutBroker(ctx context.Context, i *injection) error {
	leader := try.Get(i.theLeader(ctx))
	i.broker.stop()
	since := time.Now()
	err := leader.kill()
	if err == nil {
		err = pause.For(ctx, LeaseDuration+i.between(0, 5*time.Second))
	}
	try.Do(errors.Join(err, i.broker.start(ctx)))
	i.note(ctx, "the broker was away for %s", time.Since(since).Round(time.Millisecond))
	return i.replace(ctx, Killed, leader, since)
}
