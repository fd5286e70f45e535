// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// natsFaults break the broker b, or the way to it.
func natsFaults(b *natsBackend) []Fault {
	return []Fault{
		{Name: "broker stopped for seconds", Parts: Broker, Cost: 6 * time.Second, run: stopBrokerShortly},
		{
			Name: "broker stopped for longer than any window", Parts: Broker, Weight: 4, Cost: 20 * time.Second,
			run: stopBrokerLong,
		},
		{Name: "broker connections cut every few tens of ms", Parts: Broker, Cost: 6 * time.Second, run: cutConnections},
		{
			Name: "broker restarted from an older copy of its store", Parts: Broker, Weight: 5, Cost: 15 * time.Second,
			Loses: LogRewound, run: b.rewindLog,
		},
		{
			Name: "log deleted while the bridge runs", Parts: Broker, Weight: 2, Cost: 10 * time.Second, Loses: LogDeleted,
			run: deleteLog,
		},
		{
			Name: "broker acknowledges later than the bridge waits", Parts: Broker, Weight: 5, Cost: 15 * time.Second,
			run: answerLate(ackTimeout),
		},
		{Name: "broker full for seconds", Parts: Broker, Cost: 10 * time.Second, run: b.fillLog},
		{
			Name: "killed around a commit to the brokers", Parts: Process | Broker, Checkpoint: CheckpointNATS,
			Cost: 5 * time.Second, run: killAtCommit,
		},
		{
			Name: "killed, and what it had sent arrives late", Parts: Process | Broker, Cost: 25 * time.Second,
			run: deliverLate(10),
		},
		{Name: "broker stores and loses the answer", Parts: Broker, Cost: 10 * time.Second, run: loseAnswers(ackTimeout)},
	}
}

func stopBrokerShortly(ctx context.Context, i *injection) error {
	return i.stopBrokerFor(ctx, i.between(200*time.Millisecond, 4*time.Second))
}

func (i *injection) stopBrokerFor(ctx context.Context, d time.Duration) error {
	i.broker.stop()
	err := pause.For(ctx, d)
	if err := i.broker.start(ctx); err != nil {
		return err
	}
	i.note(ctx, "the broker was stopped for %s", d)
	return err
}

// stopBrokerLong takes the answers away before, so that there are messages that the bridge does not know to be in the
// log, and that the broker does not know again by their ids when it is back.
func stopBrokerLong(ctx context.Context, i *injection) error {
	try.Do(i.holdAnswers(ctx))
	i.broker.stop()
	i.note(ctx, "%d messages are in the log and not known to be", i.wire.forget())
	return i.stopBrokerFor(ctx, DuplicateWindow+i.between(time.Second, 3*time.Second))
}

func cutConnections(ctx context.Context, i *injection) error {
	until, n := time.Now().Add(i.between(time.Second, 4*time.Second)), 0
	before, _ := i.wire.now()
	for time.Now().Before(until) {
		try.Do(pause.For(ctx, i.between(20*time.Millisecond, 80*time.Millisecond)))
		n += i.wire.cut()
	}
	after, _ := i.wire.now()
	if n == 0 {
		return fmt.Errorf("%w: there was no connection to cut", ErrMissed)
	}
	i.note(ctx, "cut %d times, %d messages were sent meanwhile", n, after.Published-before.Published)
	return nil
}

// rewindLog stops the broker for a moment to copy its store, and later brings the copy back.
func (b *natsBackend) rewindLog(ctx context.Context, i *injection) error {
	copied := filepath.Join(i.dir, "nats-copy")
	old, err := b.end()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissed, err)
	}
	copying := time.Now()
	b.stop()
	try.Do(b.keep(copied))
	try.Do(b.server.Start())
	var end uint64
	missed := i.await(ctx, "the log to grow", func() bool {
		end, _ = b.end()
		return end > old+5
	})
	if missed == nil {
		missed = pause.For(ctx, i.between(0, 2*time.Second))
	}
	// Where the log cannot be read, the copy is not brought back.
	if err := i.keepLog(ctx, LogRewound); err != nil {
		return errors.Join(err, os.RemoveAll(copied))
	}
	b.stop()
	for _, p := range i.processes() {
		p.mayEnd.Store(i.cfg.Checkpoint == CheckpointNATS)
	}
	try.Do(b.putBack(copied))
	if i.cfg.Checkpoint == CheckpointNATS && i.cfg.Forgets != nil {
		i.cfg.Forgets(copying)
	}
	try.Do(b.server.Start())
	i.lost(ctx, LogRewound, "the log ended at %d at least, and ends at %d", end, old)
	return errors.Join(missed, b.restartLost(ctx, i))
}

