// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/drive"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

const (
	killed    = "killed at random"
	restarted = "API server killed and restarted"
)

func TestSummary_says_what_was_broken_hidden_and_not_seen(t *testing.T) {
	s := Summarize(someResults)
	assert.True(t, s.Faults == 5 && s.ByFault["b"] == 1 && s.ByFault["a"] == 2 && s.Broken() == 3 && s.Wall == 90,
		"%+v", s)
	for _, want := range []string{
		"| P1 | 2 |", "| bridge ended | 1 |", "| unsettled | 0 |", "| expired | 2 | 6 | 2 | 3 |",
		"| log-lost | 1 | 0 | 0 | 0 |", "1 rounds were played a second time",
		"1 times a fault found no occasion",
	} {
		assert.Contains(t, s.String(), want, "it does not say %q:\n%s", want, s)
	}
}

func TestSummary_says_when_it_is_no_proof(t *testing.T) {
	for _, c := range []struct {
		Summary
		doubts bool
	}{
		{Summary{Figures: Figures{States: 1000}}, false},
		{Summary{Figures: Figures{States: 1000, Unknown: 10, Blind: 10}}, false},
		{Summary{Figures: Figures{States: 1000, Unknown: 11}}, true},
		{Summary{Figures: Figures{States: 1000, Blind: 11}}, true},
		{Summary{}, true},
	} {
		assert.Equal(t, c.doubts, strings.Contains(c.String(), "NOT A PROOF"), "%+v is doubted", c.Summary)
	}
}

// An excuse is said aloud, also that of a log that was taken away.
func TestSummary_says_what_was_excused(t *testing.T) {
	var r round
	r.take(oracle.Report{States: 100, Alike: 2})
	assert.NotContains(t, Summarize([]Result{{}}).String(), "EXCUSED", "nothing was excused")
	r.add("old log: ", oracle.Report{Alike: 1})
	assert.Contains(t, Summarize([]Result{r.result}).String(), "EXCUSED: 3 states",
		"it does not say what was excused")
	r.take(oracle.Report{States: 100, Unaudited: 2})
	assert.Contains(t, Summarize([]Result{r.result}).String(), "NOT JUDGED: of 2 objects",
		"it does not say what is left open")
}

// With so many faults each of the catalogue occurs, or is named.
func TestSummary_names_faults_that_never_occurred(t *testing.T) {
	var all []string
	for _, f := range world.Catalogue("", true, true) {
		all = append(all, f.Name)
	}
	s := Summary{Faults: many, Alone: 1, Together: 1, ByFault: map[string]int{}}
	for _, name := range all[1:] {
		s.ByFault[name]++
	}
	if got := s.Missing(); !slices.Equal(got, all[:1]) || !strings.Contains(s.String(), "Never injected: "+all[0]) {
		t.Errorf("missing are %q, want %q", got, all[:1])
	}
	if s.Faults--; len(s.Missing()) > 0 {
		t.Error("so few faults cannot be all")
	}
}

// What two judgements found is counted once, and so are gaps that both logs have.
func TestResult_of_a_log_that_was_taken_away_is_added(t *testing.T) {
	both := oracle.Violation{Promise: oracle.P4, Stream: "s", What: "both"}
	old := oracle.Violation{Promise: oracle.P3, Stream: "s", What: "old"}
	gap := oracle.GapFigure{From: 1, To: 5, Cause: oracle.Expired, Hidden: 4}
	var r round
	r.take(oracle.Report{
		States: 100, Violations: []oracle.Violation{both}, Counts: map[oracle.Promise]int{oracle.P4: 1},
		Gaps: []oracle.GapFigure{gap},
	})
	r.add("old log: ", oracle.Report{
		States: 50, Unknown: 1, Violations: []oracle.Violation{old, both},
		Gaps: []oracle.GapFigure{gap, {From: 7, To: 9, Cause: oracle.LogLost}},
	})
	got := r.result
	if got.States != 100 || got.Unknown != 1 || len(got.Told) != 2 ||
		!strings.HasPrefix(got.Told[1], "old log: P3: P3 broken") {
		t.Errorf("%+v", got)
	}
	assert.Equal(t, "map[P3:1 P4:1]", fmt.Sprint(got.Violations), "violations")
	assert.True(t, len(got.Gaps) == 2 && got.Gaps[0].Cause == oracle.Expired && got.Gaps[1].Cause == oracle.LogLost,
		"gaps are %+v", got.Gaps)
}

