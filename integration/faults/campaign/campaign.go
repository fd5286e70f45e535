// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options say what a campaign does. Faults and Dir are required.
type Options struct {
	// Faults is how many are injected in all, PerRound how many in each round (12 if 0).
	Faults, PerRound int
	// Parallel is how many rounds are played at a time, 1 if 0.
	Parallel int
	Seed     uint64
	// Dir is where the results and, of rounds in which a promise was broken, everything else are kept.
	Dir string
	// Binary is the bridge, ClockBinary one whose clock can be moved; without the latter the clock does not jump.
	Binary, ClockBinary string
	// Only, if not nil, says which faults are injected.
	Only func(name string) bool
	// Longest leaves out faults that take longer; 0 is none.
	Longest time.Duration
	// Log receives progress for a person; Progress is called for each fault. Both may be nil.
	Log      io.Writer
	Progress func(fault string)
}

const (
	perRound = 12
	// longestLine bounds a result with all that is told of it.
	longestLine = 64 << 20
)

// Run runs a campaign to its end, or goes on with the one whose results are in the directory. It returns all results. A promise that was broken is no error.
func Run(ctx context.Context, o Options) ([]Result, error) {
	if o.PerRound == 0 {
		o.PerRound = perRound
	}
	if o.Longest == 0 {
		o.Longest = time.Hour
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	c := &campaign{options: o, file: filepath.Join(o.Dir, fmt.Sprintf("results-%d.jsonl", o.Seed)), played: map[int]bool{}}
	if err := c.load(); err != nil {
		return nil, err
	}
	g, ctx := errgroup.WithContext(ctx)
	for range max(o.Parallel, 1) {
		g.Go(func() error { return c.play(ctx) })
	}
	return c.results, g.Wait()
}

// campaign is one that runs.
type campaign struct {
	options Options
	file    string

	mu      sync.Mutex // guards what follows
	results []Result
	played  map[int]bool // rounds, by number
	faults  int          // of these rounds
}

// play plays one round after another.
func (c *campaign) play(ctx context.Context) error {
	for {
		n, faults := c.next()
		if faults == 0 {
			return nil
		}
		r := &round{seed: seedOf(c.options.Seed, n), faults: faults, only: c.options.Only, options: c.options}
		result, err := runRound(ctx, r, n)
		if err == nil {
			err = c.keep(result)
		}
		if err != nil {
			return err
		}
	}
}

// next returns the number of a round that nobody has played, and how many faults it has to have; 0 if there is none.
func (c *campaign) next() (n, faults int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.played[n] {
		n++
	}
	faults = min(c.options.PerRound, c.options.Faults-c.faults)
	if faults <= 0 {
		return 0, 0
	}
	c.played[n] = true
	c.faults += faults
	return n, faults
}

// keep adds a result, also to the file.
func (c *campaign) keep(r Result) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.results = append(c.results, r)
	_, _ = fmt.Fprintf(c.options.Log, "%s round %d, seed %d: %d of %d faults done, %d changes, %d entries, %d gaps hide %d, %d read back, %d violations, %.0f s\n",
		time.Now().Format(time.TimeOnly), r.Round, r.Seed, Summarize(c.results).Faults, c.options.Faults, r.Changes, r.Entries, r.Gaps, r.Deltas, r.Recovered, len(r.Told), r.Seconds)
	for _, v := range r.Told {
		_, _ = fmt.Fprintln(c.options.Log, v)
	}
	return save(c.file, r)
}

// runRound keeps the round's directory where something was violated or went wrong.
func runRound(ctx context.Context, r *round, n int) (Result, error) {
	dir, err := filepath.Abs(filepath.Join(r.options.Dir, fmt.Sprintf("round-%d-%d", r.options.Seed, n)))
	if err != nil {
		return Result{}, err
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		return Result{}, err
	}
	r.dir, r.result = dir, Result{Round: n, Seed: r.seed}
	result, err := r.run(ctx)
	if err != nil {
		story := ""
		if r.world != nil {
			story = r.world.Story()
		}
		return result, fmt.Errorf("round %d with seed %d, kept in %s: %w\n%s", n, r.seed, dir, err, story)
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

// load reads the results of a campaign that was cut short.
func (c *campaign) load() (err error) {
	f, err := os.Open(c.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var r Result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("read %s: %w", c.file, err)
		}
		c.results = append(c.results, r)
		c.played[r.Round] = true
		c.faults += len(r.Faults)
	}
	return lines.Err()
}

func save(file string, r Result) (err error) {
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = f.Write(append(line, '\n'))
	return err
}
