// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// How many faults are injected with each of two seeds: one that is always the same, and a fresh one. Where CI is set both are always the same, so that
// no change is refused for a combination of faults that nobody has drawn before.
const (
	faults      = 32
	faultsKafka = 16
	// faultsReplicas are injected with the second seed only.
	faultsReplicas = 10
)

func TestBridge_keeps_its_promises_under_faults(t *testing.T) {
	breakThings(t, Options{Faults: faults, PerRound: faults / 2}, true)
}

func TestBridge_keeps_its_promises_on_Kafka_under_faults(t *testing.T) {
	needKafka(t)
	breakThings(t, Options{Broker: world.Kafka, Faults: faultsKafka, PerRound: faultsKafka}, true)
}

func TestBridge_with_replicas_keeps_its_promises_under_faults(t *testing.T) {
	t.Run("NATS", func(t *testing.T) {
		t.Parallel()
		breakThings(t, Options{Replicas: 2, Faults: faultsReplicas, PerRound: faultsReplicas}, false)
	})
	t.Run("Kafka", func(t *testing.T) {
		t.Parallel()
		needKafka(t)
		breakThings(t, Options{Broker: world.Kafka, Replicas: 3, Faults: faultsReplicas, PerRound: faultsReplicas}, false)
	})
}

func needKafka(t *testing.T) {
	t.Helper()
	if err := kafkabroker.Install(t.Context(), os.Stderr); err != nil {
		if errors.Is(err, kafkabroker.ErrUnavailable) && os.Getenv("CI") == "" {
			t.Skipf("NOT RUN: needs real Kafka: %v", err)
		}
		t.Fatal(err)
	}
}

func needControlPlane(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes minutes")
	}
	if _, err := controlplane.Binaries(t.Context(), os.Stderr); err != nil {
		if errors.Is(err, controlplane.ErrUnavailable) && os.Getenv("CI") == "" {
			t.Skipf("SKIPPED, needs a real API server: %v", err)
		}
		t.Fatal(err)
	}
}

// breakThings plays a campaign with the second seed, and with the first one too if it is to.
func breakThings(t *testing.T, o Options, both bool) {
	t.Helper()
	needControlPlane(t)
	dir := t.TempDir()
	binary, err := world.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	clock, err := world.BuildWithClock(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	o.Binary, o.ClockBinary, o.Longest = binary, clock, 45*time.Second
	seeds := map[string]uint64{"fresh": rand.Uint64() >> 1}
	if os.Getenv("CI") != "" {
		seeds["fresh"] = 2
	}
	if both {
		seeds["fixed"] = 1
	}
	for name, seed := range seeds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := o
			o.Seed, o.Dir, o.Log = seed, filepath.Join(dir, name), t.Output()
			t.Logf("seed %d", seed)
			if err := os.MkdirAll(o.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			s := Summarize(results)
			if s.Faults < o.Faults && s.Broken() == 0 || s.Published == 0 || s.States == 0 {
				t.Error("little was tried")
			}
			if doubts := s.Doubts(); doubts != "" {
				t.Error(doubts)
			}
			for _, r := range results {
				if len(r.Told) > 0 {
					t.Errorf("round %d: %d times something was broken; to draw the same again, in integration/: %s\n%s",
						r.Round, len(r.Told), o.Command(r.Round, r.Wanted), r.Story)
				}
			}
			t.Logf("\n%s", s)
		})
	}
}

