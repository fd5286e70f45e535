// SPDX-License-Identifier: Apache-2.0

package outage_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/outage"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The buffer is so small that it is full after a few seconds: most of the outage the bridge may not read.
func TestOutage_leaves_a_log_that_is_complete_or_says_where_not(t *testing.T) {
	controlplane.BinariesForTest(t)
	const buffer = 1 << 20
	r, err := outage.Run(t.Context(), outage.Config{Away: 25 * time.Second, Rate: 100, Seed: 1, Objects: 40, Buffer: buffer, Log: t.Output()})
	require.NoError(t, err)
	t.Logf("\n%s", r)
	for _, what := range r.Broken() {
		t.Error(what)
	}
	assert.GreaterOrEqual(t, r.ChangesAway, 500, "only %d changes were made while the broker was away", r.ChangesAway)
	if most := r.Peak(false).Buffered; most < buffer/2 {
		t.Errorf("only %d bytes were buffered: the budget was not spent", most)
	}
	if n := r.Report.Published + r.Report.Hidden; n != r.Report.States || n < r.ChangesAway {
		t.Errorf("%d states are published or hidden by what is announced, of %d, with %d changes without a broker", n, r.Report.States, r.ChangesAway)
	}
	// etcd forgets nothing in so short a time: what the watches do not show any more can be
	// read back. On two busy cores nothing was hidden.
	if hidden := r.HiddenByGaps(); hidden > r.ChangesAway/10 {
		t.Errorf("gaps hide %d states, with %d changes without a broker, and etcd had %d of them", hidden, r.ChangesAway, r.Report.Avoidable)
	}
}
