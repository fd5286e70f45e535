// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/pause"
)

const (
	// rate is how many changes a second are made, of all kinds together.
	rate = 40
	// pairs is how many of ten faults are joined by another one.
	pairs = 3
	// settling is how long the bridge may take to publish what is left, when nothing is broken any more.
	settling = 90 * time.Second
	// bufferLimit is how many bytes the bridge is allowed to hold: so few that a broker which is away fills them.
	bufferLimit = 1 << 20
	// rssLimit is what a bridge with few objects may take, whatever happens to it: what is buffered stands in the
	// memory up to twice.
	rssLimit = 2*bufferLimit + 128<<20
	// missesAllowed bounds how often in a row a fault may find no occasion.
	missesAllowed = 20
	// missesPlanned bounds how often a planned fault is tried.
	missesPlanned = 5
)

// round is one world and what happens in it.
type round struct {
	seed   uint64
	faults int
	// plan says what is injected; nil draws it.
	plan    *Planned
	random  *rand.Rand
	subject subject
	// checkpoint is the kind of the bridge's, replicas how many run.
	checkpoint string
	replicas   int
	// second is the bridge's second pipeline, nil where it has none.
	second  *world.Second
	dir     string
	options Options

	world    *world.World
	driver   *drive.Driver
	recorder *oracle.Recorder
	// tried are the faults that were injected, also those that found no occasion; acts is what they did. Canaries
	// counts how often the bridge was tried between them.
	tried    []world.Fault
	acts     []act
	canaries int
	// bridged is when the bridge was first started, and caches is when the API server filled watch caches.
	bridged time.Time
	caches  []world.CacheFilled
	// schedule is what the bridge was to read when. Two faults at a time change it.
	schedule   oracle.Schedule
	scheduling sync.Mutex
	told       map[string]bool
	result     Result
}

// run returns what the oracle says, and what the bridge did that it must not. The error is one of the round itself: it
// says nothing of the bridge.
func (r *round) run(ctx context.Context) (_ Result, err error) {
	began := time.Now()
	r.random = newRandom(r.seed)
	r.subject = newSubject(r.random)
	r.schedule = oracle.Schedule{{Selections: [][]oracle.Stream{r.subject.streams}}}
	r.draws()
	if err := r.prepare(ctx); err != nil {
		return r.result, errors.Join(err, r.close())
	}
	defer func() {
		defer r.spend("close")()
		err = errors.Join(err, r.close())
	}()

	background, stop := context.WithCancel(ctx)
	defer stop()
	g, background := errgroup.WithContext(background)
	g.Go(func() error { return r.recorder.Run(background) })
	err = r.play(background)
	if err == nil {
		err = r.judge(background)
	}
	if kind := kindOf(err); kind != "" && background.Err() == nil {
		r.violated("", kind, "", err.Error())
		err = r.judgeRest(background)
	}
	stop()
	r.result.Seconds = time.Since(began).Seconds()
	return r.result, errors.Join(err, g.Wait())
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) } //nolint:gosec // it must be repeatable

// spend measures what a part of the round takes, until the returned function is called.
func (r *round) spend(part string) (done func()) {
	began := time.Now()
	return func() {
		if r.result.Spent == nil {
			r.result.Spent = map[string]float64{}
		}
		r.result.Spent[part] += time.Since(began).Seconds()
	}
}

// draws draws what the world is made of, where no plan says it: half of the bridges that are alone have their
// checkpoint on a disk.
func (r *round) draws() {
	onDisk := r.random.IntN(2) != 0
	if r.replicas = r.options.Replicas; r.replicas == AnyReplicas {
		r.replicas = []int{0, 0, 2, 3}[r.random.IntN(4)]
	}
	if !onDisk || r.replicas > 0 {
		r.checkpoint = cmp.Or(r.options.Broker, world.NATS)
	}
	two := r.random.IntN(2) == 0
	if r.plan != nil {
		r.replicas, r.checkpoint, two = r.plan.Replicas, r.plan.Checkpoint, r.plan.Second
	}
	if two {
		r.second = newSecond(r.random)
		r.subject.include(r.second.Selection)
	}
	if r.checkpoint != world.CheckpointFile {
		r.result.Checkpoint = r.checkpoint
	}
	r.result.Replicas = r.replicas
}

