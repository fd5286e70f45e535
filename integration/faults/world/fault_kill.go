// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// killFaults end the bridge at moments that the proxies see.
func killFaults() []Fault {
	return []Fault{
		{Name: "killed at random", Parts: Process, Weight: 20, Cost: 3 * time.Second, run: killAnytime},
		{
			Name: "killed after publish, before acknowledgement", Parts: Process | Broker, Cost: 5 * time.Second,
			run: killUnanswered,
		},
		{
			Name: "killed after acknowledgement, before commit", Parts: Process | Broker, Cost: 5 * time.Second,
			run: killUncommitted,
		},
		{
			Name: "killed in the middle of the first list", Parts: Process | Broker | API | Disk, Weight: 3,
			Cost: 10 * time.Second, Loses: Fresh, run: killFirstList,
		},
		{Name: "killed during a relist", Parts: Process | API, Weight: 5, Cost: 20 * time.Second, run: killRelist},
		{Name: "killed while draining", Parts: Process | Broker, Cost: 8 * time.Second, run: killDraining},
		{Name: "stopped and started", Parts: Process | Broker, Weight: 5, Cost: 5 * time.Second, run: stopGracefully},
	}
}

func killAnytime(ctx context.Context, i *injection) error {
	d := i.between(0, 2*time.Second)
	try.Do(pause.For(ctx, d))
	i.note(ctx, "killed after %s", d)
	try.Do(i.killLeader(ctx))
	try.Do(pause.For(ctx, i.between(0, 500*time.Millisecond)))
	return i.StartBridge()
}

// holdAnswers keeps back what the broker says until it has accepted some messages that the bridge has no answer for.
func (i *injection) holdAnswers(ctx context.Context) error {
	want := 1 + i.random.IntN(5)
	i.wire.set(hold)
	return i.await(ctx, fmt.Sprintf("%d answers of the broker", want), func() bool {
		_, held := i.wire.now()
		return held >= want
	})
}

// deliverLate keeps some requests that a bridge sends, kills it, and hands that over when the next one has begun: on
// NATS so late that the server does not know the ids any more. Brokers have to refuse it.
func deliverLate(most int) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		want := 1 + i.random.IntN(most)
		try.Do(i.await(ctx, "the bridge to publish", i.counts(ctx, i.Bridge(), "events_published_total", known)))
		i.wire.keep(true)
		if err := i.await(ctx, fmt.Sprintf("%d requests", want),
			func() bool { return i.wire.keptNow() >= want }); err != nil {
			return i.revive(err)
		}
		try.Do(i.killLeader(ctx))
		i.wire.keep(false)
		try.Do(i.StartBridge())
		try.Do(i.awaitReplacement(ctx))
		if after := i.forgotten(); after > 0 {
			try.Do(pause.For(ctx, after+i.between(time.Second, 3*time.Second)))
		}
		codes, err := i.wire.deliver(ctx)
		i.note(ctx,
			"what a dead bridge had sent was handed over after its successor had begun, and answered with the codes %v: %v",
			codes, err)
		return err
	}
}

func killUnanswered(ctx context.Context, i *injection) error {
	if err := i.holdAnswers(ctx); err != nil {
		return i.revive(err)
	}
	try.Do(i.killLeader(ctx))
	i.note(ctx, "killed with %d things in the log of whose acknowledgement it did not know", i.wire.forget())
	return i.StartBridge()
}

// killUncommitted waits for a commit and then for an acknowledgement: the next commit is most of a second away.
func killUncommitted(ctx context.Context, i *injection) error {
	before := i.committed()
	try.Do(i.await(ctx, "a commit", func() bool { return i.committed().After(before) }))
	base, _ := i.wire.now()
	want := base.Answered + 1 + i.random.IntN(5)
	try.Do(i.await(ctx, "an acknowledgement", func() bool {
		s, _ := i.wire.now()
		return s.Answered >= want
	}))
	answered := time.Now()
	try.Do(pause.For(ctx, i.between(0, 100*time.Millisecond)))
	try.Do(i.killLeader(ctx))
	s, _ := i.wire.now()
	if i.committed().After(answered) {
		return errors.Join(fmt.Errorf("%w: a commit was faster", ErrMissed), i.StartBridge())
	}
	i.note(ctx, "killed with %d acknowledgements that no commit knew of", s.Answered-base.Answered)
	return i.StartBridge()
}

