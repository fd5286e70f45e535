// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// OldRecordsDeleted is the fault by which a log loses its beginning, as retention does it.
const OldRecordsDeleted = "old records deleted"

// kafkaFaults break the brokers b, or the way to them.
func kafkaFaults(b *kafkaBackend) []Fault {
	return []Fault{
		{Name: "a broker killed", Parts: Broker, Cost: 15 * time.Second, run: b.killOne},
		{Name: "brokers killed in turn", Parts: Broker, Weight: 3, Cost: 40 * time.Second, run: b.killInTurn},
		{Name: "brokers restarted in turn", Parts: Broker, Weight: 3, Cost: 40 * time.Second, run: b.restartInTurn},
		{
			Name: "two brokers down, too few replicas in sync", Parts: Broker, Weight: 5, Cost: 20 * time.Second,
			run: b.killTwo,
		},
		{Name: "all brokers stopped for seconds", Parts: Broker, Weight: 5, Cost: 25 * time.Second, run: b.stopAll},
		{Name: "leaders moved", Parts: Broker, Cost: 10 * time.Second, run: b.moveLeaders},
		{Name: "a broker frozen", Parts: Broker, Weight: 8, Cost: 15 * time.Second, run: b.freeze},
		{
			Name: "a broker replaced, and cut off from the controller", Parts: Broker, Weight: 4, Cost: 25 * time.Second,
			run: b.outdate,
		},
		{Name: "connections to a broker frozen", Parts: Broker, Weight: 8, Cost: 15 * time.Second, run: b.silenceOne},
		{Name: "broker connections cut every few tens of ms", Parts: Broker, Cost: 6 * time.Second, run: cutConnections},
		{
			Name: "broker acknowledges later than the bridge waits", Parts: Broker, Weight: 4, Cost: 20 * time.Second,
			run: answerLate(kafkaTimeout),
		},
		{Name: "broker stores and loses the answer", Parts: Broker, Cost: 10 * time.Second, run: loseAnswers(0)},
		{
			Name: "log deleted while the bridge runs", Parts: Broker, Weight: 2, Cost: 40 * time.Second, Loses: LogDeleted,
			run: b.deleteLive,
		},
		{
			Name: "log deleted while the bridge is away", Parts: Process | Broker, Weight: 2, Cost: 20 * time.Second,
			Loses: LogDeleted, run: b.deleteAway,
		},
		// A process that begins meanwhile has not read them yet, so the process belongs to it.
		{Name: OldRecordsDeleted, Parts: Process | Broker, Weight: 4, Cost: 10 * time.Second, run: b.deleteOld},
		{
			Name: "killed, and what it had sent arrives late", Parts: Process | Broker, Cost: 15 * time.Second,
			run: deliverLate(3),
		},
		{
			Name: "stopped, replaced and woken", Parts: Process | Broker, Alone: true, Single: true, Checkpoint: CheckpointKafka,
			Cost: 20 * time.Second, run: b.wakeReplaced,
		},
		{
			Name: "killed around a commit to the brokers", Parts: Process | Broker, Checkpoint: CheckpointKafka,
			Cost: 5 * time.Second, run: killAtCommit,
		},
	}
}

// restart starts brokers that were killed, also when ctx has ended.
func (b *kafkaBackend) restart(ctx context.Context, brokers ...int) error {
	g, ctx := errgroup.WithContext(context.WithoutCancel(ctx))
	for _, n := range brokers {
		g.Go(func() error { return b.cluster.Restart(ctx, n) })
	}
	return g.Wait()
}

// away kills brokers, and starts them again after a while.
func (b *kafkaBackend) away(ctx context.Context, d time.Duration, brokers ...int) error {
	if err := b.kill(brokers...); err != nil {
		return err
	}
	waited := pause.For(ctx, d)
	if err := b.restart(ctx, brokers...); err != nil {
		return err
	}
	return waited
}