func (r *round) prepare(ctx context.Context) (err error) {
	defer r.spend("start")()
	r.recorder = oracle.NewRecorder(oracle.RecorderConfig{
		Resources: r.subject.resources, Cluster: world.Cluster,
		Dial: r.dial,
	})
	r.world, err = world.Start(ctx, world.Config{
		Selection: r.subject.selection, Selects: r.selects, Forgets: r.forgets,
		Settings: fmt.Sprintf("buffer: {maxBytes: %d}", bufferLimit),
		CRDs:     []*apiextensionsv1.CustomResourceDefinition{drive.WidgetDefinition()}, Dir: r.dir,
		Binary: r.options.Binary, ClockBinary: r.options.ClockBinary, Broker: r.options.Broker, Checkpoint: r.checkpoint,
		Replicas: r.replicas, Second: r.second, Meanwhile: r.awaitCanaries, Restoring: r.recorder.Hold, Restored: r.restored,
	})
	if err != nil {
		return err
	}
	r.driver, err = drive.New(drive.Config{
		REST: r.world.RESTConfig(), Seed: r.seed, Rate: rate, Objects: 16, Namespaces: []string{selected, whole},
	})
	if err != nil {
		return err
	}
	return errors.Join(r.driver.Setup(ctx), r.makeMany(ctx))
}

func (r *round) dial() (*clientv3.Client, error) { return r.world.ControlPlane().EtcdClient() }

// restored tells the recorder where the new history begins.
func (r *round) restored(snapshot string) error {
	revision, err := oracle.SnapshotRevision(snapshot)
	r.recorder.Restored(revision)
	return err
}

func (r *round) close() error {
	if r.driver != nil {
		r.driver.Close()
	}
	if r.world == nil {
		return nil
	}
	return r.world.Close()
}

// play starts the bridge, changes objects, injects the faults, and returns when all is quiet again.
func (r *round) play(ctx context.Context) error {
	if err := r.begin(ctx); err != nil {
		return err
	}
	driving, stop := context.WithCancel(ctx)
	defer stop()
	g, driving := errgroup.WithContext(driving)
	g.Go(func() error { return r.driver.Run(driving) })
	inject := r.injectDrawn
	if r.plan != nil {
		inject = r.injectPlanned
	}
	err := inject(driving)
	stop()
	if err := errors.Join(err, g.Wait()); err != nil {
		return err
	}
	r.result.Changes = r.driver.Counts().Changes()
	const when = "at the end of the round"
	if err := r.awaitCanaries(ctx, when); err != nil {
		return err
	}
	if err := r.awaitSecondCanaries(ctx, when); err != nil {
		return err
	}
	defer r.spend("settle")()
	if err := r.world.WaitSettled(ctx, settling); err != nil {
		return err
	}
	if err := r.selects(ctx, r.subject.selection); err != nil {
		return err
	}
	return r.audit(ctx)
}

// audit has everything published again where etcd was restored, and maybe nothing showed it. The bridge then compares
// the versions of all objects, and the times at which they were written.
func (r *round) audit(ctx context.Context) error {
	if !slices.ContainsFunc(r.world.Events(), func(e world.Event) bool { return e.Kind == world.EtcdRestored }) {
		return nil
	}
	said, complete, err := r.world.Resync(ctx)
	if err != nil {
		return err
	}
	if !complete {
		return r.world.Unsettled("a resync is not complete: " + said)
	}
	r.result.Audited++
	return r.world.WaitSettled(ctx, settling)
}

func (r *round) begin(ctx context.Context) error {
	defer r.spend("begin")()
	if err := r.recorder.Sync(ctx); err != nil {
		return err
	}
	if len(r.world.CachesFilled()) == 0 {
		return errors.New("kube-apiserver does not print when it fills a watch cache; see world.CacheFilled")
	}
	r.bridged = time.Now()
	if err := r.world.StartBridge(); err != nil {
		return err
	}
	return r.world.WaitSettled(ctx, settling)
}

