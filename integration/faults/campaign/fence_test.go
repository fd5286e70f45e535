// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
)

// What a former leader had sent, and what arrives when another one has published it, is what only the broker can keep out of the log. A bridge that does not ask it to is noticed.
func TestCampaign_notices_a_bridge_without_a_fence(t *testing.T) {
	needControlPlane(t)
	for name, c := range map[string]struct {
		broker string
		change world.Change
	}{
		"NATS without the expected last sequence": {world.NATS, world.Change{
			File: "internal/bridge/worker.go", Old: "|| a.based || s.session.cfg.Term != nil, row.Sequence", New: "|| a.based, row.Sequence",
		}},
		"Kafka without the epoch": {world.Kafka, world.Change{
			File: "sink/kafka/fence.go", Old: "s.client.InitProducer(ctx, s.cfg.transactionalID(), nil)", New: `s.client.InitProducer(ctx, "", nil)`,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.broker == world.Kafka {
				needKafka(t)
			}
			dir := t.TempDir()
			binary, err := world.BuildChanged(t.Context(), dir, c.change)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{
				Binary: binary, Broker: c.broker, Replicas: 2, Faults: 1, PerRound: 1, Seed: 1, Only: regexp.MustCompile("^leader asleep with its hands full"),
				Dir: filepath.Join(dir, "results"), Log: t.Output(),
			}
			if err := os.MkdirAll(o.Dir, 0o755); err != nil {
				t.Fatal(err)
			}
			results, err := Run(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if s := Summarize(results); s.Violations["P5"] == 0 {
				t.Errorf("nothing was noticed:\n%s", s)
			}
		})
	}
}