// committed is when the checkpoint was written at last.
func (w *World) committed() time.Time {
	if w.cfg.Checkpoint != CheckpointFile {
		return w.broker.committed()
	}
	info, err := os.Stat(w.checkpointFile())
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// killFirstList takes the checkpoint and the log away, so that everything is listed for the first time, and kills the
// bridge while a later page of a list is on its way.
func killFirstList(ctx context.Context, i *injection) error {
	try.Do(i.KillBridge())
	if err := i.keepLog(ctx, Fresh); err != nil {
		return i.revive(err)
	}
	try.Do(i.removeCheckpoint(ctx))
	try.Do(i.broker.deleteLog(ctx))
	i.lost(ctx, Fresh, "log and checkpoint removed")
	return i.killOnPage(ctx, i.StartBridge)
}

func (w *World) removeCheckpoint(ctx context.Context) error {
	if w.cfg.Checkpoint != CheckpointFile {
		return w.broker.removeCheckpoint(ctx)
	}
	return os.Remove(w.checkpointFile())
}

// killRelist makes every version too old, and kills the bridge while a later page of the list that it makes then is on
// its way.
func killRelist(ctx context.Context, i *injection) error {
	return i.killOnPage(ctx, func() error { return i.restartAPI(ctx) })
}

// killOnPage kills the bridge while it waits for a page of a list which is not the first, and starts it.
func (i *injection) killOnPage(ctx context.Context, provoke func() error) error {
	reached := make(chan struct{}, 1)
	i.api.set(func(r *http.Request, next http.RoundTripper) (*http.Response, error) {
		if !isLaterPage(r) {
			return next.RoundTrip(r)
		}
		select {
		case reached <- struct{}{}:
		default:
		}
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	})
	if err := provoke(); err != nil {
		return err
	}
	if err := i.await(ctx, "a list to come to its second page", func() bool { return len(reached) > 0 }); err != nil {
		return i.revive(err)
	}
	if err := pause.For(ctx, i.between(0, 200*time.Millisecond)); err != nil {
		return err
	}
	if err := i.killLeader(ctx); err != nil {
		return err
	}
	i.note(ctx, "killed while it waited for a later page of a list")
	i.api.set(nil)
	return i.StartBridge()
}

func killDraining(ctx context.Context, i *injection) error {
	if err := i.holdAnswers(ctx); err != nil {
		return i.revive(err)
	}
	i.follow(ctx)
	b := i.Bridge()
	try.Do(errors.Join(b.awaitServing(ctx), b.signal(syscall.SIGTERM)))
	if err := poll(ctx, stopping, "the bridge to drain", func() bool {
		out, _ := b.Stderr()
		return strings.Contains(out, "stopping") || !b.Running() // one that has not begun yet ends at once
	}); err != nil {
		return errors.Join(ctx.Err(), i.Unsettled("it was asked to stop, and does not say so"))
	}
	try.Do(pause.For(ctx, i.between(0, time.Second)))
	if !b.Running() {
		return i.revive(fmt.Errorf("%w: it did not wait for the broker", ErrMissed))
	}
	try.Do(b.kill())
	i.note(ctx, "killed while draining, with %d things in the log of whose acknowledgement it did not know",
		i.wire.forget())
	return i.StartBridge()
}

func stopGracefully(ctx context.Context, i *injection) error {
	stopping, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	i.follow(ctx)
	try.Do(i.Bridge().stop(stopping))
	i.note(ctx, "stopped with SIGTERM, code 0")
	try.Do(pause.For(ctx, i.between(0, 2*time.Second)))
	return i.StartBridge()
}
