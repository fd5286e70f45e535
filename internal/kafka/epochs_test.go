// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestLeaderEpochs_doubt_an_older_leader_for_a_while(t *testing.T) {
	var e leaderEpochs
	at := time.Now()
	for _, told := range []struct {
		after     time.Duration
		partition int32
		epoch     int32
		outdated  bool
		what      string
	}{
		{0, 0, 5, false, "the first that is told of"},
		{time.Second, 0, 5, false, "the same"},
		{time.Second, 0, 4, true, "an older one"},
		{time.Second, 1, 4, false, "that of another partition"},
		{time.Second, 0, 7, false, "a newer one"},
		{outdatedFor - time.Second, 0, 6, true, "an older one, almost too long behind"},
		{2 * time.Second, 0, 0, false, "that of a topic that was recreated"},
		{0, 0, 0, false, "the same of that topic"},
	} {
		at = at.Add(told.after)
		assert.Equal(t, told.outdated, e.outdated(place{"t", told.partition}, told.epoch, at), told.what)
	}
}