func (b *kafkaBackend) killOne(ctx context.Context, i *injection) error {
	n, d := i.random.IntN(kafkaBrokers), i.between(0, 4*time.Second)
	i.note(ctx, "broker %d is killed, and away for %s", n, d)
	return b.away(ctx, d, n)
}

func (b *kafkaBackend) killInTurn(ctx context.Context, i *injection) error {
	for _, n := range i.random.Perm(kafkaBrokers) {
		i.note(ctx, "broker %d is killed", n)
		try.Do(b.away(ctx, i.between(0, time.Second), n))
	}
	return nil
}

// restartInTurn stops brokers as an upgrade does: each hands its partitions over first.
func (b *kafkaBackend) restartInTurn(ctx context.Context, i *injection) error {
	for n := range kafkaBrokers {
		stopping, cancel := context.WithTimeout(ctx, time.Minute)
		err := b.cluster.Stop(stopping, n)
		cancel()
		i.note(ctx, "broker %d was stopped: %v", n, err)
		try.Do(b.restart(ctx, n))
	}
	return ctx.Err()
}

func (b *kafkaBackend) killTwo(ctx context.Context, i *injection) error {
	two, d := i.random.Perm(kafkaBrokers)[:2], i.between(time.Second, 5*time.Second)
	i.note(ctx, "brokers %v are killed, and away for %s", two, d)
	return b.away(ctx, d, two...)
}

func (b *kafkaBackend) stopAll(ctx context.Context, i *injection) error {
	d := i.between(200*time.Millisecond, 5*time.Second)
	i.note(ctx, "all brokers are killed, and away for %s", d)
	return b.away(ctx, d, 0, 1, 2)
}

func (b *kafkaBackend) moveLeaders(ctx context.Context, i *injection) error {
	moved := 0
	for p := range Partitions {
		now, err := b.cluster.Leader(ctx, topicLog, p)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrMissed, err)
		}
		to := (now + 1 + i.random.IntN(kafkaBrokers-1)) % kafkaBrokers
		if err := b.cluster.MoveLeader(ctx, topicLog, p, to); err != nil {
			return fmt.Errorf("%w: %w", ErrMissed, err)
		}
		moved++
	}
	i.note(ctx, "%d partitions have other leaders", moved)
	return nil
}

func (b *kafkaBackend) freeze(ctx context.Context, i *injection) error {
	n, d := i.random.IntN(kafkaBrokers), i.between(500*time.Millisecond, 8*time.Second)
	try.Do(b.cluster.Pause(n))
	waited := pause.For(ctx, d)
	try.Do(b.cluster.Resume(n))
	i.note(ctx, "the process of broker %d stood still for %s", n, d)
	return waited
}

// outdate stops a broker until others lead in its place, and lets it go on while the controller is stopped: it leads on
// as far as it knows.
func (b *kafkaBackend) outdate(ctx context.Context, i *injection) error {
	partition := i.random.IntN(Partitions)
	n, err := b.cluster.Leader(ctx, topicLog, partition)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissed, err)
	}
	try.Do(b.cluster.Pause(n))
	replaced := poll(ctx, seen, "another leader", func() bool {
		now, err := b.cluster.Leader(ctx, topicLog, partition)
		return err == nil && now != n
	})
	try.Do(b.cluster.PauseController())
	try.Do(b.cluster.Resume(n))
	d := i.between(500*time.Millisecond, 8*time.Second)
	waited := pause.For(ctx, d)
	try.Do(b.cluster.ResumeController())
	if replaced != nil {
		return fmt.Errorf("%w: %w", ErrMissed, replaced)
	}
	i.note(ctx, "broker %d did not know for %s that others lead in its place", n, d)
	return waited
}

// silenceOne freezes connections: what both sides have sent meanwhile arrives in the end.
func (b *kafkaBackend) silenceOne(ctx context.Context, i *injection) error {
	n, d := i.random.IntN(kafkaBrokers), i.between(500*time.Millisecond, kafkaTimeout+2*time.Second)
	b.proxied.Silence(b.frontsOf(n)...)
	waited := pause.For(ctx, d)
	b.proxied.heal()
	i.note(ctx, "nothing came through to or from broker %d for %s", n, d)
	return waited
}

