// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"cmp"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/integration/controlplane"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/broken"
	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/edit"
	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// Bridges that were broken on purpose are found, each for what it does. Who judges the judge, judges with these.
func TestCampaign_finds_broken_bridges(t *testing.T) {
	controlplane.BinariesForTest(t)
	t.Parallel()
	root := must.Get(controlplane.Root())(t)
	for name, c := range broken.Bridges() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.Broker == world.Kafka {
				kafkabroker.InstallForTest(t)
			}
			build := rig.Build{Version: "broken", Commit: "broken", Replace: must.Get(edit.Apply(root, c.Changes...))(t)}
			o := Options{
				Binary: must.Get(build.Program(t.Context(), os.Stderr))(t),
				Broker: c.Broker,
				Plan: []Planned{{
					Replicas:   c.Replicas,
					Checkpoint: cmp.Or(c.Checkpoint, world.CheckpointFile),
					Second:     c.Second,
					Faults:     c.Faults,
				}},
				Seed: seedWhere(c.Latest),
			}
			said := regexp.MustCompile(regexp.QuoteMeta(c.Kind) + "(?s:.*)" + regexp.QuoteMeta(c.What))
			found := func() bool {
				s, results := playAll(t, o)
				told := s.Objections(o)
				for _, r := range results {
					told = append(told, r.Told...)
				}
				return slices.ContainsFunc(told, said.MatchString)
			}
			assert.True(t, found() || c.Twice && found(), "no violation of %s says %q", c.Kind, c.What)
		})
	}
}

// seedWhere returns the seed of a campaign whose first round has, or has not, a stream in which changes are folded.
func seedWhere(latest bool) (seed uint64) {
	for seed = 1; ; seed++ {
		if s := newSubject(newRandom(seedOf(seed, 0))); len(s.latest) > 0 == latest {
			return seed
		}
	}
}
