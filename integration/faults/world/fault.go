// SPDX-License-Identifier: Apache-2.0

package world

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/try"
)

// Fault is one way to break the world, for a while.
type Fault struct {
	// Name is unique, and says to a person what happens.
	Name string
	// Weight says how often a random run should take it: 10 is usual.
	Weight int
	// Cost is how long it takes at most, roughly, on two busy cores.
	Cost time.Duration
	// Loses is what of the log it takes away, Note for nothing. It is also in the events.
	Loses Kind
	// Gaps are those that the bridge may announce because of it: none where it is empty.
	Gaps []MayGap
	// Parts are what it breaks, or needs to be whole. Faults of different parts can be injected together.
	Parts Part
	// FUSE says that it needs the disk to be seen.
	FUSE bool
	// Checkpoint, if not empty, is the kind of checkpoint that it needs.
	Checkpoint string
	// Alone and Together say that it needs a bridge that is alone, or one with replicas.
	Alone, Together bool
	// Single says that it needs a bridge with one pipeline: of several, one ends, and the process goes on.
	Single bool
	// CRD says that it needs custom resources.
	CRD bool
	// Clock says that it needs a bridge whose clock can be moved.
	Clock bool
	// Action says that it needs a world that knows what its file selects.
	Action bool
	// Resyncs says that what exists is published again because of it.
	Resyncs bool
	// Refuses says that the second pipeline's server refuses events for good because of it.
	Refuses bool

	w   *World
	run func(context.Context, *injection) error
	// pair are the two that this one is, instead of run; nil of all others.
	pair []Fault
	// joined says that it is one of two.
	joined bool
}

// Part is a set of parts of the world.
type Part int

// The parts of the world. Process is the bridge's, SecondServer the second pipeline's server.
const (
	Process Part = 1 << iota
	Broker
	API
	Disk
	SecondServer
)

// ErrMissed is wrapped by the errors of faults that found no occasion: nothing was published meanwhile, for one. The
// world is as before, and the bridge runs, but for what the events say. Whoever makes changes has to make some, several
// a second, while a fault is injected.
var ErrMissed = errors.New("no occasion")

// Available returns why the fault cannot be injected on this machine or in this world, nil if it can.
func (f Fault) Available() error {
	if f.FUSE && f.w.disk.missing != nil {
		return f.w.disk.missing
	}
	if f.Checkpoint != "" && f.Checkpoint != f.w.cfg.Checkpoint {
		return fmt.Errorf("the world has no checkpoint of the kind %q", f.Checkpoint)
	}
	if f.Alone && f.w.cfg.Replicas > 0 {
		return errors.New("the world has replicas")
	}
	if f.Together && f.w.cfg.Replicas == 0 {
		return errors.New("the world has no replicas")
	}
	if f.Clock && f.w.cfg.ClockBinary == "" {
		return errors.New("the world was not asked for a bridge whose clock can be moved")
	}
	if f.Action && f.w.cfg.Selection == nil {
		return errors.New("the world does not know what its file selects")
	}
	if f.Parts&SecondServer != 0 && f.w.second == nil {
		return errors.New("the world has no second pipeline")
	}
	if f.Single && f.w.second != nil {
		return errors.New("the world has a second pipeline")
	}
	if f.CRD && len(f.w.cfg.CRDs) == 0 {
		return errors.New("the world has no custom resources")
	}
	return nil
}

// Inject breaks the world, mends it, and returns the names of what was injected: of two that were made one only one,
// where the other has found no occasion. The bridge must run, and runs afterwards unless the error says something else.
// What is drawn at random comes from random only; at which change it strikes is still up to the machine. An error that
// is not [ErrMissed] says that the world could not be mended, or, if it wraps [ErrUnsettled], [ErrEnded] or [ErrUsed],
// that the bridge did what it must not; it is never both.
func (f Fault) Inject(ctx context.Context, random *rand.Rand) (injected []string, err error) {
	if err := f.running("before"); err != nil {
		return nil, err
	}
	injected, err = f.inject(ctx, random)
	if err == nil || errors.Is(err, ErrMissed) {
		if ended := f.running("after"); ended != nil {
			return injected, ended
		}
	}
	return injected, err
}

