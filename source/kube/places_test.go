// SPDX-License-Identifier: Apache-2.0

package kube

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var podsOf, metricsOf = schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "metrics", Resource: "pods"}

// taken takes n places of a resource.
func taken(t *testing.T, p *places, of schema.GroupResource, n int) (all []*Place) {
	t.Helper()
	for range n {
		one, err := p.take(t.Context(), of, false)
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
	_, err := p.take(ctx, of, false)
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

// Reads of single objects hang, and each reader waits for its own.
func TestPlaces_of_what_is_short_and_hangs_are_free(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces()
		began := time.Now()
		for range 3 * maxReads {
			one, err := p.take(t.Context(), podsOf, true)
			require.NoError(t, err)
			defer one.Leave()
		}
		assert.Equal(t, 2*slowRead, time.Since(began))
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
