// SPDX-License-Identifier: Apache-2.0

package health

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
)

// What happened to a stream outlives a session, and ends with the stream.
func TestIncidents_end_with_their_stream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all Incidents
		gap := Gap{At: time.Now(), From: "1", To: "2"}
		all.Stream("s").Announced(gap)
		assert.Equal(t, gap, all.Stream("s").Past().Gap)
		all.Forget("s")
		assert.Zero(t, all.Stream("s").Past())
		restored, other := errors.New("restored"), errors.New("another writer")
		all.LogLost(restored)
		all.OtherWriter(other)
		assert.Equal(t, Event{At: time.Now(), Err: restored}, all.Loss())
		assert.Equal(t, Event{At: time.Now(), Err: other}, all.Writer())
	})
}

func TestStreamIncidents_a_failure_is_over_once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s StreamIncidents
		s.Recovered()
		assert.Zero(t, s.Past(), "nothing has failed")
		began, gone := time.Now(), errors.New("gone")
		s.Failed(began, gone)
		assert.Equal(t, Past{Failure: Event{At: began, Err: gone}}, s.Past())
		<-time.After(time.Second)
		s.Recovered()
		cleared := time.Now()
		<-time.After(time.Second)
		s.Recovered()
		assert.Equal(t, Past{Failure: Event{At: began, Err: gone}, Cleared: cleared}, s.Past())
		s.Failed(time.Now(), gone)
		assert.Zero(t, s.Past().Cleared)
	})
}

func TestStreamIncidents_counts_rejections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s StreamIncidents
		first, second := errors.New("first"), errors.New("second")
		s.Rejected("a", first)
		s.Rejected("b", second)
		assert.Equal(t, Past{Rejections: 2, Rejection: Event{At: time.Now(), Err: second, Object: "b"}}, s.Past())
	})
}