// injectPlanned injects the faults of the plan. After each the bridge has to be well.
func (r *round) injectPlanned(ctx context.Context) error {
	for _, name := range r.plan.Faults {
		f, err := r.one(name)
		if err != nil {
			r.result.Skipped = append(r.result.Skipped, fmt.Sprintf("NOT RUN: fault %q: needs %v", name, err))
			continue
		}
		for tries := 1; ; tries++ {
			since := r.world.Mark()
			done, err := r.inject(ctx, f)
			if err == nil && done && !strings.Contains(name, together) { // of two, each has what it did in the events
				err = f.Proof(since)
			}
			if err == nil && !done && tries == missesPlanned {
				err = fmt.Errorf("fault %q found no occasion %d times", name, tries)
			}
			if err != nil {
				return err
			}
			if done {
				break
			}
		}
		after := fmt.Sprintf("after %q", name)
		if err := r.awaitCanaries(ctx, after); err != nil {
			return err
		}
		if err := r.awaitSecondCanaries(ctx, after); err != nil {
			return err
		}
	}
	return nil
}

// injectDrawn injects faults at random, one or two at a time.
func (r *round) injectDrawn(ctx context.Context) error {
	for misses := 0; len(r.result.Faults) < r.faults; {
		f, err := r.pick()
		if err != nil {
			return err
		}
		done, err := r.inject(ctx, f)
		switch {
		case err != nil:
			return err
		case !done:
			if misses++; misses > missesAllowed {
				return fmt.Errorf("%d faults in a row found no occasion: %v", misses, r.result.Missed)
			}
			continue
		}
		misses = 0
		if err := pause.For(ctx, time.Duration(r.random.Int64N(int64(500*time.Millisecond)))); err != nil {
			return err
		}
	}
	return nil
}

// inject injects a fault, and reports whether it, or one of two, found an occasion. Where one did not, the bridge may
// hang: new objects have to reach the log.
func (r *round) inject(ctx context.Context, f world.Fault) (done bool, err error) {
	r.tried = append(r.tried, f)
	spent := r.spend("faults")
	injected, err := f.Inject(ctx, r.random)
	spent()
	if len(injected) > 0 {
		r.result.Faults = append(r.result.Faults, strings.Join(injected, together))
	}
	if err != nil && !errors.Is(err, world.ErrMissed) {
		return false, err
	}
	if !misses(f, injected) {
		return true, nil
	}
	missed := fmt.Sprintf("%q found no occasion: %v", f.Name, err)
	r.result.Missed = append(r.result.Missed, missed)
	return len(injected) > 0, r.awaitCanaries(ctx, missed)
}

// pick draws a fault, and now and then another one that goes with it.
func (r *round) pick() (world.Fault, error) {
	f, err := r.draw(func(world.Fault) bool { return true })
	if err != nil || r.random.IntN(10) >= pairs {
		return f, err
	}
	other, err := r.draw(f.Fits)
	if err != nil {
		return f, nil //nolint:nilerr // it goes with no other one
	}
	return f.With(other), nil
}

// draw draws one of the faults that fit, by their weights.
func (r *round) draw(fits func(world.Fault) bool) (world.Fault, error) {
	var some []world.Fault
	sum := 0
	for _, f := range r.world.Faults() {
		// With a clock that has jumped, nothing tells what was read before a selection changed.
		unclear := f.Action && r.jumped() || f.Clock && r.phases() > 1
		// Of a log that has lost its beginning a lost checkpoint learns less, and what is told again is no violation.
		unclear = unclear || f.Loses == world.CheckpointLost && r.trimmed()
		if !unclear && f.Available() == nil && fits(f) && r.options.named(f.Name) && f.Cost <= r.options.Longest {
			some = append(some, f)
			sum += f.Weight
		}
	}
	if sum == 0 {
		return world.Fault{}, errors.New("no fault can be injected here")
	}
	n := r.random.IntN(sum)
	for _, f := range some {
		if n -= f.Weight; n < 0 {
			return f, nil
		}
	}
	panic("BUG: weights")
}
