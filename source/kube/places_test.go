// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-eventbridge/kube-eventbridge/internal/pause"
)

var podsOf, metricsOf = schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "metrics", Resource: "pods"}

// taken takes n places of a resource.
func taken(t *testing.T, p *places, of schema.GroupResource, n int) (all []*Place) {
	t.Helper()
	for range n {
		one, err := p.take(t.Context(), of)
		require.NoError(t, err)
		all = append(all, one)
	}
	return all
}

// refuses asserts that there is no place within a time.
func refuses(t *testing.T, p *places, of schema.GroupResource, within time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	_, err := p.take(ctx, of)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
}

func TestPlaces_are_as_many_as_are_left(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		held := taken(t, p, podsOf, maxReads)
		refuses(t, p, podsOf, slowRead/2)
		refuses(t, p, metricsOf, slowRead/4)
		held[0].Leave()
		held[0].Leave()
		held[0] = taken(t, p, metricsOf, 1)[0]
		refuses(t, p, podsOf, slowRead/8)
		for _, one := range held {
			one.Leave()
		}
		assert.Empty(t, p.of)
		for _, one := range taken(t, p, podsOf, maxReads) {
			one.Leave()
		}
	})
}

// An API server of its own hangs.
func TestPlaces_of_what_is_slow_are_free_for_other_resources(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		hung := taken(t, p, metricsOf, maxReads)
		began := time.Now()
		others := taken(t, p, podsOf, maxReads)
		assert.Equal(t, slowRead, time.Since(began))
		refuses(t, p, metricsOf, time.Hour)
		for _, one := range append(hung, others...) {
			one.Leave()
		}
		hung = taken(t, p, metricsOf, maxReads)
		began = time.Now()
		others = taken(t, p, podsOf, maxReads)
		assert.Zero(t, time.Since(began), "it is known to be slow")
		refuses(t, p, podsOf, slowRead/2)
		for _, one := range append(hung, others...) {
			one.Leave()
		}
		for _, one := range taken(t, p, metricsOf, maxReads) {
			defer one.Leave()
		}
		refuses(t, p, podsOf, slowRead/2) // it is fast again
	})
}

// Reads hang, and the others of the resource wait behind them: none of them waits for long, and they stay few.
func TestPlaces_of_what_hangs_are_left_after_a_second(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		const most = time.Minute
		read := func(takes time.Duration) {
			one, err := p.take(t.Context(), podsOf)
			require.NoError(t, err)
			defer one.Leave()
			ctx, cancel := context.WithTimeout(t.Context(), one.Time(most))
			defer cancel()
			if pause.For(ctx, takes) != nil {
				one.Hang()
			}
		}
		reads := func(n int, takes time.Duration) time.Duration {
			began := time.Now()
			var group sync.WaitGroup
			for range n {
				group.Go(func() { read(takes) })
			}
			group.Wait()
			return time.Since(began)
		}
		assert.Equal(t, most+2*slowRead, reads(3*maxReads, time.Hour))
		assert.Equal(t, most, reads(1, time.Hour), "nothing was under way, so it has the whole time")
		assert.Equal(t, 3*2*slowRead, reads(3*maxReads, 2*slowRead), "they are slow, and get all the time that they need")
	})
}

// A list that is fast says nothing of reads of single objects.
func TestPlaces_of_what_hung_and_has_answered_have_all_the_time(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		held := taken(t, p, podsOf, 3)
		held[0].Hang()
		held[0].Leave()
		held[1].Leave()
		assert.Equal(t, slowRead, held[2].Time(time.Minute))
		held[2].Answer()
		assert.Equal(t, time.Minute, held[2].Time(time.Minute))
		held[2].Leave()
	})
}

// The work of a page takes longer on a machine that is busy.
func TestPlaces_of_lists_that_are_taken_are_held(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		item := taken(t, p, podsOf, maxReads)[0].lend(func([]byte) error { return pause.For(t.Context(), waitTime/2) })
		for range 30 {
			require.NoError(t, item(nil))
		}
		refuses(t, p, podsOf, slowRead/2)
	})
}

// The list of a pipeline that has no room waits, with its connection open.
func TestPlaces_of_lists_that_are_not_taken_are_free(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		slowly := func([]byte) error {
			<-time.After(blockedFor / 4)
			return errors.New("of the item")
		}
		one := taken(t, p, podsOf, maxReads)[0]
		item := one.lend(slowly)
		for range 3 {
			assert.EqualError(t, item(nil), "of the item")
		}
		refuses(t, p, podsOf, blockedFor)
		_ = item(nil)
		_ = item(nil)
		taken(t, p, podsOf, 1)
		refuses(t, p, podsOf, blockedFor)
		one.Leave()
		refuses(t, p, podsOf, blockedFor)
	})
}
