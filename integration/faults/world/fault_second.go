// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// secondFaults break the second pipeline, or its server. The first pipeline has to go on meanwhile.
func secondFaults() []Fault {
	all := []Fault{
		{Name: "the second pipeline's server stopped", run: breakSecond(stopSecond, buffers, startSecond)},
		{Name: "the second pipeline's log full", run: breakSecond(fillSecond, buffers, emptySecond)},
		{Name: "the second pipeline's log deleted", run: breakSecond(deleteSecond, nil, nil)},
		{Name: "the second pipeline may publish nothing", Refuses: true, run: breakSecond(deny(">"), refuses, permit)},
		{
			Name: "the second pipeline may not publish Secrets", Refuses: true,
			run: breakSecond(deny("k8s.*.core.secrets.>"), refuses, permit),
		},
		{
			Name: "the second pipeline's server takes small messages only", Refuses: true,
			run: breakSecond(shrinkMessages, refuses, growMessages),
		},
	}
	for n := range all {
		all[n].Parts = SecondServer
	}
	all = append(all, Fault{
		Name: "another stream in the place of the second pipeline's log", Parts: SecondServer | Process,
		run: breakSecond(replaceSecond, ends, restoreSecond),
	})
	for n := range all {
		all[n].Weight, all[n].Cost = 5, 30*time.Second
	}
	return all
}

// breakSecond breaks the second pipeline, waits until that shows, sees that the first goes on, and mends the second,
// which then has to publish again.
func breakSecond(breaks func(context.Context, *injection) error, shows func(before, now rig.Metrics) bool,
	mends func(context.Context, *injection) error,
) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		before := i.secondMetrics(ctx)
		try.Do(breaks(ctx, i))
		var broken error
		if shows != nil {
			broken = i.await(ctx, "the second pipeline to show it", func() bool { return shows(before, i.secondMetrics(ctx)) })
		}
		if broken == nil {
			broken = pause.For(ctx, i.between(0, 4*time.Second))
		}
		if broken == nil {
			broken = i.meanwhile(ctx)
		}
		if mends != nil {
			broken = errors.Join(broken, mends(context.WithoutCancel(ctx), i))
		}
		try.Do(broken)
		return i.awaitSecond(ctx)
	}
}

// secondMetrics are those of the second pipeline, without any where the bridge does not answer.
func (i *injection) secondMetrics(ctx context.Context) rig.Metrics {
	i.follow(ctx)
	_, second, _ := i.Bridge().metricsOfBoth(ctx)
	return second
}

// buffers reports whether something waits for the server.
func buffers(_, now rig.Metrics) bool {
	n, _ := now.Sum("buffered_events")
	return n > 0
}

// refuses reports whether the server has refused something.
func refuses(before, now rig.Metrics) bool {
	n, _ := before.Sum("publish_failures_total")
	m, _ := now.Sum("publish_failures_total")
	return m > n
}

// ends reports whether the pipeline has ended, or waits for its stream.
func ends(before, now rig.Metrics) bool {
	ended, _ := now.Sum("pipeline_ended")
	return ended > 0 || buffers(before, now)
}

// meanwhile sees that the first pipeline goes on. Where something else is broken, too, it may not.
func (i *injection) meanwhile(ctx context.Context) error {
	if i.cfg.Meanwhile == nil || i.fault.joined {
		return nil
	}
	return i.cfg.Meanwhile(ctx, "while this is so: "+i.fault.Name)
}

// awaitSecond waits until the second pipeline publishes again.
func (i *injection) awaitSecond(ctx context.Context) error {
	before, _ := i.second.end()
	err := poll(ctx, 2*time.Minute, "the second pipeline to publish again", func() bool {
		now, err := i.second.end()
		return err == nil && now > before
	})
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w; %s", ErrUnsettled, err, i.Bridge().lastWords())
	}
	return err
}

func stopSecond(ctx context.Context, i *injection) error {
	i.second.server.Stop()
	i.note(ctx, "the server is stopped")
	return nil
}

func startSecond(_ context.Context, i *injection) error { return i.second.server.Start() }

// limitSecond changes how many bytes the second log may have.
func (i *injection) limitSecond(ctx context.Context, bytes func(now uint64) int64) error {
	stream, err := i.second.js.Stream(ctx, secondStream)
	if err != nil {
		return err
	}
	info := stream.CachedInfo()
	now := info.Config
	now.MaxBytes, now.Discard = bytes(info.State.Bytes), jetstream.DiscardNew
	if now.MaxBytes < 0 {
		now.Discard = jetstream.DiscardOld
	}
	_, err = i.second.js.UpdateStream(ctx, now)
	return err
}

func fillSecond(ctx context.Context, i *injection) error {
	err := i.limitSecond(ctx, func(now uint64) int64 { return int64(now) }) //nolint:gosec // it is small
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissed, err)
	}
	i.note(ctx, "the log takes nothing more")
	return nil
}

func emptySecond(ctx context.Context, i *injection) error {
	return i.limitSecond(ctx, func(uint64) int64 { return -1 })
}

func deleteSecond(ctx context.Context, i *injection) error {
	try.Do(i.second.deleteLog(ctx))
	i.note(ctx, "the log is deleted")
	return nil
}

// replaceSecond has a stream stand under the log's name that takes none of its messages.
func replaceSecond(ctx context.Context, i *injection) error {
	try.Do(deleteSecond(ctx, i))
	return poll(ctx, patience, "a stream of other subjects", func() bool {
		_, err := i.second.js.CreateStream(ctx, jetstream.StreamConfig{Name: secondStream, Subjects: []string{"others.>"}})
		if err != nil { // the bridge was faster
			_ = i.second.js.DeleteStream(ctx, secondStream)
		}
		return err == nil
	})
}

// restoreSecond takes it away again, and has the pipeline tried at once.
func restoreSecond(ctx context.Context, i *injection) error {
	try.Do(i.second.deleteLog(ctx))
	return i.restartBridge()
}

func deny(subject string) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		try.Do(i.second.restrict(0, subject))
		i.note(ctx, "the bridge may not publish to %s", subject)
		return nil
	}
}

// small is less than every second event has.
const small = 2000

func shrinkMessages(ctx context.Context, i *injection) error {
	try.Do(i.second.restrict(small))
	i.note(ctx, "the server takes messages of %d bytes", small)
	return nil
}

// growMessages restarts the server, too: it tells clients how much it takes when they connect.
func growMessages(ctx context.Context, i *injection) error {
	err := permit(ctx, i)
	i.second.server.Stop()
	return errors.Join(err, i.second.server.Start())
}

func permit(_ context.Context, i *injection) error { return i.second.restrict(0) }
