// SPDX-License-Identifier: Apache-2.0

package campaign

import (
	"testing"

	"github.com/kube-eventbridge/kube-eventbridge/integration/faults/world"
	"github.com/stretchr/testify/assert"
)

func TestPlan_has_each_fault_once_in_a_world_that_fits(t *testing.T) {
	for _, broker := range []string{world.NATS, world.Kafka} {
		t.Run(broker, func(t *testing.T) {
			faults, planned := map[string]world.Fault{}, map[string]int{}
			for _, f := range world.Catalogue(broker, true, true) {
				faults[f.Name] = f
			}
			for _, p := range EachOnce(broker) {
				gaps := gapsOf(faults[p.Faults[0]])
				for _, name := range p.Faults {
					f := faults[name]
					planned[name]++
					wrong := f.Checkpoint != "" && f.Checkpoint != p.Checkpoint
					if wrong || f.Together && p.Replicas == 0 || f.Alone && p.Replicas > 0 {
						t.Errorf("%q cannot be injected in %+v", name, p)
					}
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
