// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

// leaderFaults break one of several replicas, or what they agree by.
func leaderFaults() []Fault {
	all := []Fault{
		{Name: "leader killed, and replaced when another leads", Parts: Process, Cost: 15 * time.Second, run: killReplaced},
		{Name: "leader stopped, and replaced when another leads", Parts: Process, Cost: 15 * time.Second, run: stopReplaced},
		{Name: "replicas restarted in turn", Parts: Process, Weight: 5, Cost: 30 * time.Second, run: restartReplicas},
		{Name: "leader asleep until another leads, and woken", Parts: Process, Cost: 20 * time.Second, run: sleepReplaced},
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
	leader, err := i.theLeader(ctx)
	if err != nil {
		return err
	}
	if err := pause.For(ctx, i.between(0, time.Second)); err != nil {
		return err
	}
	since := time.Now()
	if err := leader.kill(); err != nil {
		return err
	}
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
	leader, err := i.theLeader(ctx)
	if err != nil {
		return err
	}
	stopping, cancel := context.WithTimeout(ctx, stopping)
	defer cancel()
	if err := leader.stop(stopping); err != nil {
		return err
	}
	return i.replace(ctx, Stopped, leader, time.Now())
}

// restartReplicas stops one after the other, the leader at a random place among them, and waits until each is ready again, as a rollout does.
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
		if err := i.StartBridge(); err != nil {
			return err
		}
		if leads {
			if err := i.takeover(ctx, Stopped, b, since); err != nil {
				return err
			}
		}
		i.note(ctx, "replica %d was restarted; it led: %v", n+1, leads)
		if err := i.awaitLeader(ctx, func() bool {
			ready, _ := i.process(i.replicas[n]).Ready(ctx)
			return ready
		}); err != nil {
			return err
		}
	}
	return nil
}

// sleepReplaced wakes a leader when another one leads, and has published something perhaps.
func sleepReplaced(ctx context.Context, i *injection) error {
	leader, err := i.theLeader(ctx)
	if err != nil {
		return err
	}
	since := time.Now()
	if err := leader.signal(syscall.SIGSTOP); err != nil {
		return err
	}
	err = i.takeover(ctx, Asleep, leader, since)
	if err == nil {
		err = pause.For(ctx, i.between(0, 2*time.Second))
	}
	return errors.Join(err, leader.signal(syscall.SIGCONT))
}

func sleepShortly(ctx context.Context, i *injection) error {
	leader, err := i.theLeader(ctx)
	if err != nil {
		return err
	}
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
	r, err := i.aStandby(ctx)
	if err != nil {
		return err
	}
	if err := i.process(r).kill(); err != nil {
		return err
	}
	d := i.between(0, 2*time.Second)
	i.note(ctx, "replica %d, which stood by, was killed, and away for %s", r.number, d)
	if err := pause.For(ctx, d); err != nil {
		return err
	}
	return i.StartBridge()
}

func sleepStandby(ctx context.Context, i *injection) error {
	r, err := i.aStandby(ctx)
	if err != nil {
		return err
	}
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
		return nil, fmt.Errorf("%w: nobody stands by", ErrMissed)
	}
	return r, nil
}

// close closes ways in one of two manners.
func (i *injection) close(ctx context.Context, r *replica, ways ...*way) {
	how := "connections broken"
	for n, do := 0, i.random.IntN(2); n < len(ways); n++ {
		if do == 0 {
			ways[n].sever()
			continue
		}
		how = "connections silent"
		ways[n].silence()
	}
	i.note(ctx, "replica %d is cut off: %s", r.number, how)
}

func cutLeader(ctx context.Context, i *injection) error {
	leader, err := i.theLeader(ctx)
	if err != nil {
		return err
	}
	r, since := i.of(leader), time.Now()
	i.close(ctx, r, r.api)
	err = i.takeover(ctx, CutOff, leader, since)
	if err == nil {
		err = pause.For(ctx, i.between(0, 3*time.Second))
	}
	r.api.open()
	return err
}

// cutFromBroker: the leader keeps its Lease, because nobody knows that another one would reach the broker.
func cutFromBroker(ctx context.Context, i *injection) error {
	leader, err := i.theLeader(ctx)
	if err != nil {
		return err
	}
	r := i.of(leader)
	i.close(ctx, r, r.brokers...)
	err = pause.For(ctx, i.between(500*time.Millisecond, 5*time.Second))
	openAll(r.brokers)
	return err
}

func cutStandby(ctx context.Context, i *injection) error {
	r, err := i.aStandby(ctx)
	if err != nil {
		return err
	}
	if from := i.random.IntN(3); from != 0 {
		i.close(ctx, r, r.api)
	} else {
		i.close(ctx, r, r.brokers...)
	}
	return pause.For(ctx, i.between(500*time.Millisecond, 6*time.Second)) // the end of a fault opens all ways
}