// A gap that no fault of the round may cause is a violation.
func TestGaps_need_a_fault_that_may_cause_them(t *testing.T) {
	faults := map[string]world.Fault{}
	for _, f := range world.Catalogue("", true, true) {
		faults[f.Name] = f
	}
	const old, lost = oracle.Expired, oracle.LogLost
	widgets := oracle.Stream{Resource: drive.Widgets.Resource}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		faults  string
		gap     oracle.GapFigure
		allowed bool
	}{
		"a restart that was later": {restarted, oracle.GapFigure{From: 1, Cause: old, At: now.Add(-time.Minute)}, false},
		"a restart that was later by a wrong clock": {
			restarted + separator + "clock jumps", oracle.GapFigure{From: 1, Cause: old, At: now.Add(-time.Minute)}, true,
		},
		"a kill":                    {killed, oracle.GapFigure{From: 1, Cause: old}, false},
		"a kill and a restart":      {killed + separator + restarted, oracle.GapFigure{From: 1, Cause: old}, true},
		"it begins at 0":            {restarted, oracle.GapFigure{Cause: old}, false},
		"a restoration begins at 0": {"etcd restored with a version bump", oracle.GapFigure{Cause: oracle.Restored}, false},
		"a restoration behind a lost checkpoint begins at 0": {
			"the checkpoint lost" + separator + "etcd restored with a version bump",
			oracle.GapFigure{Cause: oracle.Restored},
			true,
		},
		"another selection begins at 0": {
			"namespaces narrowed and widened", oracle.GapFigure{Cause: oracle.Selection}, false,
		},
		"another selection behind a lost log begins at 0": {
			"log deleted while the bridge runs" + separator + "namespaces narrowed and widened",
			oracle.GapFigure{Cause: oracle.Selection},
			true,
		},
		"another selection before the first list is complete begins at 0": {
			"killed in the middle of the first list" + separator + "namespaces narrowed and widened",
			oracle.GapFigure{Cause: oracle.Selection},
			true,
		},
		"another selection long after the first list begins at 0": {
			"killed in the middle of the first list" + separator + "namespaces narrowed and widened",
			oracle.GapFigure{Cause: oracle.Selection, At: now.Add(2 * time.Minute)},
			false,
		},
		"a restart is no restoration": {restarted, oracle.GapFigure{From: 1, Cause: oracle.Restored}, false},
		"another definition, custom resource": {
			"a CRD's spec changed", oracle.GapFigure{Stream: widgets, From: 1, Cause: old}, true,
		},
		"another definition, other resource": {"a CRD's spec changed", oracle.GapFigure{From: 1, Cause: old}, false},
		"a broker":                           {"broker stopped for seconds", oracle.GapFigure{Cause: lost}, false},
		"a lost log":                         {"log deleted while the bridge runs", oracle.GapFigure{Cause: lost}, true},
		"another cause than it may have": {
			"log deleted while the bridge runs", oracle.GapFigure{From: 1, Cause: oracle.Audit}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &round{}
			for name := range strings.SplitSeq(c.faults, separator) {
				require.NotEmpty(t, faults[name].Name, "there is no fault %q", name)
				r.tried = append(r.tried, faults[name])
				kind := world.Note
				if faults[name].Loses == world.Fresh {
					kind = world.Fresh
				}
				r.acts = append(r.acts, act{Fault: faults[name], kind: kind, began: now, ended: now})
			}
			if c.gap.At.IsZero() {
				c.gap.At = now
			}
			why := r.unjustified(c.gap)
			assert.Equal(t, c.allowed, (why == ""), "allowed: %v: %q", c.allowed, why)
		})
	}
}

// An API server whose own watch of etcd fails refills its watch cache, and refuses what is older.
func TestGap_may_come_of_a_watch_cache_that_was_refilled(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	configMaps := oracle.Stream{Resource: drive.ConfigMaps.Resource}
	for name, c := range map[string]struct {
		at      time.Duration
		gap     oracle.GapFigure
		allowed bool
	}{
		"after the bridge's start": {time.Second, oracle.GapFigure{Stream: configMaps, Cause: oracle.Expired}, true},
		"before the bridge":        {-time.Second, oracle.GapFigure{Stream: configMaps, Cause: oracle.Expired}, false},
		"after the gap":            {time.Hour, oracle.GapFigure{Stream: configMaps, Cause: oracle.Expired}, false},
		"of another resource": {
			time.Second, oracle.GapFigure{Stream: oracle.Stream{Resource: drive.Secrets.Resource}, Cause: oracle.Expired}, false,
		},
		"another cause": {time.Second, oracle.GapFigure{Stream: configMaps, Cause: oracle.Audit}, false},
	} {
		t.Run(name, func(t *testing.T) {
			filled := world.CacheFilled{At: now.Add(c.at), Resource: configMaps.Resource.GroupResource()}
			r := &round{bridged: now, caches: []world.CacheFilled{filled}}
			c.gap.From, c.gap.At = 1, now.Add(time.Minute)
			why := r.unjustified(c.gap)
			assert.Equal(t, c.allowed, why == "", why)
		})
	}
}

