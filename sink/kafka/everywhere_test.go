// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka/batch"
	"github.com/kube-eventbridge/kube-eventbridge/sink"
)

// idle is a topic whose partitions send nothing by themselves.
func idle(partitions int) *topic {
	s := &Sink{cfg: Config{Clock: &Clock{}}, names: names{known: map[string]string{}}, loads: make(depot, keepLoads)}
	t := &topic{name: "t"}
	t.limit.Store(batch.DefaultLimit)
	for n := range partitions {
		t.partitions = append(t.partitions, newPartition(s, t, n))
	}
	return t
}

// waits returns the load that a partition would send next, nil if there is none.
func (p *partition) waits() *load {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.waiting) == 0 {
		return nil
	}
	return p.waiting[0]
}

func TestEverywhere_goes_to_the_partition_of_the_key_when_all_others_have_it(t *testing.T) {
	m := &sink.Message{Key: "test/core/pods/_/_gap", ID: "gap.1", Everywhere: true}
	for _, partitions := range []int{1, 2, 5} {
		topic := idle(partitions)
		home := topic.home(m.Key)
		var settled []sink.Receipt
		topic.everywhere(m, func(r sink.Receipt, err error) {
			assert.NoError(t, err)
			settled = append(settled, r)
		})
		for _, p := range topic.partitions {
			if p == home {
				continue
			}
			assert.Nil(t, home.waits(), "%d partitions: that of the key has it before %s", partitions, p)
			require.NoError(t, p.acknowledged(p.waits(), 40, false))
		}
		require.NotNil(t, home.waits(), "%d partitions: the last, settled", partitions)
		require.Empty(t, settled, "%d partitions: the last, settled", partitions)
		require.NoError(t, home.acknowledged(home.waits(), 7, false))
		if want := (sink.Receipt{Partition: home.id, Sequence: 8}); len(settled) != 1 || settled[0] != want {
			t.Errorf("%d partitions: settled %v, want once %v", partitions, settled, want)
		}
	}
}

func TestEverywhere_keeps_from_the_partition_of_the_key_what_another_did_not_get(t *testing.T) {
	m := &sink.Message{Key: "test/core/pods/_/_gap", ID: "gap.1", Everywhere: true}
	topic := idle(3)
	home := topic.home(m.Key)
	failure := errors.New("stopped")
	var settled []error
	topic.everywhere(m, func(_ sink.Receipt, err error) { settled = append(settled, err) })
	first := true
	for _, p := range topic.partitions {
		switch {
		case p == home:
		case first:
			first = false
			p.close(failure)
		default:
			require.NoError(t, p.acknowledged(p.waits(), 0, false))
		}
	}
	assert.True(t, home.waits() == nil && len(settled) == 1 && errors.Is(settled[0], failure),
		"settled %v; that of the key has it: %v", settled, home.waits() != nil)
}
