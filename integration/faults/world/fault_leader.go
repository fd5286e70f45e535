// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/proxy"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// leaderFaults break one of several replicas, or what they agree by.
func leaderFaults() []Fault {
	all := []Fault{
		{Name: "leader killed, and replaced when another leads", Parts: Process, Cost: 15 * time.Second, run: killReplaced},
		{Name: "leader stopped, and replaced when another leads", Parts: Process, Cost: 15 * time.Second, run: stopReplaced},
		{Name: "replicas restarted in turn", Parts: Process, Weight: 5, Cost: 30 * time.Second, run: restartReplicas},
		{Name: "leader asleep until another leads, and woken", Parts: Process, Cost: 20 * time.Second, run: sleepReplaced},
		{
			Name: "leader asleep with its hands full, and what it had sent arrives late", Parts: Process | Broker, Weight: 5,
			Cost: 35 * time.Second, run: sleepFull,
		},
		{Name: "leader asleep for about as long as its Lease", Parts: Process, Cost: 10 * time.Second, run: sleepShortly},
		{Name: "a standby killed", Parts: Process, Weight: 5, Cost: 5 * time.Second, run: killStandby},
		{Name: "a standby asleep", Parts: Process, Weight: 5, Cost: 8 * time.Second, run: sleepStandby},
		{Name: "leader cut off from the API server", Parts: Process | API, Cost: 20 * time.Second, run: cutLeader},
		{Name: "leader cut off from the broker", Parts: Process | Broker, Cost: 10 * time.Second, run: cutFromBroker},
		{Name: "a standby cut off", Parts: Process | API | Broker, Weight: 5, Cost: 10 * time.Second, run: cutStandby},
		{Name: "Lease deleted", Parts: Process | API, Weight: 8, Cost: 10 * time.Second, run: deleteLease},
		{Name: "Lease taken by a stranger", Parts: Process | API, Weight: 8, Cost: 15 * time.Second, run: takeLease},
	}
	for n := range all {
		all[n].Together = true
	}
	return all
}

func killReplaced(ctx context.Context, i *injection) error {
	leader := try.Get(i.theLeader(ctx))
	try.Do(pause.For(ctx, i.between(0, time.Second)))
	since := time.Now()
	try.Do(leader.kill())
	return i.replace(ctx, Killed, leader, since)
}

// replace waits until another one leads, and starts the process that has ended, some time later.
func (i *injection) replace(ctx context.Context, cause Cause, leader *Bridge, since time.Time) error {
	if err := i.takeover(ctx, cause, leader, since); err != nil {
		return err
	}
	if err := pause.For(ctx, i.between(0, 2*time.Second)); err != nil {
		return err
	}
	return i.StartBridge()
}

func stopReplaced(ctx context.Context, i *injection) error {
	leader := try.Get(i.theLeader(ctx))
	stopping, cancel := context.WithTimeout(ctx, stopping)
	defer cancel()
	try.Do(leader.stop(stopping))
	return i.replace(ctx, Stopped, leader, time.Now())
}

// restartReplicas stops one after the other, the leader at a random place among them, and waits until each is ready
// again, as a rollout does.
func restartReplicas(ctx context.Context, i *injection) error {
	for _, n := range i.random.Perm(len(i.replicas)) {
		b := i.process(i.replicas[n])
		leads := b == i.leader(ctx, nil)
		stopping, cancel := context.WithTimeout(ctx, stopping)
		err := b.stop(stopping)
		cancel()
		if err != nil {
			return err
		}
		since := time.Now()
		try.Do(i.StartBridge())
		if leads {
			try.Do(i.takeover(ctx, Stopped, b, since))
		}
		i.note(ctx, "replica %d was restarted; it led: %v", n+1, leads)
		try.Do(i.awaitLeader(ctx, func() bool {
			ready, _ := i.process(i.replicas[n]).Ready(ctx)
			return ready
		}))
	}
	return nil
}

// sleepReplaced wakes a leader when another one leads, and has published something perhaps.
func sleepReplaced(ctx context.Context, i *injection) error {
	leader := try.Get(i.theLeader(ctx))
	since := time.Now()
	try.Do(leader.signal(syscall.SIGSTOP))
	err := i.takeover(ctx, Asleep, leader, since)
	if err == nil {
		err = pause.For(ctx, i.between(0, 2*time.Second))
	}
	return errors.Join(err, leader.signal(syscall.SIGCONT))
}

const (
	// known is how many events a bridge has published before its requests come late: of an object that it has published
	// nothing of, it asks the broker first, whoever else publishes.
	known = 150
	// handful is how many changes it has read then and not published: so many that the broker gets some of them late.
	handful = 30
)