// A fault that found no occasion excuses nothing, unless it has done something before.
func TestActs_are_what_faults_did(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var events []world.Event
	for n, e := range []world.Event{
		{Kind: world.Begun, Fault: killed},
		{Kind: world.Missed, Fault: killed},
		{Kind: world.Begun, Fault: restarted},
		{Kind: world.Note, Fault: restarted},
		{Kind: world.Missed, Fault: restarted},
		{Kind: world.Begun, Fault: "log deleted while the bridge runs"},
		{Kind: world.LogDeleted, Fault: "log deleted while the bridge runs"},
	} {
		e.At = at.Add(time.Duration(n) * time.Second)
		events = append(events, e)
	}
	r := round{acts: actsOf("", events)}
	require.Len(t, r.acts, 2, "acts")
	assert.Equal(t, restarted, r.acts[0].Name, "first act")
	assert.Equal(t, at.Add(2*time.Second), r.acts[0].began, "first act")
	assert.Equal(t, at.Add(5*time.Second), r.logLost(), "the log is lost")
	r.acts = r.acts[:1]
	assert.Zero(t, r.logLost(), "the log is lost")
	r.acts, r.tried = actsOf("", events), []world.Fault{{Clock: true}}
	assert.Equal(t, time.Unix(0, 0), r.logLost(), "by a clock that has jumped the log may be lost at any time")
}

// A position cannot be stored while a broker is away, and for some time after it.
func TestBehind_is_what_a_fault_has_taken(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const fault = "log deleted while the bridge runs"
	for name, c := range map[string]struct {
		lasts, gap time.Duration
		parts      world.Part
		want       time.Duration
	}{
		"behind a short fault":      {5 * time.Second, 8 * time.Second, world.Broker, 30 * time.Second},
		"behind a long fault":       {50 * time.Second, 55 * time.Second, world.Broker, time.Minute},
		"during a fault":            {50 * time.Second, 20 * time.Second, world.Broker, time.Minute},
		"before a fault":            {50 * time.Second, -2 * time.Second, world.Broker, 0},
		"long after a fault":        {5 * time.Second, 2 * time.Minute, world.Broker, 0},
		"a fault of another part":   {5 * time.Second, 8 * time.Second, world.SecondServer, 0},
		"by a clock that has moved": {5 * time.Second, time.Hour, world.Broker, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			events := []world.Event{
				{Kind: world.Begun, At: at},
				{Kind: world.LogDeleted, At: at},
				{Kind: world.Over, At: at.Add(c.lasts)},
			}
			for n := range events {
				events[n].Fault = fault
			}
			r := round{acts: actsOf("", events)}
			if c.gap == time.Hour {
				r.tried = []world.Fault{{Clock: true}}
			}
			assert.Equal(t, c.want, r.behind(c.parts)(oracle.GapFigure{At: at.Add(c.gap)}))
		})
	}
}

// What is known does not count, and is said. An entry that does not occur any more is named.
func TestKnown_violations_are_counted_apart(t *testing.T) {
	known := []Known{
		{Name: "a", Kind: "P3", Fault: regexp.MustCompile("killed"), Stream: regexp.MustCompile("^widgets")},
		{Name: "b", Kind: "P4", What: regexp.MustCompile("order")},
	}
	r := &round{options: Options{Known: known}, tried: []world.Fault{{Name: "stopped"}, {Name: "killed at random"}}}
	r.violated("", "P3", "widgets.x", "lost 1")
	r.violated("", "P3", "widgets.x", "lost 1")
	r.violated("", "P3", "configmaps", "lost 2")
	r.violated("", "P4", "widgets.x", "twice")
	s := Summarize([]Result{r.result})
	got := fmt.Sprint(s.Known, s.Violations)
	assert.Equal(t, "map[a:1] map[P3:1 P4:1]", got, "counted are %s:\n%s", got, s)
	assert.Contains(t, s.String(), "| KNOWN: a | 1 |", "counted are %s:\n%s", got, s)
	assert.Equal(t, []string{"b"}, s.Mended(known), "mended")
}

