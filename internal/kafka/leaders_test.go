// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

func TestLeaders_doubt_an_older_leader_for_a_while(t *testing.T) {
	var l leaders
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
		assert.Equal(t, told.outdated, l.outdated(place{"t", told.partition}, told.epoch, at), told.what)
	}
}

func TestLeaders_forget_those_of_a_topic_that_was_recreated(t *testing.T) {
	var l leaders
	at := time.Now()
	older := func() bool { return l.outdated(place{"t", 0}, 4, at) }
	assert.False(t, l.identify("t", "A"), "its first id is none after another")
	assert.False(t, l.outdated(place{"t", 0}, 5, at))
	assert.False(t, l.identify("t", "A"), "the same id")
	assert.False(t, l.identify("u", "B"), "that of another topic")
	assert.True(t, older(), "an older leader of the same topic")
	assert.True(t, l.identify("t", "C"), "another id")
	assert.False(t, older(), "a leader of another topic of the name")
}

// Whoever reads waits where a broker answers with one of Kafka's errors, and not where the library has one of its own.
func TestBounds_fail_for_an_older_leader_and_for_none_as_a_broker_would(t *testing.T) {
	t.Parallel()
	f := newFake(t, func(f *fake) {
		f.leader.Store(1)
		f.epoch.Store(5)
	})
	c := must.Get(NewClient(Config{Brokers: []string{f.addr()}}))(t)
	defer c.Close()
	bounds := func() error {
		_, err := c.Bounds(t.Context(), "t", 1)
		return err
	}
	require.NoError(t, bounds())

	for _, told := range []struct {
		leader, epoch int32
		what          string
		is            func(error) bool
	}{
		{1, 4, "an older leader", func(err error) bool { return errors.Is(err, errOutdated) }},
		{1, 5, "the newest leader", func(err error) bool { return err == nil }},
		{-1, 6, "none", func(err error) bool {
			return errors.Is(err, kafkago.NotLeaderForPartition) && !errors.Is(err, errOutdated)
		}},
		{1, 7, "a newer leader", func(err error) bool { return err == nil }},
	} {
		f.leader.Store(told.leader)
		f.epoch.Store(told.epoch)
		var err error
		must.Happen(t, told.what, func() bool {
			err = bounds()
			return told.is(err)
		})
		var code kafkago.Error
		assert.True(t, err == nil || errors.As(err, &code), "%s: %v is no error of Kafka", told.what, err)
	}
}