// sleepFull lets nothing of a leader through to the broker until it has something in its hands, stops it, and lets
// through what it had sent when another one leads and has published the same: on NATS so late that the server does not
// know the ids any more. Then it wakes. Nothing of it may be in the log.
func sleepFull(ctx context.Context, i *injection) error {
	leader := try.Get(i.theLeader(ctx))
	try.Do(i.await(ctx, "the leader to publish", i.counts(ctx, leader, "events_published_total", known)))
	way := i.of(leader).brokers
	way.Silence()
	defer way.Open()
	try.Do(i.await(ctx, "the leader to have its hands full", i.counts(ctx, leader, "buffered_events", handful)))
	since := time.Now()
	try.Do(leader.signal(syscall.SIGSTOP))
	err := i.takeover(ctx, Asleep, leader, since)
	if err == nil {
		err = pause.For(ctx, i.forgotten()+i.between(time.Second, 3*time.Second))
	}
	way.Open()
	if err == nil {
		err = pause.For(ctx, i.between(0, time.Second))
	}
	return errors.Join(err, leader.signal(syscall.SIGCONT))
}

// counts returns what reports whether a metric of a bridge is as large as that.
func (*injection) counts(ctx context.Context, b *Bridge, metric string, enough float64) func() bool {
	return func() bool {
		m, err := b.Metrics(ctx)
		now, _ := m.Sum(metric)
		return err == nil && now >= enough
	}
}

// forgotten is after how long the broker does not know the id of a message any more. Kafka knows none of another
// producer.
func (w *World) forgotten() time.Duration {
	if w.cfg.Broker == Kafka {
		return 0
	}
	return DuplicateWindow
}

func sleepShortly(ctx context.Context, i *injection) error {
	leader := try.Get(i.theLeader(ctx))
	return i.sleep(ctx, leader, i.between(LeaseDuration/4, 3*LeaseDuration/2))
}

func (i *injection) sleep(ctx context.Context, b *Bridge, d time.Duration) error {
	if err := b.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err := pause.For(ctx, d)
	i.note(ctx, "a process stood still for %s", d)
	return errors.Join(err, b.signal(syscall.SIGCONT))
}

func killStandby(ctx context.Context, i *injection) error {
	r := try.Get(i.aStandby(ctx))
	try.Do(i.process(r).kill())
	d := i.between(0, 2*time.Second)
	i.note(ctx, "replica %d, which stood by, was killed, and away for %s", r.number, d)
	try.Do(pause.For(ctx, d))
	return i.StartBridge()
}

func sleepStandby(ctx context.Context, i *injection) error {
	r := try.Get(i.aStandby(ctx))
	return i.sleep(ctx, i.process(r), i.between(500*time.Millisecond, 2*LeaseDuration))
}

// aStandby returns one that does not lead while another does.
func (i *injection) aStandby(ctx context.Context) (*replica, error) {
	leader, err := i.theLeader(ctx)
	if err != nil {
		return nil, err
	}
	r := i.standby(leader)
	if r == nil {
		return nil, fmt.Errorf("%w: no process stands by", ErrMissed)
	}
	return r, nil
}

// close closes a way in one of two manners.
func (i *injection) close(ctx context.Context, r *replica, way *proxy.Proxy) {
	how := "connections broken"
	if i.random.IntN(2) == 0 {
		way.Sever()
	} else {
		how = "connections silent"
		way.Silence()
	}
	i.note(ctx, "replica %d is cut off: %s", r.number, how)
}

func cutLeader(ctx context.Context, i *injection) error {
	leader := try.Get(i.theLeader(ctx))
	r, since := i.of(leader), time.Now()
	i.close(ctx, r, r.api)
	err := i.takeover(ctx, CutOff, leader, since)
	if err == nil {
		err = pause.For(ctx, i.between(0, 3*time.Second))
	}
	r.api.Open()
	return err
}

// cutFromBroker: the leader keeps its Lease, because no process knows that another one would reach the broker.
func cutFromBroker(ctx context.Context, i *injection) error {
	leader := try.Get(i.theLeader(ctx))
	r := i.of(leader)
	i.close(ctx, r, r.brokers)
	err := pause.For(ctx, i.between(500*time.Millisecond, 5*time.Second))
	r.brokers.Open()
	return err
}

func cutStandby(ctx context.Context, i *injection) error {
	r := try.Get(i.aStandby(ctx))
	if from := i.random.IntN(3); from != 0 {
		i.close(ctx, r, r.api)
	} else {
		i.close(ctx, r, r.brokers)
	}
	return pause.For(ctx, i.between(500*time.Millisecond, 6*time.Second)) // the end of a fault opens all ways
}
