// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// recorded has the seconds that packages took on a quiet machine, by tier, and those of the fixed loop there.
type recorded struct {
	Machine     string                        `json:"machine"`
	Calibration float64                       `json:"calibration"`
	Tiers       map[string]map[string]float64 `json:"tiers"`
}

// grace is how many seconds a package may take besides twice its recorded time.
const grace = 30

func readRecorded(path string) (recorded, error) {
	rec := recorded{Tiers: map[string]map[string]float64{}}
	data, err := os.ReadFile(path)
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(data, &rec); err != nil {
		return rec, fmt.Errorf("%s: %w", path, err)
	}
	return rec, nil
}

func (rec recorded) write(path string) error {
	data, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}

// factor is how many times slower than the recorded machine this one is. It is at least 1: tests wait as long on a
// faster machine.
func (rec recorded) factor(r *runs) float64 {
	if rec.Calibration == 0 {
		return 1
	}
	return max(1, r.Calibration/rec.Calibration)
}

// judge returns an error with a line for each package that took too long, one for those without a recorded time, and
// one for those that have one and did not run.
func (rec recorded) judge(r *runs) error {
	var all []error
	var unknown []string
	factor := rec.factor(r)
	for _, p := range r.Packages {
		was, known := rec.Tiers[r.Tier][p.Package]
		limit := factor * (2*was + grace)
		switch {
		case p.Action == "skip" || p.Cached: // it has no tests, or did not run them
		case !known:
			unknown = append(unknown, p.Package)
		case p.Seconds > limit:
			all = append(all, fmt.Errorf("%s took %.1f s; recorded are %.1f s, and %.0f s are allowed on this machine",
				p.Package, p.Seconds, was, limit))
		}
	}
	if len(unknown) > 0 {
		all = append(all, fmt.Errorf("without a recorded time, until make record-times TIERS=%s: %s",
			r.Tier, strings.Join(unknown, " ")))
	}
	var missing []string
	for _, pkg := range slices.Sorted(maps.Keys(rec.Tiers[r.Tier])) {
		if !r.has(pkg) && slices.ContainsFunc(partsOf(pkg),
			func(part string) bool { return slices.Contains(r.Parts, part) }) {
			missing = append(missing, pkg)
		}
	}
	if len(missing) > 0 {
		all = append(all, fmt.Errorf("with a recorded time, and not run: %s", strings.Join(missing, " ")))
	}
	return errors.Join(all...)
}

// partsOf returns the parts of the tests that run a package, each of them in another tier; see the Makefile.
func partsOf(pkg string) []string {
	switch {
	case strings.HasPrefix(pkg, "integration/containers"):
		return []string{"containers"}
	case strings.HasPrefix(pkg, "integration/"):
		return []string{"core", "integration", "faults"}
	default:
		return []string{"unit"}
	}
}

// record takes over the times of a run whose packages have all passed.
func (rec *recorded) record(r *runs) error {
	times := map[string]float64{}
	for _, p := range r.Packages {
		switch {
		case p.Action == "fail":
			return fmt.Errorf("%s failed: its time says nothing", p.Package)
		case p.Cached:
			return fmt.Errorf("%s was not run: its results were cached", p.Package)
		case p.Action == "pass":
			times[p.Package] = math.Round(p.Seconds*10) / 10
		}
	}
	if len(times) == 0 || r.Tier == "" {
		return errors.New("there are no results")
	}
	rec.Tiers[r.Tier] = times
	rec.Calibration = r.Calibration
	return nil
}

// calibrate returns how long a fixed piece of work takes. It keeps two cores busy, as the tests do, so that it also
// takes longer where something else does.
func calibrate() time.Duration {
	const workers, rounds, numbers = 2, 12, 1 << 18
	began := time.Now()
	var wg sync.WaitGroup
	for seed := range uint64(workers) {
		wg.Go(func() {
			random, all := rand.New(rand.NewPCG(seed, 1)), make([]uint64, numbers)
			for range rounds {
				for i := range all {
					all[i] = random.Uint64()
				}
				slices.Sort(all)
			}
		})
	}
	wg.Wait()
	return time.Since(began)
}
