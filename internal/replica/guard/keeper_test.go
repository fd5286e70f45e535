// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stops is a [State] that has times as an API server does: without a zone.
type stops struct{ Stops }

func (s *stops) Load(context.Context) (Stops, error) { return s.Stops, nil }

func (s *stops) Store(_ context.Context, now Stops) error {
	now.Deletes = now.Deletes.UTC()
	s.Stops = now
	return nil
}

func count(n int) func(time.Time) int { return func(time.Time) int { return n } }

func TestKeeper_stores_what_is_left_until_nothing_is(t *testing.T) {
	state := &stops{}
	deletes := NewDeletes(Limit{Count: 1}, time.Time{}, false)
	k := NewKeeper(state, Stops{}, deletes, NewEpochs(false, 0, 0))
	at := noon.In(time.FixedZone("east", 3600))
	for range 9 {
		deletes.Went(at)
	}
	require.False(t, deletes.Allows(at, 10))
	require.NoError(t, k.Release(t.Context(), count(9)))
	require.Equal(t, Stops{Deletes: noon, Left: 9}, state.Stops)
	for _, c := range []struct{ left, stored int }{{7, 7}, {8, 7}, {0, 0}, {5, 0}} {
		require.NoError(t, k.SaveLeft(t.Context(), count(c.left)))
		assert.Equal(t, Stops{Deletes: noon, Left: c.stored}, state.Stops, "nothing that was released comes back")
	}
}

func TestKeeper_keeps_what_is_left_when_deletes_are_held_again(t *testing.T) {
	state := &stops{Stops{Deletes: noon, Left: 7}}
	deletes := NewDeletes(Limit{}, noon, false)
	k := NewKeeper(state, state.Stops, deletes, NewEpochs(false, 0, 0))
	deletes.Went(noon.Add(time.Minute))
	require.False(t, deletes.Allows(noon.Add(time.Minute), 0))
	for _, isNew := range []bool{true, false} {
		stored, err := k.Save(t.Context())
		require.NoError(t, err)
		assert.Equal(t, isNew, stored)
	}
	assert.Equal(t, Stops{Deletes: noon, Left: 7, HeldDeletes: true}, state.Stops)
}
