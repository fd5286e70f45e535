// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sync/semaphore"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/clock"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
	"github.com/kube-eventbridge/kube-eventbridge/internal/testtier"
)

// tests is how many run at a time: each waits more than it computes, in the end for one of the turns.
const tests = "5"

// turns are for the worlds of all tests, of which more would take longer on two cores.
var turns = semaphore.NewWeighted(6)

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = flag.Set("test.parallel", tests) // it is a number
	}
	goleak.VerifyTestMain(m)
}

// Each fault once and by itself, then some at random: from a seed that is always the same where CI is set, so that no
// change is refused for a combination of faults that came up for the first time, and from a fresh one elsewhere.
func TestBridge_keeps_its_promises_under_faults(t *testing.T) {
	controlplane.BinariesForTest(t)
	t.Parallel()
	ci := os.Getenv("CI") != ""
	seed := rand.Uint64() >> 1
	if ci {
		seed = 1
	}
	var results [2][]Result
	var both sync.WaitGroup // these two take longest: as subtests in parallel they would wait for a turn each
	both.Go(func() {
		t.Run("on NATS", func(t *testing.T) {
			results[0] = breakThings(t, Options{Seed: seed, Faults: 12, PerRound: 6, Parallel: 4})
		})
	})
	both.Go(func() {
		t.Run("on Kafka", func(t *testing.T) {
			kafkabroker.InstallForTest(t)
			results[1] = breakThings(t, Options{Seed: seed, Faults: 6, PerRound: 6, Parallel: 2, Broker: world.Kafka})
		})
	})
	both.Wait()
	if mended := Summarize(slices.Concat(results[:]...)).Mended(KnownViolations()); ci && len(mended) > 0 {
		t.Errorf("remove what does not occur any more from the known violations: %q", mended)
	}
}

// breakThings plays a campaign: each fault once, and then as the options say.
func breakThings(t *testing.T, o Options) []Result {
	t.Helper()
	moved := must.Get(clock.Program(t.Context(), false, os.Stderr))(t)
	o.Binary, o.ClockBinary = rig.ProgramForTest(t), moved
	o.Longest, o.Replicas = 45*time.Second, AnyReplicas
	o.Plan, o.Known, o.Strict = EachOnce(o.Broker), KnownViolations(), os.Getenv("CI") != ""
	if os.Getenv(testtier.Variable) == "nightly" {
		o.Late = 4
	}
	t.Logf("seed %d", o.Seed)
	s, results := playAll(t, o)
	for _, objection := range s.Objections(o) {
		t.Error(objection)
	}
	left := s.Skipped // an objection where CI is set
	for _, name := range slices.Sorted(maps.Keys(s.Known)) {
		left = append(left, fmt.Sprintf("KNOWN: %s, %d times", name, s.Known[name]))
	}
	for _, line := range left {
		t.Run("left", func(t *testing.T) { t.Skip(line) })
	}
	for _, r := range results {
		if len(r.Told) > 0 {
			t.Errorf("round %d: %d times something was broken; to draw the same again, in integration/: %s\n%s",
				r.Round, len(r.Told), o.Command(r.Round, r.Wanted), r.Story)
		}
	}
	return results
}

// playAll plays a campaign in a directory of the test.
func playAll(t *testing.T, o Options) (Summary, []Result) {
	t.Helper()
	o.Dir, o.Log, o.Turns = t.TempDir(), t.Output(), turns
	results, err := Run(t.Context(), o)
	s := Summarize(results)
	t.Logf("\n%s", s)
	require.NoError(t, err)
	return s, results
}

func TestPlan_leaves_out_only_faults_that_are_not_named(t *testing.T) {
	o := Options{Longest: time.Second, Only: regexp.MustCompile("^killed at random$")}
	assert.Equal(t, []Planned{{Faults: []string{killed}}}, o.matching([]Planned{{Faults: []string{killed, restarted}}}))
}

