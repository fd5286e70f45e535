// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

func TestSummary_says_what_was_broken_hidden_and_not_seen(t *testing.T) {
	s := Summarize(someResults)
	if s.Faults != 5 || s.ByFault["b"] != 1 || s.ByFault["a"] != 2 || s.Broken() != 3 || s.Wall != 90 {
		t.Errorf("%+v", s)
	}
	for _, want := range []string{"| P1 | 2 |", "| bridge ended | 1 |", "| unsettled | 0 |", "| expired (410) | 2 | 6 | 3 |", "| log lost | 1 | 0 | 0 |", "1 rounds were played a second time"} {
		if !strings.Contains(s.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, s)
		}
	}
}

func TestSummary_says_when_it_is_no_proof(t *testing.T) {
	for _, c := range []struct {
		Summary
		doubts bool
	}{
		{Summary{States: 1000}, false},
		{Summary{States: 1000, Unknown: 10, Blind: 10}, false},
		{Summary{States: 1000, Unknown: 11}, true},
		{Summary{States: 1000, Blind: 11}, true},
		{Summary{}, true},
	} {
		if got := strings.Contains(c.String(), "NOT A PROOF"); got != c.doubts {
			t.Errorf("%+v is doubted: %v", c.Summary, got)
		}
	}
}

// An excuse is said aloud, also that of a log that was taken away.
func TestSummary_says_what_was_excused(t *testing.T) {
	var r Result
	r.take(oracle.Report{States: 100, Alike: 2})
	if text := Summarize([]Result{{}}).String(); strings.Contains(text, "EXCUSED") {
		t.Errorf("nothing was excused:\n%s", text)
	}
	r.add("old log: ", oracle.Report{Alike: 1})
	if text := Summarize([]Result{r}).String(); !strings.Contains(text, "EXCUSED: 3 states") {
		t.Errorf("it does not say what was excused:\n%s", text)
	}
}

// With so many faults each of the catalogue occurs, or is named.
func TestSummary_names_faults_that_never_occurred(t *testing.T) {
	all := world.FaultNames("", true, true)
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
	gap := oracle.GapFigure{From: 1, To: 5, Cause: "too old resource version: 1 (5)", Hidden: 4}
	var r Result
	r.take(oracle.Report{States: 100, Violations: []oracle.Violation{both}, Counts: map[oracle.Promise]int{oracle.P4: 1}, Gaps: []oracle.GapFigure{gap}})
	r.add("old log: ", oracle.Report{
		States: 50, Unknown: 1, Violations: []oracle.Violation{old, both}, Gaps: []oracle.GapFigure{gap, {From: 7, To: 9, Cause: "the log has lost events"}},
	})
	if r.States != 100 || r.Unknown != 1 || len(r.Told) != 2 || !strings.HasPrefix(r.Told[1], "old log: P3 broken") {
		t.Errorf("%+v", r)
	}
	if got := fmt.Sprint(r.Violations); got != "map[P3:1 P4:1]" {
		t.Errorf("violations are %s", got)
	}
	if len(r.Gaps) != 2 || r.Gaps[0].Class != gapExpired || r.Gaps[1].Class != gapLost {
		t.Errorf("gaps are %+v", r.Gaps)
	}
}

func TestGaps_are_told_apart_by_their_causes(t *testing.T) {
	for cause, want := range map[string]string{
		"too old resource version: 209 (281); 3 changes were read back, what was created and deleted in between is not known":                                  gapExpired,
		"too old resource version: 2 (9); 0 changes were read back, those of 5 objects not completely (The resourceVersion for the provided list is too old.)": gapCompacted,
		"too old resource version: 2 (9); 0 changes were read back, those of 1 object not completely (the history after the last version is gone)":             gapCompacted,
		"the log has lost events that it had acknowledged":                                                                gapLost,
		"stream configmaps.v1: object a was at resourceVersion 20 and the API server has it at 12: its etcd was restored": gapRestored,
		"an audit found that something is missing":                                                                        gapOther,
	} {
		if got := classOf(cause); got != want {
			t.Errorf("%q is %q, want %q", cause, got, want)
		}
	}
}

// What the bridge did is in the results, what is around it did is an error.
func TestKinds_of_errors(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("x: %w", world.ErrUnsettled):                   unsettled,
		errors.Join(errors.New("x"), world.ErrEnded):              ended,
		fmt.Errorf("%w: %w", world.ErrUsed, errors.New("a port")): used,
		errUnreadable:            unreadable,
		errors.New("start etcd"): "",
		world.ErrMissed:          "",
	} {
		if got := kindOf(err); got != want {
			t.Errorf("%v is %q, want %q", err, got, want)
		}
	}
}
