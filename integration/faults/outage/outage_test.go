// SPDX-License-Identifier: Apache-2.0

package outage_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/oracle"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/outage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The buffer is so small that it is full after a few seconds: most of the outage the bridge may not read.
func TestOutage_leaves_a_log_that_is_complete_or_says_where_not(t *testing.T) {
	controlplane.BinariesForTest(t)
	const buffer = 1 << 20
	r, err := outage.Run(t.Context(), outage.Config{
		Away: 25 * time.Second, Rate: 100, Seed: 1, Objects: 40,
		Buffer: buffer, Log: t.Output(),
	})
	require.NoError(t, err)
	t.Logf("\n%s", r)
	for _, what := range r.Broken() {
		t.Error(what)
	}
	assert.GreaterOrEqual(t, r.ChangesAway, 500, "only %d changes were made while the broker was away", r.ChangesAway)
	most := r.Peak(false).Buffered
	assert.True(t, most >= buffer/2, "only %d bytes were buffered: the budget was not spent", most)
	if n := r.Report.Published + r.Report.Hidden; n != r.Report.States || n < r.ChangesAway {
		t.Errorf("%d states are published or hidden by what is announced, of %d, with %d changes without a broker", n,
			r.Report.States, r.ChangesAway)
	}
	// etcd forgets nothing in so short a time: what the watches do not show any more can be
	// read back. On two busy cores nothing was hidden.
	if hidden := r.HiddenByGaps(); hidden > r.ChangesAway/10 {
		t.Errorf("gaps hide %d states, with %d changes without a broker, and etcd had %d of them", hidden, r.ChangesAway,
			r.Report.Avoidable)
	}
}

func TestResult_says_what_was_broken_and_how_much_was_taken(t *testing.T) {
	r := outage.Result{
		Config: outage.Config{Away: 10 * time.Second, Rate: 100, Buffer: 1 << 20}, ChangesAway: 900,
		Samples: []outage.Sample{
			{Broker: true, RSS: 50 << 20, Checkpoint: 64 << 10},
			{Since: 5 * time.Second, RSS: 60 << 20, Buffered: 1 << 20, Checkpoint: 128 << 10},
			{Since: 10 * time.Second, RSS: 70 << 20, Buffered: 1 << 19, Checkpoint: 96 << 10},
			{Broker: true, Since: 11 * time.Second, RSS: 40 << 20, Buffered: 1 << 18, Checkpoint: 64 << 10},
		},
		Report: oracle.Report{Hidden: 12, Gaps: []oracle.GapFigure{{
			From: 3, To: 30, Cause: "expired", Hidden: 9,
			Recovered: 4,
		}}},
	}
	if got := r.Peak(false); got.RSS != 70<<20 || got.Buffered != 1<<20 || got.Checkpoint != 128<<10 {
		t.Errorf("most without a broker %+v", got)
	}
	if got := r.Peak(true); got.RSS != 50<<20 || got.Buffered != 1<<18 || got.Checkpoint != 64<<10 {
		t.Errorf("most with a broker %+v", got)
	}
	text := r.String()
	for _, want := range []string{
		"90 made", "| hidden by gaps | 9 |", "| hidden by first snapshots | 3 |", "| promises broken | 0 |",
		"| most without | 70 | 1.0 | 128 |", "| 3 | 30 | expired | 9 | 4 |",
	} {
		assert.Contains(t, text, want, "it does not say")
	}
	r.Samples[2].Checkpoint = 9 << 20
	r.Report.Violations = []oracle.Violation{{Promise: oracle.P1, What: "lost"}}
	if got := r.Broken(); len(got) != 2 || !strings.Contains(r.String(), "the checkpoint took") ||
		!strings.Contains(r.String(), "P1 broken") {
		t.Errorf("broken: %q", got)
	}
}
