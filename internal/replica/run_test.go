// SPDX-License-Identifier: Apache-2.0

package replica

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/replica/replicatest"
)

// A log may go on after it has said that it was replaced.
func TestRead_takes_nothing_of_a_log_that_has_replaced_the_one_before(t *testing.T) {
	g := newRig(t, nil)
	g.log.Append(is("a", at(1, 10)))
	ended := make(chan error)
	go func() { ended <- g.read(t.Context()) }()
	<-g.begun
	g.log.Replace(is("b", at(1, 11)))
	assert.ErrorIs(t, <-ended, errReplaced)
	assert.Equal(t, "a", g.row("a").Name)
	assert.Empty(t, g.row("b").Name)
}

// asked is a log that keeps what was asked of it.
type asked struct {
	*replicatest.Log
	reading event.Reading
}

func (l *asked) Read(ctx context.Context, r event.Reading) error {
	l.reading = r
	return l.Log.Read(ctx, r)
}

// Without them a resync would never be complete in a log of several lanes, and nothing would be pruned.
func TestRead_asks_for_each_copy_of_a_marker(t *testing.T) {
	g := newRig(t, nil)
	log := &asked{Log: g.log}
	g.source = log
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = g.read(ctx) // it ends with ctx
	assert.True(t, log.reading.Copies)
}

func TestLearn_passes_over_old_events_of_other_pipelines(t *testing.T) {
	g := newRig(t, nil)
	old := is("a", at(1, 10))
	old.More = map[string]string{"pipeline": "other", "sequence": "00000000000000000010"}
	g.tell(old)
	old.More = map[string]string{"sequence": "00000000000000000010"}
	assert.Error(t, learning{g.run}.learn(t.Context(), g.log.Message(g.log.Append(old))))
}