// restartLost starts again who has found its checkpoint older than it knows, and has ended for that, as it says. Who
// has a commit accepted since has found nothing. Of several processes one that led before may find it later, and end.
func (b *natsBackend) restartLost(ctx context.Context, i *injection) error {
	if i.cfg.Checkpoint != CheckpointNATS {
		return nil
	}
	since, ended := time.Now(), false
	err := poll(ctx, seen, "a commit that is accepted, or the end of a bridge that has lost some", func() bool {
		for _, p := range i.processes() {
			ended = ended || !p.Running()
		}
		return ended || time.Since(since) > 5*time.Second && slices.ContainsFunc(i.processes(), func(p *Bridge) bool {
			return p.committedSince(ctx, since)
		})
	})
	if err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%w: %w; %s", ErrUnsettled, err, i.Bridge().lastWords())
		}
		return err
	}
	if ended {
		i.note(ctx, "a bridge has ended, because its checkpoint had lost commits; it is started again")
		err = i.StartBridge()
	}
	for _, p := range i.processes() {
		p.mayEnd.Store(len(i.replicas) > 1 && !p.committedSince(ctx, since))
	}
	return err
}

// committedSince reports whether a bridge has read its checkpoint, or had a commit accepted, since a time. That
// somebody wrote to the checkpoint says less: who led before may have said once more that it is used.
func (b *Bridge) committedSince(ctx context.Context, since time.Time) bool {
	began := time.Now()
	m, err := b.Metrics(ctx)
	age, series := m.Sum("checkpoint_age_seconds") // of the one pipeline
	return err == nil && series == 1 && began.Add(-time.Duration(age*float64(time.Second))).After(since)
}

func deleteLog(ctx context.Context, i *injection) error {
	end, err := i.broker.end()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissed, err)
	}
	try.Do(i.keepLog(ctx, LogDeleted))
	try.Do(i.broker.deleteLog(ctx))
	i.lost(ctx, LogDeleted, "the log, which ended at %d, was deleted", end)
	return i.await(ctx, "the bridge to make a new log", func() bool {
		_, err := i.broker.end()
		return err == nil
	})
}

// fillLog sets the stream's limit to what it holds, so that it takes nothing more until the limit is what it was.
func (b *natsBackend) fillLog(ctx context.Context, i *injection) error {
	before := i.refusals(ctx)
	roomy, err := b.limit(ctx, func(c *jetstream.StreamConfig, bytes uint64) {
		c.MaxBytes, c.Discard = int64(bytes), jetstream.DiscardNew //nolint:gosec // it is small
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissed, err)
	}
	missed := i.await(ctx, "the broker to refuse an event", func() bool { return i.refusals(ctx) > before })
	if missed == nil {
		missed = pause.For(ctx, i.between(0, 4*time.Second))
	}
	i.note(ctx, "the log was full, and %v times something was refused", i.refusals(ctx)-before)
	_, err = b.limit(context.WithoutCancel(ctx), func(c *jetstream.StreamConfig, _ uint64) { *c = roomy })
	return errors.Join(missed, err)
}

// limit changes the stream, and returns what it was.
func (b *natsBackend) limit(
	ctx context.Context, change func(c *jetstream.StreamConfig, bytes uint64),
) (was jetstream.StreamConfig, err error) {
	err = b.ask(func(js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, Stream)
		if err != nil {
			return err
		}
		info := stream.CachedInfo()
		was = info.Config
		now := was
		change(&now, info.State.Bytes)
		_, err = js.UpdateStream(ctx, now)
		return err
	})
	return was, err
}

// refusals counts what the bridges have had to publish again.
func (i *injection) refusals(ctx context.Context) (sum float64) {
	for _, p := range i.processes() {
		if m, err := p.Metrics(ctx); err == nil {
			n, _ := m.Sum("publish_retries_total")
			sum += n
		}
	}
	return sum
}

// answerLate holds answers back until the bridge has given them up, which it does after some time.
func answerLate(after time.Duration) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		late := after + i.between(200*time.Millisecond, 2*time.Second)
		until := time.Now().Add(i.between(time.Second, 3*time.Second))
		i.wire.set(hold)
		n := 0
		for holding := true; ; {
			try.Do(pause.For(ctx, 10*time.Millisecond))
			n += i.wire.release(late)
			if holding && time.Now().After(until) {
				i.wire.set(pass)
				holding = false
			}
			if _, held := i.wire.now(); !holding && held == 0 {
				break
			}
		}
		if n == 0 {
			return fmt.Errorf("%w: there was nothing to answer", ErrMissed)
		}
		i.note(ctx, "%d answers were %s late", n, late)
		return nil
	}
}

// loseAnswers keeps the answers until there are some, because those that are lost have to be some. Those that wait for
// an answer in vain find out after some time.
func loseAnswers(after time.Duration) func(context.Context, *injection) error {
	return func(ctx context.Context, i *injection) error {
		try.Do(i.holdAnswers(ctx))
		try.Do(pause.For(ctx, i.between(0, 2*time.Second)))
		i.note(ctx, "%d answers to what is in the log were lost", i.wire.forget())
		return pause.For(ctx, after)
	}
}