// newFile returns a campaign of the settings, whose results are in dir.
func newFile(t *testing.T, dir string, o Options) *campaign {
	t.Helper()
	o.Dir, o.Log = dir, t.Output()
	return must.Get(newCampaign(o))(t)
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
	{
		Round: 0, Wanted: 4, Faults: []string{"a", "b + c", "d", "e"}, Wall: 60,
		Gaps: []Gap{{Cause: oracle.Expired, Hidden: 5, Avoidable: 2, Recovered: 3}},
	},
	{
		Round: 2, Wanted: 2, Faults: []string{"a"}, Missed: []string{"b"}, Wall: 30,
		Violations: map[string]int{"P1": 2, ended: 1},
		Gaps:       []Gap{{Cause: oracle.Expired, Hidden: 1}, {Cause: oracle.LogLost}}, Retried: true,
	},
}

// A campaign goes on with the rounds that its file does not have. One that was killed while it wrote has a last line
// that is not whole.
func TestCampaign_goes_on_where_it_was_cut_short(t *testing.T) {
	for name, torn := range map[string]string{"between two results": "", "in the middle of one": `{"round":1,"wan`} {
		t.Run(name, func(t *testing.T) {
			dir, o := t.TempDir(), Options{Faults: 11, PerRound: 4, Seed: 3}
			c := newFile(t, dir, o)
			for _, r := range someResults {
				require.NoError(t, save(c.file, r))
			}
			f := must.Get(os.OpenFile(c.file, os.O_APPEND|os.O_WRONLY, 0))(t)
			require.NoError(t, must.Err(f.WriteString(torn)))
			require.NoError(t, f.Close())
			c = newFile(t, dir, o)
			assert.Equal(t, "1:4 3:1", order(c), "it goes on with round 1 of 4 faults and round 3 of 1")
			require.NoError(t, c.keep(Result{Round: 1}))
			c = newFile(t, dir, o)
			assert.True(t, len(c.results) == 3 && c.played[1], "after one more there are %d results", len(c.results))
		})
	}
}

// Results of one campaign are not those of another.
func TestCampaign_does_not_mix_results(t *testing.T) {
	dir := t.TempDir()
	bridge := filepath.Join(dir, "bridge")
	require.NoError(t, os.WriteFile(bridge, []byte("a"), 0o600))
	o := Options{Faults: 10, PerRound: 4, Seed: 3, Binary: bridge}
	newFile(t, dir, o)
	more := o
	more.Faults, more.Parallel = 20, 2
	newFile(t, dir, more) // goes on
	other := o
	other.PerRound = 5
	slow, elsewhere := o, o
	slow.Longest, elsewhere.Broker = time.Minute, world.Kafka
	for name, o := range map[string]Options{
		"more faults in a round": other, "longer faults": slow,
		"another broker": elsewhere, "another bridge": o,
	} {
		if name == "another bridge" {
			require.NoError(t, os.WriteFile(bridge, []byte("b"), 0o600))
		}
		o.Dir = dir
		_, err := newCampaign(o)
		assert.True(t, err != nil && strings.Contains(err.Error(), "use another directory"), "%s: %v", name, err)
	}
}

// One round is played alone, whatever results there are, and they stay as they are.
func TestCampaign_repeats_one_round(t *testing.T) {
	dir, o := t.TempDir(), Options{Faults: 10, PerRound: 4, Seed: 3}
	c := newFile(t, dir, o)
	require.NoError(t, save(c.file, someResults[1]))
	assert.Equal(t, "go run ./cmd/faults -seed 3 -round 2 -per-round 3 -dir '"+o.Dir+"'", o.Command(2, 3),
		"the command")
	o.Broker = world.Kafka
	got := o.Command(2, 3)
	assert.True(t, strings.HasSuffix(got, " -broker kafka"), "on Kafka the command is %s", got)
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
				return Result{Violations: map[string]int{"P1": 1}, Told: []string{"P1"}}, errors.New("no port")
			}
			return Result{}, nil
		})
		assert.Len(t, r.Told, min(fails, 2), "what the bridge did before the world failed counts: %+v", r)
		assert.Equal(t, len(r.Told), r.count(), "what the bridge did before the world failed counts: %+v", r)
		assert.Equal(t, want, fmt.Sprint(tries, " ", r.Retried, " ", err), "of %d that fail", fails)
	}
}

