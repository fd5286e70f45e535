// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// subject is a program that is measured while it publishes what it lists and watches.
type subject struct {
	column string
	start  func(context.Context, *rig) (*process, error)
	// markers is how many messages it publishes besides one for each object and event.
	markers int
	// idle is the processor time that a start without objects takes; 0 where it is not counted.
	idle time.Duration
}

// bridgeMarkers is the number of markers of a first list: it has started, it is complete.
const bridgeMarkers = 2

func (b *bench) bridgeSubject() *subject { return b.bridgeOf(pods) }

// bridgeOf returns the bridge that publishes a resource.
func (b *bench) bridgeOf(resource string) *subject {
	return &subject{column: colBridge, markers: bridgeMarkers, start: func(_ context.Context, r *rig) (*process, error) {
		return b.startBridge(r, resource, "", nil)
	}}
}

func (b *bench) baselineSubject() *subject {
	return &subject{column: colBaseline, start: func(ctx context.Context, r *rig) (*process, error) {
		if _, err := r.js.CreateStream(ctx, b.stream); err != nil {
			return nil, fmt.Errorf("create the stream: %w", err)
		}
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		return b.startProgram(r, colBaseline, []string{self, "baseline"}, "pods", "", nil)
	}}
}

// throughput is one run of a and c.
func (b *bench) throughput(ctx context.Context, run int) error {
	events := func(n int) int {
		if !b.watch {
			return 0
		}
		return n
	}
	if b.withBridge {
		if err := b.measureSubject(ctx, run, b.bridgeSubject(), events(b.events)); err != nil {
			return err
		}
	}
	if b.withPublisher {
		if err := b.measurePublisher(ctx, run, events(b.events)); err != nil {
			return err
		}
	}
	if b.withBaseline {
		return b.measureSubject(ctx, run, b.baselineSubject(), events(b.baselineEvents))
	}
	return nil
}

// measureSubject measures the subject with the objects of a and c, after a start without any.
func (b *bench) measureSubject(ctx context.Context, run int, s *subject, events int) (err error) {
	if s.idle, err = b.idleStart(ctx, s); err != nil {
		return fmt.Errorf("%s without objects: %w", s.column, err)
	}
	return b.measure(ctx, run, s, b.objects, events)
}

// idleStart returns the processor time of a start with nothing to list.
func (b *bench) idleStart(ctx context.Context, s *subject) (used time.Duration, err error) {
	ctx, cancel := deadline(ctx, time.Minute)
	defer cancel()
	err = try.Run(func(end *try.Scope) {
		r := b.newRig(ctx, end, 0)
		p := try.Get(s.start(ctx, r))
		end.Finally(p.stop)
		try.Get(r.await(ctx, s.markers, p))
		try.Do(settle(ctx, p))
		used = try.Get(p.cpu())
	})
	return used, err
}

// measure starts the subject, lets it list, and then sends it events.
func (b *bench) measure(ctx context.Context, run int, s *subject, objects, events int) error {
	b.progress("run %d: %s, %s objects, %s events", run, s.column, thousands(objects), thousands(events))
	ctx, cancel := deadline(ctx, time.Minute+time.Duration(objects+events)*3*time.Millisecond)
	defer cancel()
	return try.Run(func(end *try.Scope) {
		r := b.newRig(ctx, end, objects)
		started := time.Now()
		p := try.Get(s.start(ctx, r))
		end.Finally(p.stop)
		b.measureList(ctx, run, s, r, p, objects, listPhase(objects), started)
		if events > 0 {
			b.measureWatch(ctx, run, s, r, p, b.watchPhase(), objects, events)
		}
		if s.column == colBridge {
			try.Do(b.remember(ctx, r))
		}
	})
}

func (b *bench) measureList(
	ctx context.Context, run int, s *subject, r *rig, p *process, objects int, phase string, started time.Time,
) {
	last := try.Get(r.await(ctx, objects+s.markers, p))
	try.Do(settle(ctx, p))
	used, peak := try.Get(p.cpu()), try.Get(p.peak())
	b.add(run, row{phase, wallClock, "s"}, s.column, last.Sub(started).Seconds())
	b.add(run, row{phase, cpuWithStart, "µs"}, s.column, perUnit(used, objects))
	if s.idle > 0 {
		b.add(run, row{phase, cpuPerObject, "µs"}, s.column, perUnit(used-s.idle, objects))
	}
	b.add(run, row{phase, "peak RSS", "MiB"}, s.column, float64(peak)/(1<<20))
}

