// SPDX-License-Identifier: Apache-2.0

package outage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/outage"
	"github.com/stretchr/testify/assert"
)

func TestResult_says_what_was_broken_and_how_much_was_taken(t *testing.T) {
	r := outage.Result{
		Config: outage.Config{Away: 10 * time.Second, Rate: 100, Buffer: 1 << 20}, ChangesAway: 900,
		Samples: []outage.Sample{
			{Broker: true, RSS: 50 << 20, Checkpoint: 64 << 10},
			{Since: 5 * time.Second, RSS: 60 << 20, Buffered: 1 << 20, Checkpoint: 128 << 10},
			{Since: 10 * time.Second, RSS: 70 << 20, Buffered: 1 << 19, Checkpoint: 96 << 10},
			{Broker: true, Since: 11 * time.Second, RSS: 40 << 20, Buffered: 1 << 18, Checkpoint: 64 << 10},
		},
		Report: oracle.Report{Hidden: 12, Gaps: []oracle.GapFigure{{From: 3, To: 30, Cause: "expired", Hidden: 9, Recovered: 4}}},
	}
	if got := r.Peak(false); got.RSS != 70<<20 || got.Buffered != 1<<20 || got.Checkpoint != 128<<10 {
		t.Errorf("most without a broker %+v", got)
	}
	if got := r.Peak(true); got.RSS != 50<<20 || got.Buffered != 1<<18 || got.Checkpoint != 64<<10 {
		t.Errorf("most with a broker %+v", got)
	}
	text := r.String()
	for _, want := range []string{
		"90 made", "| hidden by gaps | 9 |", "| hidden by first snapshots | 3 |", "| promises broken | 0 |", "| most without | 70 | 1.0 | 128 |", "| 3 | 30 | expired | 9 | 4 |",
	} {
		assert.Contains(t, text, want, "it does not say")
	}
	r.Samples[2].Checkpoint = 9 << 20
	r.Report.Violations = []oracle.Violation{{Promise: oracle.P1, What: "lost"}}
	if got := r.Broken(); len(got) != 2 || !strings.Contains(r.String(), "the checkpoint took") || !strings.Contains(r.String(), "P1 broken") {
		t.Errorf("broken: %q", got)
	}
}