// newFile returns a campaign of the settings, whose results are in dir.
func newFile(t *testing.T, dir string, o Options) *campaign {
	t.Helper()
	o.Dir, o.Log = dir, t.Output()
	c, err := newCampaign(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// order plays all rounds that are left, and says which.
func order(c *campaign) string {
	var next []string
	for {
		n, k := c.next()
		if k == 0 {
			return strings.Join(next, " ")
		}
		next = append(next, fmt.Sprint(n, ":", k))
	}
}

var someResults = []Result{
	{Round: 0, Wanted: 4, Faults: []string{"a", "b + c", "d", "e"}, Wall: 60, Gaps: []Gap{{Class: gapExpired, Hidden: 5, Recovered: 3}}},
	{Round: 2, Wanted: 2, Faults: []string{"a"}, Wall: 30, Violations: map[string]int{"P1": 2, ended: 1}, Gaps: []Gap{{Class: gapExpired, Hidden: 1}, {Class: gapLost}}, Retried: true},
}

// A campaign goes on with the rounds that its file does not have. One that was killed while it wrote has a last line that is not whole.
func TestCampaign_goes_on_where_it_was_cut_short(t *testing.T) {
	for name, torn := range map[string]string{"between two results": "", "in the middle of one": `{"round":1,"wan`} {
		t.Run(name, func(t *testing.T) {
			dir, o := t.TempDir(), Options{Faults: 11, PerRound: 4, Seed: 3}
			c := newFile(t, dir, o)
			for _, r := range someResults {
				if err := save(c.file, r); err != nil {
					t.Fatal(err)
				}
			}
			f, err := os.OpenFile(c.file, os.O_APPEND|os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString(torn); err != nil {
				t.Fatal(err)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			c = newFile(t, dir, o)
			if got := order(c); got != "1:4 3:1" {
				t.Errorf("it goes on with %s, want round 1 with 4 faults and round 3 with 1", got)
			}
			if err := c.keep(Result{Round: 1}); err != nil {
				t.Fatal(err)
			}
			if c = newFile(t, dir, o); len(c.results) != 3 || !c.played[1] {
				t.Errorf("after one more there are %d results", len(c.results))
			}
		})
	}
}

// Results of one campaign are not those of another.
func TestCampaign_does_not_mix_results(t *testing.T) {
	dir := t.TempDir()
	bridge := filepath.Join(dir, "bridge")
	if err := os.WriteFile(bridge, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := Options{Faults: 10, PerRound: 4, Seed: 3, Binary: bridge}
	newFile(t, dir, o)
	more := o
	more.Faults, more.Parallel = 20, 2
	newFile(t, dir, more) // goes on
	other := o
	other.PerRound = 5
	slow, elsewhere := o, o
	slow.Longest, elsewhere.Broker = time.Minute, world.Kafka
	for name, o := range map[string]Options{"more faults in a round": other, "longer faults": slow, "another broker": elsewhere, "another bridge": o} {
		if name == "another bridge" {
			if err := os.WriteFile(bridge, []byte("b"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		o.Dir = dir
		if _, err := newCampaign(o); err == nil || !strings.Contains(err.Error(), "use another directory") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// One round is played alone, whatever results there are, and they stay as they are.
func TestCampaign_repeats_one_round(t *testing.T) {
	dir, o := t.TempDir(), Options{Faults: 10, PerRound: 4, Seed: 3}
	c := newFile(t, dir, o)
	if err := save(c.file, someResults[1]); err != nil {
		t.Fatal(err)
	}
	if got := o.Command(2, 3); got != "go run ./cmd/faults -seed 3 -round 2 -per-round 3 -dir '"+o.Dir+"'" {
		t.Errorf("the command is %s", got)
	}
	o.Broker = world.Kafka
	if got := o.Command(2, 3); !strings.HasSuffix(got, " -broker kafka") {
		t.Errorf("on Kafka the command is %s", got)
	}
	o.Round, o.PerRound = new(2), 3
	again := newFile(t, dir, o)
	if got := order(again); got != "2:3" || len(again.results) != 0 || filepath.Dir(again.file) == dir {
		t.Errorf("it plays %s with results in %s", got, again.file)
	}
}

// What is around the bridge may fail once, and the result says so.
func TestCampaign_plays_a_round_again_once(t *testing.T) {
	c := newFile(t, t.TempDir(), Options{Faults: 1, PerRound: 1})
	for fails, want := range map[int]string{0: "1 false <nil>", 1: "2 true <nil>", 2: "2 true no port"} {
		tries := 0
		r, err := c.attempt(t.Context(), func() (Result, error) {
			if tries++; tries <= fails {
				return Result{}, errors.New("no port")
			}
			return Result{}, nil
		})
		if got := fmt.Sprint(tries, " ", r.Retried, " ", err); got != want {
			t.Errorf("of %d that fail: %s, want %s", fails, got, want)
		}
	}
}
