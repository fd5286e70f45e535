// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/checkpoint"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// awayStore cannot be read as often as fails says, and twice again after the first time that it could.
type awayStore struct {
	memoryStore
	fails atomic.Int32
	loads atomic.Int32 // that succeeded
}

var errStoreAway = errors.New("no broker answers")

func (s *awayStore) Load(ctx context.Context) (*checkpoint.State, error) {
	if s.fails.Add(-1) >= 0 {
		return nil, errStoreAway
	}
	if s.loads.Add(1) == 1 {
		s.fails.Store(2)
	}
	return s.memoryStore.Load(ctx)
}

// At the start, and in a session that follows another one.
func TestRun_waits_for_a_checkpoint_that_cannot_be_read(t *testing.T) {
	api, store := newAPIServer(t, 10), &awayStore{}
	log := interruptedSink{newReadableLog(), &atomic.Int32{}}
	const ever = 1 << 20
	store.fails.Store(ever)
	api.add(3)
	b := runBridge(t, api, log, store, nil)
	must.Happen(t, "a reason", func() bool {
		code, body := b.get("/readyz")
		return code == http.StatusServiceUnavailable && body == "pipeline test: checkpoint: no broker answers\n"
	})
	assert.Equal(t, 0, len(log.lines()), "events are published by who does not know the checkpoint")
	store.fails.Store(0)
	must.Happen(t, "the second session", func() bool { return log.times.Load() > 1 })
	n := store.fails.Load()
	assert.True(t, n < 0, "the second session began without the checkpoint, which was to fail %d times more", n)
	api.add(1)
	must.Happen(t, "what comes after", func() bool {
		return slices.ContainsFunc(log.lines(), func(line string) bool { return strings.Contains(line, " 5 ") })
	})
	require.NoError(t, b.stop())
	checkOnce(t, log.readableLog)
}

func TestRun_ends_in_order_while_it_waits_for_the_checkpoint(t *testing.T) {
	store := &awayStore{}
	store.fails.Store(1 << 20)
	b := runBridge(t, newAPIServer(t, 10), newFakeLog(), store, nil)
	must.Happen(t, "an attempt", func() bool { return store.fails.Load() < 1<<20 })
	require.NoError(t, b.stop())
}
