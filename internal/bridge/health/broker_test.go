// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestBroker_that_was_reached_may_be_away_for_a_while(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := errors.New("gone")
		var b Broker
		assert.Equal(t, gone, b.Problem(gone), "of a broker that was never reached")
		assert.NoError(t, b.Problem(nil))
		began := time.Now()
		assert.NoError(t, b.Problem(gone))
		<-time.After(UnreadyAfter - 1)
		assert.NoError(t, b.Problem(gone))
		<-time.After(1)
		assert.Equal(t, gone, b.Problem(gone))
		assert.Equal(t, BrokerState{Err: gone, Reached: true, Since: began}, b.State(gone))
		b.Observe(nil)
		assert.Equal(t, time.Now(), b.Returned())
		assert.Equal(t, BrokerState{Reached: true}, b.State(nil))
		assert.NoError(t, b.Problem(gone), "it is away for the first moment again")
	})
}

func TestBroker_that_refuses_an_object_has_a_problem_until_it_refuses_none(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	var b Broker
	b.Block(first)
	b.Block(second)
	assert.Equal(t, second, b.Problem(nil))
	b.Unblock()
	assert.Equal(t, second, b.State(nil).Blocked)
	b.Unblock()
	assert.NoError(t, b.Problem(nil))
	assert.NoError(t, b.State(nil).Blocked)
}