func (b *bench) measureWatch(
	ctx context.Context, run int, s *subject, r *rig, p *process, phase string, objects, events int,
) {
	before, brokerBefore := try.Get(p.cpu()), try.Get(r.broker.cpu())
	began := time.Now()
	try.Do(r.emit(ctx, events))
	last := try.Get(r.await(ctx, objects+events+s.markers, p))
	brokerAfter := try.Get(r.broker.cpu())
	try.Do(settle(ctx, p))
	after, peak := try.Get(p.cpu()), try.Get(p.peak())
	b.add(run, row{phase, "events per second", "/s"}, s.column, float64(events)/last.Sub(began).Seconds())
	b.add(run, row{phase, "CPU per event", "µs"}, s.column, perUnit(after-before, events))
	b.add(run, row{phase, "CPU of the broker per event", "µs"}, s.column, perUnit(brokerAfter-brokerBefore, events))
	b.add(run, row{phase, "peak RSS", "MiB"}, s.column, float64(peak)/(1<<20))
	try.Do(r.exactly(ctx, objects+events+s.markers, p))
}

// exactly checks that nothing was published after the last message.
func (r *rig) exactly(ctx context.Context, n int, p *process) error {
	_, err := r.await(ctx, n, p)
	return err
}

// remember keeps the settings of the bridge's stream and one of its messages, so that the others do the same work.
func (b *bench) remember(ctx context.Context, r *rig) error {
	stream, err := r.js.Stream(ctx, streamName)
	if err != nil {
		return fmt.Errorf("look at the log: %w", err)
	}
	b.stream = stream.CachedInfo().Config
	id := identityOf(0)
	m, err := stream.GetLastMsgForSubject(ctx, subjectOf(id.Namespace, id.Name))
	if err != nil {
		return fmt.Errorf("read a message of the bridge: %w", err)
	}
	m.Header.Del(jetstream.ExpectedLastSubjSeqHeader)
	b.sample = filepath.Join(b.dir, "sample.json")
	return (&sample{Header: m.Header, Data: m.Data}).write(b.sample)
}

// measurePublisher has the bare publisher publish as many messages as there are objects, then as there are events.
func (b *bench) measurePublisher(ctx context.Context, run, events int) error {
	b.progress("run %d: %s", run, colPublisher)
	ctx, cancel := deadline(ctx, time.Minute+time.Duration(b.objects+events)*time.Millisecond)
	defer cancel()
	return try.Run(func(end *try.Scope) {
		r := b.newRig(ctx, end, 0)
		try.Get(r.js.CreateStream(ctx, b.stream))
		p, _, err := startRole(ctx, "publisher", "-broker", r.url, "-objects", fmt.Sprint(b.objects), "-sample", b.sample)
		try.Do(err)
		end.Finally(p.stop)

		wall, cpu, _ := publishMeasured(ctx, r, p, b.objects)
		b.add(run, listRow(b.objects, wallClock, "s"), colPublisher, wall.Seconds())
		b.add(run, listRow(b.objects, cpuWithStart, "µs"), colPublisher, perUnit(cpu, b.objects))
		b.add(run, listRow(b.objects, cpuPerObject, "µs"), colPublisher, perUnit(cpu, b.objects))
		if events == 0 {
			return
		}
		wall, cpu, broker := publishMeasured(ctx, r, p, events)
		b.add(run, b.watchRow("events per second", "/s"), colPublisher, float64(events)/wall.Seconds())
		b.add(run, b.watchRow("CPU per event", "µs"), colPublisher, perUnit(cpu, events))
		b.add(run, b.watchRow("CPU of the broker per event", "µs"), colPublisher, perUnit(broker, events))
		try.Do(r.exactly(ctx, b.objects+events, p))
	})
}

// publishMeasured returns how long the publisher takes for n messages, and what it and the broker use for them.
func publishMeasured(ctx context.Context, r *rig, p *process, n int) (wall, cpu, broker time.Duration) {
	cpu0, broker0 := try.Get(p.cpu()), try.Get(r.broker.cpu())
	began := time.Now()
	try.Do(p.ask(ctx, n))
	wall = time.Since(began)
	return wall, try.Get(p.cpu()) - cpu0, try.Get(r.broker.cpu()) - broker0
}