// running returns why the bridge does not run although it has to. A process that may have ended is started again.
func (f Fault) running(when string) error {
	for _, r := range f.w.replicas {
		if b := f.w.process(r); !b.Running() && b.mayEnd.Load() {
			if err := f.w.StartBridge(); err != nil {
				return err
			}
		}
		if b := f.w.process(r); !b.Running() {
			return fmt.Errorf("inject %q: %w: it does not run %s the fault; %s", f.Name, ErrEnded, when, b.lastWords())
		}
	}
	return nil
}

func (f Fault) inject(ctx context.Context, random *rand.Rand) (injected []string, err error) {
	i := &injection{World: f.w, random: random, fault: f}
	i.record(ctx, Event{Kind: Begun, Fault: f.Name, Text: "begins"})
	if f.pair != nil {
		injected, err = f.injectPair(ctx, i)
	} else if err = try.Run(func(*try.Scope) { try.Do(f.run(ctx, i)) }); err == nil {
		injected = []string{f.Name}
	}
	f.w.mend(f.Parts)
	i.record(ctx, Event{Kind: Over, Fault: f.Name, Text: "is over"})
	if err != nil {
		err = fmt.Errorf("inject %q: %w", f.Name, err)
		i.failed(ctx, err)
	}
	return injected, err
}

// mend lifts everything that a fault may have left in the proxies and on the disk.
func (w *World) mend(parts Part) {
	if parts&Broker != 0 {
		w.wire.heal()
	}
	if parts&API != 0 {
		w.api.set(nil)
		w.api.let()
		w.api.cutInFrames(0)
		w.api.expire(0, 0)
	}
	for _, r := range w.replicas {
		if r.api != nil && parts&API != 0 {
			r.api.Open()
		}
		if r.brokers != nil && parts&Broker != 0 {
			r.brokers.Open()
		}
	}
	if parts&Disk != 0 {
		w.disk.set(nil)
	}
}

// Fits says whether the two can be injected together. A checkpoint that goes back with the broker's store does not know
// what a name meant that was new, so that a second resource of that name may take it.
func (f Fault) Fits(g Fault) bool {
	binds := func(f Fault) bool { return f.Action && f.CRD }
	forgets := binds(f) && g.Loses == LogRewound || binds(g) && f.Loses == LogRewound
	return f.Parts&g.Parts == 0 && !forgets
}

// With returns the fault that begins both at once, and is over when both are. They must fit. If only one of them finds
// no occasion, that is in the events and in what [Fault.Inject] returns, and no error.
func (f Fault) With(g Fault) Fault {
	both := Fault{
		Name: f.Name + " + " + g.Name, Weight: min(f.Weight, g.Weight), Cost: f.Cost + g.Cost, Loses: f.Loses,
		Parts: f.Parts | g.Parts,
		FUSE:  f.FUSE || g.FUSE, Alone: f.Alone || g.Alone, Together: f.Together || g.Together,
		Single:     f.Single || g.Single,
		Checkpoint: max(f.Checkpoint, g.Checkpoint), CRD: f.CRD || g.CRD, Clock: f.Clock || g.Clock,
		Action: f.Action || g.Action, Resyncs: f.Resyncs || g.Resyncs, Refuses: f.Refuses || g.Refuses,
		Gaps: slices.Concat(f.Gaps, g.Gaps), w: f.w,
	}
	if f.Loses == Note {
		both.Loses = g.Loses
	}
	both.pair = []Fault{f, g}
	return both
}

