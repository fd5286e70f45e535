// SPDX-License-Identifier: Apache-2.0

package testtier

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// recorder is a test that tells how it ended.
type recorder struct {
	testing.TB
	said string
}

func (*recorder) Helper() {}

func (r *recorder) end(how, format string, args ...any) {
	r.said = how + fmt.Sprintf(format, args...)
	runtime.Goexit()
}
func (r *recorder) Skipf(format string, args ...any)  { r.end("skipped: ", format, args...) }
func (r *recorder) Fatalf(format string, args ...any) { r.end("failed: ", format, args...) }
func (r *recorder) Fatal(args ...any)                 { r.end("failed: ", "%s", fmt.Sprint(args...)) }

// said returns how a test ended in do; empty if it went on.
func said(t *testing.T, do func(testing.TB)) string {
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		do(r)
	}()
	<-done
	return r.said
}

func TestNeeds_skips_what_the_tier_does_not_include(t *testing.T) {
	for asked, want := range map[string][3]string{
		"core": {
			"", "skipped: NOT IN THIS TIER: runs with make test-all",
			"skipped: NOT IN THIS TIER: runs with make nightly",
		},
		"all":     {"", "", "skipped: NOT IN THIS TIER: runs with make nightly"},
		"":        {"", "", "skipped: NOT IN THIS TIER: runs with make nightly"},
		"nightly": {"", "", ""},
		"weekly":  {"failed: ", "failed: ", "failed: "},
	} {
		t.Setenv(Variable, asked)
		for needed, words := range want {
			got := said(t, func(tb testing.TB) { Needs(tb, Tier(needed)) })
			assert.True(t, (words != "" || got == "") && strings.HasPrefix(got, words),
				"asked for %q, a test of tier %d: %q, want %q", asked, needed, got, words)
		}
	}
}

func TestMissing_skips_aloud_and_fails_in_CI(t *testing.T) {
	for ci, want := range map[string]string{"": "skipped: NOT RUN: needs a browser", "true": "failed: needs a browser"} {
		t.Setenv("CI", ci)
		assert.Equal(t, want, said(t, func(tb testing.TB) { Missing(tb, "a browser") }), "CI=%q", ci)
	}
}

func TestPossible_fails_a_test_only_where_CI_is_set_and_no_reason_is_given(t *testing.T) {
	const variable = "KUBE_EVENTBRIDGE_NO_ENGINE"
	for _, c := range []struct {
		ci, none string
		obstacle error
		skip     bool
		reason   string
	}{
		{},
		{ci: "true"},
		{obstacle: os.ErrNotExist, skip: true, reason: "file does not exist"},
		{ci: "true", obstacle: os.ErrNotExist, reason: "file does not exist"},
		{ci: "true", none: "no root", obstacle: os.ErrNotExist, skip: true, reason: "no root"},
		{none: "no root", skip: true, reason: "no root"},
	} {
		getenv := func(name string) string { return map[string]string{"CI": c.ci, variable: c.none}[name] }
		skip, reason := verdict(getenv, variable, func() error { return c.obstacle })
		assert.Equal(t, c.skip, skip, "with CI=%q %s=%q and %v", c.ci, variable, c.none, c.obstacle)
		assert.Equal(t, c.reason, reason, "with CI=%q %s=%q and %v", c.ci, variable, c.none, c.obstacle)
	}
}

func TestRounds_depend_on_the_tier(t *testing.T) {
	for tier, want := range map[string]int{"core": 1, "all": 2, "": 2, "nightly": 3} {
		t.Setenv(Variable, tier)
		got := Rounds(1, 2, 3)
		assert.Equal(t, want, got, "%q: %d rounds", tier, got)
	}
}