// A campaign without violations is no success where it left something open.
func TestSummary_objects_to_what_was_left_open(t *testing.T) {
	took := func(seconds ...float64) (all []world.Takeover) {
		for _, s := range seconds {
			all = append(all, world.Takeover{Cause: world.Killed, Seconds: s})
		}
		return all
	}
	sum := func(recovered, avoidable int) map[oracle.Cause]GapSum {
		return map[oracle.Cause]GapSum{oracle.Expired: {Recovered: recovered, Avoidable: avoidable}}
	}
	few := Figures{States: 100, Published: 25}
	for name, c := range map[string]struct {
		Summary
		strict bool
		want   int
	}{
		"nothing":                   {Summary{Figures: Figures{States: 100, Published: 25}}, true, 0},
		"doubts":                    {Summary{Figures: Figures{States: 100, Published: 25, Unknown: 2}}, false, 1},
		"little in the logs":        {Summary{Figures: Figures{States: 100, Published: 24}}, false, 1},
		"few excused by versions":   {Summary{Figures: Figures{States: 1000, Published: 250, Alike: 1}}, false, 0},
		"many excused by versions":  {Summary{Figures: Figures{States: 1000, Published: 250, Alike: 2}}, false, 1},
		"little read back":          {Summary{Figures: few, Gaps: sum(8, 2)}, false, 1},
		"little read back on Kafka": {Summary{Broker: world.Kafka, Figures: few, Gaps: sum(8, 2)}, false, 0},
		"nearly all read back":      {Summary{Figures: few, Gaps: sum(90, 10)}, false, 0},
		"a second try":              {Summary{Figures: Figures{States: 100, Published: 25}, Retried: 1}, false, 0},
		"a second try, strictly":    {Summary{Figures: Figures{States: 100, Published: 25}, Retried: 1}, true, 1},
		"a skipped fault, strictly": {
			Summary{Figures: Figures{States: 100, Published: 25}, Skipped: []string{"NOT RUN"}},
			true, 1,
		},
		"takeovers that are late": {
			Summary{Figures: Figures{States: 100, Published: 25}, Takeovers: took(3, 11, 12)},
			false, 1,
		},
		"one takeover of several late": {
			Summary{Figures: Figures{States: 100, Published: 25}, Takeovers: took(3, 3, 12)},
			false, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Len(t, c.Objections(Options{Late: 4, Strict: c.strict}), c.want, "objections")
		})
	}
}

// What the bridge did is in the results, what is around it did is an error.
func TestKinds_of_errors(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("x: %w", world.ErrUnsettled):                   unsettled,
		errors.Join(errors.New("x"), world.ErrEnded):              ended,
		fmt.Errorf("%w: %w", world.ErrUsed, errors.New("a port")): used,
		errUnreadable:            unreadable,
		world.ErrAstray:          unreadable,
		errors.New("start etcd"): "",
		world.ErrMissed:          "",
	} {
		assert.Equal(t, want, kindOf(err), "%v", err)
	}
}

// An action has the first pipeline read the ConfigMaps of all namespaces.
func TestAreas_have_what_the_second_pipeline_reads(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	s := newSubject(random)
	before := len(s.areas)
	second := newSecond(random)
	for second.Selection[0].NamespaceSelector == "" {
		second = newSecond(random)
	}
	s.include(second.Selection)
	s.include(second.Selection)
	assert.Len(t, s.areas, before+labelled, "%s is in them already", whole)
}

// By the revisions that the faults tell of, it is known about when a state came to be.
func TestSpan_bears_what_came_to_be_then(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	second := func(n int) time.Time { return at.Add(time.Duration(n) * time.Second) }
	events := []world.Event{
		{At: second(0), Revision: 10},
		{At: second(5)},
		{At: second(10), Revision: 20},
		{At: second(20), Revision: 30},
		{At: second(30), Revision: 40},
	}
	for name, c := range map[string]struct {
		span    span
		version uint64
		want    bool
	}{
		"of the time":                 {span{second(12), second(18)}, 25, true},
		"just before":                 {span{second(12), second(18)}, 20, true},
		"before":                      {span{second(12), second(18)}, 19, false},
		"just behind":                 {span{second(12), second(18)}, 30, true},
		"behind":                      {span{second(12), second(18)}, 31, false},
		"behind the last one":         {span{second(12), second(50)}, 99, true},
		"of a time that is not known": {span{}, 99, true},
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, c.want, c.span.bears(oracle.State{Version: c.version}, events))
		})
	}
}
