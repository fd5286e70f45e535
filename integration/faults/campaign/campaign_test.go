// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// faults is how many are injected with each of two seeds: one that is always the same, and a fresh one.
const faults = 32

func TestBridge_keeps_its_promises_under_faults(t *testing.T) {
	if os.Getenv("FAULTS") == "" {
		t.Skip("NOT RUN: it breaks things for minutes; set FAULTS=1, or use make faults")
	}
	dir := t.TempDir()
	binary, err := world.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	clock, err := world.BuildWithClock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, seed := range map[string]uint64{"fixed": 1, "fresh": rand.Uint64() >> 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Logf("seed %d", seed)
			kept := filepath.Join(dir, name)
			if err := os.MkdirAll(kept, 0o755); err != nil {
				t.Fatal(err)
			}
			results, err := Run(t.Context(), Options{
				Faults: faults, PerRound: faults / 2, Seed: seed, Dir: kept, Binary: binary, ClockBinary: clock, Longest: 45 * time.Second,
				Log: testLog{t},
			})
			if err != nil {
				t.Fatal(err)
			}
			s := Summarize(results)
			if s.Faults < faults || s.Published == 0 || s.States == 0 {
				t.Errorf("little was tried:\n%s", s)
			}
			if s.Broken() > 0 {
				t.Errorf("promises were broken; to repeat it: make faults FAULTS=%d SEED=%d", faults, seed)
			}
			for _, r := range results {
				if len(r.Told) > 0 {
					t.Log(r.Story)
				}
			}
			t.Logf("\n%s", s)
		})
	}
}

// testLog writes to a test's log.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// A campaign goes on with the rounds that its file does not have.
func TestCampaign_goes_on_where_it_was_cut_short(t *testing.T) {
	c := &campaign{options: Options{Faults: 10, PerRound: 4}, file: filepath.Join(t.TempDir(), "results"), played: map[int]bool{}}
	for _, r := range []Result{{Round: 0, Faults: []string{"a", "b + c", "d", "e"}}, {Round: 2, Faults: []string{"a"}, Violations: map[string]int{"P1": 2}}} {
		if err := save(c.file, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.load(); err != nil {
		t.Fatal(err)
	}
	var next []string
	for {
		n, k := c.next()
		if k == 0 {
			break
		}
		next = append(next, fmt.Sprint(n, ":", k))
	}
	if got := strings.Join(next, " "); got != "1:4 3:1" {
		t.Errorf("it goes on with %s, want round 1 with 4 faults and round 3 with 1", got)
	}
	s := Summarize(c.results)
	if s.Faults != 5 || s.ByFault["b"] != 1 || s.ByFault["a"] != 2 || s.Broken() != 2 {
		t.Errorf("%+v", s)
	}
}