// seen is how long the bridge may take to see that its log is another one, and to make a new one.
const seen = 2 * time.Minute

func (b *kafkaBackend) deleteLive(ctx context.Context, i *injection) error {
	old := try.Get(b.takeLog(ctx, i))
	err := poll(ctx, seen, "the bridge to make a new log", func() bool {
		now, err := b.incarnation(ctx)
		return err == nil && now != old || !i.Bridge().Running() && i.cfg.Replicas == 0
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w; %s", ErrUnsettled, err, i.Bridge().lastWords())
	}
	return err
}

// takeLog keeps the log and deletes it, and returns what it was called.
func (b *kafkaBackend) takeLog(ctx context.Context, i *injection) (old [16]byte, err error) {
	if old, err = b.incarnation(ctx); err != nil {
		return old, fmt.Errorf("%w: %w", ErrMissed, err)
	}
	if err := i.keepLog(ctx, LogDeleted); err != nil {
		return old, err
	}
	end, _ := b.end() // for a person
	if err := b.deleteLog(ctx); err != nil {
		return old, err
	}
	i.lost(ctx, LogDeleted, "the log, which had %d records, was deleted", end)
	return old, nil
}

func (b *kafkaBackend) deleteAway(ctx context.Context, i *injection) error {
	try.Do(i.KillBridge())
	if _, err := b.takeLog(ctx, i); err != nil {
		return i.revive(err)
	}
	try.Do(i.StartBridge())
	return i.awaitReplacement(ctx)
}

// awaitReplacement waits until a bridge that follows another one is ready, which it has to become.
func (i *injection) awaitReplacement(ctx context.Context) error {
	err := poll(ctx, seen, "the next bridge to be ready", func() bool {
		leads := i.follow(ctx)
		ready, _ := i.Bridge().Ready(ctx)
		return leads && ready || !i.Bridge().Running() && i.cfg.Replicas == 0
	})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w; %s", ErrUnsettled, err, i.Bridge().lastWords())
	}
	return err
}

// deleteOld deletes what limits of the log would: records that the bridge has to know of, because it has committed
// since.
func (b *kafkaBackend) deleteOld(ctx context.Context, i *injection) error {
	log, err := i.ReadLog(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrMissed, err)
	}
	// The first one may have begun before. A commit bounds what was acknowledged at the one before it, and at a still
	// earlier one where an event was under way all the time.
	for range 4 {
		before := i.committed()
		try.Do(i.await(ctx, "a commit", func() bool { return i.committed().After(before) }))
	}
	if err := b.deleteRecords(ctx, log); err != nil {
		return fmt.Errorf("%w: %w", ErrMissed, err)
	}
	i.note(ctx, "%d records of the log were deleted", len(log))
	return nil
}

// wakeReplaced stops the process of a bridge, starts another one, and lets the first go on: it has to end, and nothing
// of it may follow.
func (b *kafkaBackend) wakeReplaced(ctx context.Context, i *injection) error {
	// One that has not opened its checkpoint yet does so when it is woken: then it is the one that replaces.
	try.Do(i.awaitReady(ctx))
	old := try.Get(i.setAside(ctx))
	try.Do(i.StartBridge())
	try.Do(i.awaitReplacement(ctx))
	try.Do(pause.For(ctx, i.between(0, time.Second)))
	try.Do(old.wake(ctx))
	i.note(ctx, "the bridge that was replaced has ended with %v", old.State())
	return nil
}

// killAtCommit kills the bridge when the brokers have just acknowledged a commit.
func killAtCommit(ctx context.Context, i *injection) error {
	before := i.committed()
	try.Do(i.await(ctx, "a commit", func() bool { return i.committed().After(before) }))
	try.Do(i.killLeader(ctx))
	i.note(ctx, "killed some moments after a commit")
	return i.StartBridge()
}
