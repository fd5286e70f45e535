// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// Options say what a campaign does. Dir is required, and Faults or a Plan.
type Options struct {
	// Plan are the first rounds: each injects the faults that it names. Those that Only and Longest leave out are not.
	Plan []Planned
	// Faults is how many are injected besides, at random, PerRound how many in each round (12 if 0).
	Faults, PerRound int
	// Parallel is how many rounds are played at a time, 1 if 0.
	Parallel int
	// Turns, if not nil, has one for each round that all campaigns of this process together play at a time.
	Turns *semaphore.Weighted
	Seed  uint64
	// Broker is the kind of broker that the bridge publishes to, as in [world.Config]; NATS if it is empty.
	Broker string
	// Replicas is how many bridges run in each round, as in [world.Config]; of [AnyReplicas] that is drawn for each.
	Replicas int
	// Round, if not nil, is the only round that is played, in a fresh directory inside Dir; kept results are ignored.
	// It has PerRound faults, or those of the plan.
	Round *int
	// Dir is where the results and, of rounds in which a promise was broken, everything else are kept.
	Dir string
	// Binary is the bridge, ClockBinary one whose clock can be moved; without the latter the clock does not jump.
	Binary, ClockBinary string
	// Only, if not nil, matches the names of the faults that are injected.
	Only *regexp.Regexp
	// Longest leaves out faults that take longer; 0 is none.
	Longest time.Duration
	// Known are violations that do not count.
	Known []Known
	// Race says that the bridge was built with the race detector: it takes more memory, and says what it finds.
	Race bool
	// Late is by which factor a takeover may be later than promised, 10 if 0; the median may be by half of it.
	Late float64
	// Strict says that nothing may be left open: see [Summary.Objections].
	Strict bool
	// Log receives progress for a person; it may be nil.
	Log io.Writer
}

// AnyReplicas stands for none in half of the rounds, and two or three in the others.
const AnyReplicas = -1

const (
	perRound = 12
	// longest is more than any fault takes.
	longest = time.Hour
	// late is a factor for which no load of the machine can be the reason.
	late = 10
)

// Run runs a campaign to its end, or goes on with the one whose results are in the directory. It returns all results.
// What the bridge did that it must not is no error, but in the results. The error is one of what is around the bridge,
// after a second try, or says that the results in the directory are of a campaign with other settings.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if o.PerRound == 0 {
		o.PerRound = perRound
	}
	if o.Longest == 0 {
		o.Longest = longest
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	o.Late = cmp.Or(o.Late, late)
	o.Plan = o.matching(o.Plan)
	c, err := newCampaign(o)
	if err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	for range max(c.options.Parallel, 1) {
		g.Go(func() error { return c.play(ctx) })
	}
	err = g.Wait()
	return c.results, err
}

// campaign is one that runs.
type campaign struct {
	options Options
	file    string

	mu      sync.Mutex // guards what follows
	results []Result
	played  map[int]bool // rounds, by number
	faults  int          // that these rounds have to have
	last    time.Time    // when there was a result, or the campaign began
}

func newCampaign(o Options) (*campaign, error) {
	if o.Round != nil {
		dir, err := os.MkdirTemp(o.Dir, fmt.Sprintf("again-%d-%d-", o.Seed, *o.Round))
		if err != nil {
			return nil, fmt.Errorf("make directory: %w", err)
		}
		o.Dir, o.Parallel, o.Faults = dir, 1, o.PerRound
		if *o.Round < len(o.Plan) {
			o.Faults = 0
		}
	}
	c := &campaign{
		options: o, file: filepath.Join(o.Dir, fmt.Sprintf("results-%d.jsonl", o.Seed)), played: map[int]bool{},
		last: time.Now(),
	}
	if err := c.load(); err != nil {
		return nil, err
	}
	if c.faults >= o.Faults && len(c.played) >= len(o.Plan) && len(c.played) > 0 {
		c.tell("all faults of this seed have been injected before, and this is what came of it; another seed injects others")
	}
	return c, nil
}

// play plays one round after another.
func (c *campaign) play(ctx context.Context) error {
	for {
		n, faults := c.next()
		if faults == 0 {
			return nil
		}
		result, err := c.attempt(ctx, func() (Result, error) { return c.inTurn(ctx, n, faults) })
		if err == nil {
			err = c.keep(result)
		}
		if err != nil {
			return err
		}
	}
}

// inTurn plays a round when it is its turn.
func (c *campaign) inTurn(ctx context.Context, n, faults int) (Result, error) {
	if turns := c.options.Turns; turns != nil {
		if err := turns.Acquire(ctx, 1); err != nil {
			return Result{}, fmt.Errorf("wait for a turn: %w", err)
		}
		defer turns.Release(1)
	}
	return c.runRound(ctx, n, faults)
}

