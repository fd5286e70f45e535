// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/edit"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestReplica_keeps_its_promises_under_faults(t *testing.T) {
	rig.Tier(t, rig.Nightly)
	controlplane.BinariesForTest(t)
	results := play(t, Options{
		Binary: rig.ProgramForTest(t), Once: true, PerRound: 12, Both: "some",
	})
	require.NotEmpty(t, results, "no round was played")
	for i := range results {
		assert.Empty(t, results[i].Failed)
		assert.Empty(t, results[i].Violations, results[i].String()+"\n"+strings.Join(results[i].Story, "\n"))
	}
}

// Replicators that were broken on purpose are found, each for what it does.
func TestCampaign_finds_broken_replicators(t *testing.T) {
	rig.Tier(t, rig.Nightly)
	controlplane.BinariesForTest(t)
	root := must.Get(controlplane.Root())(t)
	for name, c := range map[string]struct {
		promise, only string
		limit, faults int
		change        edit.Change
		both          string
	}{
		"what people change is not looked at": {"R1", "change all", 0, 2, edit.Change{
			File: "internal/replica/targets.go", Old: "	if changed {\n		f.run.enqueue(id)\n	}", New: "	_ = changed",
		}, ""},
		"what is others' is taken": {"R3", "replicator stopped", 0, 4, edit.Change{
			File: "internal/replica/answers.go",
			Old:  `		return o.parkAWhile(waiting.Exists, "an object of somebody else has the name")`,
			New:  "		o.row.Actual = actual\n		return o.adopt(ctx, wanted)",
		}, ""},
		"deletes have no limit": {"R4", "everything deleted", 4, 2, edit.Change{
			File: "internal/replica/reconcile.go", Old: "if !o.allowed(&o.row) {", New: "if !o.allowed(&o.row) && false {",
		}, ""},
		"a restored source is followed": {"R4", "source's etcd restored with", 0, 1, edit.Change{
			File: "internal/replica/guard/epochs.go", Old: "if e.follow ||", New: "if true || e.follow ||",
		}, ""},
		"redacted events are written": {"R6", "replicator stopped", 0, 4, edit.Change{
			File: "internal/replica/plan/plan.go", Old: "	case d.Claim == keys.Redacted:\n		return Action{Park, HasRedactions}\n",
		}, ""},
		"copies are replicated back": {"R7", "people delete all|everything deleted|replicator killed", 0, 4, edit.Change{
			File: "internal/replica/clean/excluded.go", Old: "		(*Rules).Replicated,\n",
			New: "		func(*Rules, schema.GroupResource, map[string]any) bool { return false },\n",
		}, "all"},
	} {
		t.Run(name, func(t *testing.T) {
			build := rig.Build{Version: "broken", Commit: "broken", Replace: must.Get(edit.Apply(root, c.change))(t)}
			results := play(t, Options{
				Binary: must.Get(build.Program(t.Context(), os.Stderr))(t), Faults: c.faults, PerRound: c.faults, Limit: c.limit,
				Both:      c.both,
				Interfere: 200 * time.Millisecond,
				Only:      regexp.MustCompile(c.only),
			})
			require.Len(t, results, 1)
			assert.Positive(t, results[0].Violations[c.promise], results[0].String())
		})
	}
}

func play(t *testing.T, o Options) []Result {
	t.Helper()
	o.Seed, o.Dir, o.Log, o.Broker = 1, t.TempDir(), t.Output(), "nats"
	return must.Get(Run(t.Context(), o))(t)
}