func TestPlan_has_each_fault_once_in_a_world_that_fits(t *testing.T) {
	for _, broker := range []string{world.NATS, world.Kafka} {
		t.Run(broker, func(t *testing.T) {
			faults, planned := catalogue(broker), map[string]int{}
			for _, p := range EachOnce(broker) {
				gaps := gapsOf(faults[p.Faults[0]])
				for _, name := range p.Faults {
					f := faults[name]
					planned[name]++
					wrong := f.Checkpoint != "" && f.Checkpoint != p.Checkpoint
					assert.True(t, !wrong && (!f.Together || p.Replicas != 0) && (!f.Alone || p.Replicas <= 0),
						"%q cannot be injected in %+v", name, p)
					assert.Equal(t, gaps, gapsOf(f), "%q may cause gaps that the others of %+v may not", name, p)
				}
			}
			for name, f := range faults {
				want := 1
				if broker == world.Kafka && f.Parts&world.Broker == 0 {
					want = 0 // it is in the plan for NATS
				}
				assert.Equal(t, want, planned[name], "%q is planned %d times", name, planned[name])
			}
		})
	}
}

func TestPlan_has_each_action_with_a_broker_that_is_away(t *testing.T) {
	for _, broker := range []string{world.NATS, world.Kafka} {
		actions := 0
		for _, f := range catalogue(broker) {
			if f.Action {
				actions++
			}
		}
		plan := Together(broker)
		assert.GreaterOrEqual(t, len(plan), 2*actions-2, "two actions change the cluster, which cannot be restored meanwhile")
		for _, p := range plan {
			assert.Len(t, p.Faults, 1)
			assert.Contains(t, p.Faults[0], together)
		}
	}
}

func TestTerms_are_of_one_process_each(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	says := func(second, number int) string {
		return fmt.Sprintf(`{"time":%q,"msg":"publishing","stream":"S"}`+"\n"+
			`{"time":%[1]q,"msg":"publishing","pipeline":"faults","writerterm":%d}`+"\n",
			began.Add(time.Duration(second)*time.Second).Format(time.RFC3339Nano), number)
	}
	lost := []world.Event{
		{Kind: world.Fresh, At: began.Add(15 * time.Second)},
		{Kind: world.LogDeleted, At: began.Add(25 * time.Second)},
	}
	for name, c := range map[string]struct {
		first, second string
		events        []world.Event
		wrong         int
	}{
		"each has its own":                     {says(1, 1) + says(20, 3), says(10, 2), nil, 0},
		"one publishes twice in its term":      {says(1, 1) + says(2, 1), says(10, 2), nil, 0},
		"two have the same":                    {says(1, 1), says(10, 1), nil, 1},
		"one has none":                         {says(1, 0), says(10, 1), nil, 1},
		"numbers are forgotten with the rest":  {says(1, 1), says(20, 1), lost, 0},
		"a log that is lost forgets no number": {says(20, 1), says(30, 1), lost, 1},
		"two pipelines have the same":          {says(1, 2), strings.Replace(says(10, 2), "faults", "second", 1), nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			texts := map[string][]byte{
				"bridge-001.log": []byte(c.first), "bridge-002.log": []byte(c.second),
				"checkpoint": []byte(says(5, 1)),
			}
			assert.Len(t, sharedTerms(claims(texts), c.events), c.wrong, "wrong")
		})
	}
}