// attempt plays a round, and once more if something around the bridge fails. What the bridge did the first time counts.
func (c *campaign) attempt(ctx context.Context, run func() (Result, error)) (Result, error) {
	result, err := run()
	if err == nil || ctx.Err() != nil {
		return result, err
	}
	c.tell("PLAYED AGAIN, because something around the bridge has failed: %v", err)
	first := result
	result, err = run()
	result.Retried = true
	result.Told = slices.Concat(first.Told, result.Told)
	result.Violations, result.Known = sums(result.Violations, first.Violations), sums(result.Known, first.Known)
	return result, err
}

func (c *campaign) tell(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.options.Log, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}

// next returns the number of a round that was not played, and how many faults it has to have; 0 if there is none.
func (c *campaign) next() (n, faults int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.played[n] {
		n++
	}
	if c.options.Round != nil {
		if len(c.played) > 0 {
			return 0, 0
		}
		n = *c.options.Round
	}
	if n < len(c.options.Plan) {
		faults = len(c.options.Plan[n].Faults)
	} else {
		faults = max(0, min(c.options.PerRound, c.options.Faults-c.faults))
		c.faults += faults
	}
	c.played[n] = faults > 0
	return n, faults
}

// keep adds a result, also to the file.
func (c *campaign) keep(r Result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	r.Wall, c.last = now.Sub(c.last).Seconds(), now
	c.results = append(c.results, r)
	gaps, so := hides(r.Gaps), Summarize(c.results)
	_, _ = fmt.Fprintf(c.options.Log, "%s round %d of seed %d: %d faults done, %d missed, %d changes, %d entries, "+
		"%d gaps hide %d, %d read back, %d violations, %.0f s (%s)\n",
		now.Format(time.TimeOnly), r.Round, r.Seed, so.Faults, len(r.Missed), r.Changes, r.Entries,
		gaps.Gaps, gaps.Hidden, r.Recovered, r.count(), r.Seconds, r.spent())
	for _, line := range slices.Concat(r.Missed, r.Skipped) {
		_, _ = fmt.Fprintln(c.options.Log, line)
	}
	for _, told := range r.Told {
		_, _ = fmt.Fprintln(c.options.Log, told)
	}
	if len(r.Told) > 0 {
		_, _ = fmt.Fprintf(c.options.Log, "what is left is in %s; to draw the same again, in integration/: %s\n",
			c.dir(r.Round), c.options.Command(r.Round, r.Wanted))
	}
	return save(c.file, r)
}

// Command is what plays a round again that had so many faults; what happens at which moment is up to the machine.
func (o Options) Command(round, faults int) string {
	s := fmt.Sprintf("go run ./cmd/faults -seed %d -round %d -per-round %d -dir '%s'", o.Seed, round, faults, o.Dir)
	switch {
	case len(o.Plan) == 0:
	case strings.Contains(o.Plan[0].Faults[0], together):
		s += " -together"
	default:
		s += " -once"
	}
	if o.Race {
		s += " -race"
	}
	if o.Broker != "" && o.Broker != world.NATS {
		s += " -broker " + o.Broker
	}
	switch o.Replicas {
	case 0:
	case AnyReplicas:
		s += " -replicas any"
	default:
		s += fmt.Sprintf(" -replicas %d", o.Replicas)
	}
	if o.Longest != 0 && o.Longest != longest {
		s += fmt.Sprintf(" -longest %s", o.Longest)
	}
	if o.Only != nil {
		s += fmt.Sprintf(" -only '%s'", o.Only)
	}
	if o.ClockBinary == "" && o.Binary != "" {
		s += " -bridge " + o.Binary
	}
	return s
}

// dir is where a round's world is.
func (c *campaign) dir(n int) string {
	return filepath.Join(c.options.Dir, fmt.Sprintf("round-%d-%d", c.options.Seed, n))
}

// runRound keeps the round's directory where something was violated or went wrong. What is left there of an earlier try
// goes.
func (c *campaign) runRound(ctx context.Context, n, faults int) (Result, error) {
	dir, err := filepath.Abs(c.dir(n))
	if err != nil {
		return Result{}, err
	}
	if err := errors.Join(world.Remove(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return Result{}, err
	}
	r := &round{seed: seedOf(c.options.Seed, n), faults: faults, options: c.options, dir: dir}
	if n < len(c.options.Plan) {
		r.plan = &c.options.Plan[n]
	}
	r.result = Result{Round: n, Seed: c.options.Seed, Broker: c.options.Broker, Wanted: faults}
	result, err := r.run(ctx)
	if r.world != nil {
		result.Story = r.world.Story()
	}
	if err != nil {
		return result, fmt.Errorf("round %d of seed %d, in %s: %w\n%s", n, c.options.Seed, dir, err, result.Story)
	}
	if len(result.Told) > 0 {
		return result, nil
	}
	result.Story = ""
	return result, os.RemoveAll(dir)
}

// seedOf is the seed of the n-th round.
func seedOf(campaign uint64, n int) uint64 {
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %d", campaign, n)
	return h.Sum64()
}