// injectPair injects both at the same time.
func (f Fault) injectPair(ctx context.Context, i *injection) (injected []string, err error) {
	if !f.pair[0].Fits(f.pair[1]) {
		return nil, errors.New("they need the same parts")
	}
	var work sync.WaitGroup
	done, errs := make([][]string, 2), make([]error, 2)
	for n, one := range f.pair {
		one.joined = true
		random := rand.New(rand.NewPCG(i.random.Uint64(), i.random.Uint64()))
		work.Go(func() { done[n], errs[n] = one.inject(ctx, random) })
	}
	work.Wait()
	injected = slices.Concat(done...)
	switch first, second := errors.Is(errs[0], ErrMissed), errors.Is(errs[1], ErrMissed); {
	case first && !second:
		return injected, errs[1]
	case second && !first:
		return injected, errs[0]
	default:
		return injected, errors.Join(errs...)
	}
}

// Catalogue returns all faults of worlds with a kind of broker, of those with replicas, those without, or both. They
// describe themselves and cannot be injected.
func Catalogue(broker string, alone, together bool) []Fault {
	return slices.DeleteFunc((&World{cfg: Config{Broker: broker}}).Faults(), func(f Fault) bool {
		return f.Alone && !alone || f.Together && !together
	})
}

// Mark is a place in what the faults of a world have done.
type Mark struct{ events, removed int }

// Mark returns the present place.
func (w *World) Mark() Mark {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Mark{len(w.events), len(w.removed)}
}

// Proof returns why what was recorded since the mark does not prove that the fault, and nothing else, was injected.
func (f Fault) Proof(since Mark) error {
	events, removed := f.w.Events()[since.events:], f.w.Removed()[since.removed:]
	told := slices.ContainsFunc(events, func(e Event) bool { return e.Kind == f.Loses })
	if !told {
		return fmt.Errorf("fault %q: no event says %q: %v", f.Name, f.Loses, events)
	}
	for _, e := range events {
		if e.Fault != f.Name || e.At.IsZero() || e.Kind == EtcdRestored && (e.Kept == 0 || e.Kept >= e.Before) {
			return fmt.Errorf("fault %q: the event is not complete: %+v", f.Name, e)
		}
	}
	taken := 0
	if f.Loses == LogRewound || f.Loses == LogDeleted || f.Loses == Fresh {
		taken = 1
	}
	if len(removed) != taken || taken == 1 && (removed[0].Kind != f.Loses || len(removed[0].Messages) == 0) {
		return fmt.Errorf("fault %q: %d logs were kept, want %d with messages", f.Name, len(removed), taken)
	}
	return nil
}

// brokerFaults are those of the kind of broker that the world has.
func (w *World) brokerFaults() []Fault {
	// There is no broker where only names are asked for.
	if w.cfg.Broker == Kafka {
		b, _ := w.broker.(*kafkaBackend)
		return kafkaFaults(b)
	}
	b, _ := w.broker.(*natsBackend)
	return natsFaults(b)
}

// Faults returns all faults of this world. They may be copied.
func (w *World) Faults() []Fault {
	var all []Fault
	for _, some := range [][]Fault{
		killFaults(), commitFaults(), w.brokerFaults(), apiFaults(), clusterFaults(), diskFaults(), clockFaults(),
		leaderFaults(), takeoverFaults(), actionFaults(), secondFaults(),
	} {
		all = append(all, some...)
	}
	for n := range all {
		all[n].w, all[n].Gaps = w, mayGap[all[n].Name]
		if all[n].Checkpoint == CheckpointFile {
			all[n].Alone = true
		}
		if all[n].Loses == "" {
			all[n].Loses = Note
		}
		if all[n].Weight == 0 {
			all[n].Weight = 10
		}
	}
	return all
}

// What the bridge must not do. Errors that wrap one of them say something of the bridge; all others are those of the
// world around it.
var (
	// ErrUnsettled: it did not come to rest, or to its end, in the time that it has.
	ErrUnsettled = errors.New("the bridge does not settle")
	// ErrEnded: it ended without being asked to, or otherwise than it was asked to.
	ErrEnded = errors.New("the bridge ended")
	// ErrAstray: it has published where it should not.
	ErrAstray = errors.New("the bridge has written elsewhere")
	// ErrUsed: it did not refuse a damaged checkpoint, or not as it has to.
	ErrUsed = errors.New("a damaged checkpoint is not refused")
)
