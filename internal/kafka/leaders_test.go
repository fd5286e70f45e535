// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"errors"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
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
	assert.True(t, l.identify("t", ""), "a broker that does not know the topic")
	assert.True(t, older(), "an older leader of the same topic, behind a broker that does not know it")
	assert.True(t, l.identify("t", "C"), "another id")
	assert.False(t, older(), "a leader of another topic of the name")
}

// tells are leaders of a topic with two partitions, of which the library knows what m has.
func tells(m *metadata.Response) *leaders {
	return &leaders{known: func(context.Context, string) (*metadata.Response, error) { return m, nil }}
}

func TestLeaders_are_those_that_lead_and_are_not_outdated(t *testing.T) {
	partitions := []metadata.ResponsePartition{{LeaderID: 1, LeaderEpoch: 5}, {PartitionIndex: 1, LeaderID: -1}}
	m := &metadata.Response{
		Brokers: []metadata.ResponseBroker{{NodeID: 1}},
		Topics:  []metadata.ResponseTopic{{Name: "t", Partitions: partitions}},
	}
	l := tells(m)
	leads, err := l.of(t.Context(), place{"t", 0})
	assert.True(t, err == nil && leads == 1, "%d, %v", leads, err)
	_, err = l.of(t.Context(), place{"t", 1})
	assert.ErrorIs(t, err, protocol.ErrNoLeader)
	_, err = l.of(t.Context(), place{"t", 2})
	assert.ErrorIs(t, err, protocol.ErrNoPartition)
	partitions[0].LeaderEpoch = 4
	_, err = l.of(t.Context(), place{"t", 0})
	assert.ErrorIs(t, err, errOutdated)
	m.Topics[0] = metadata.ResponseTopic{ErrorCode: int16(kafkago.UnknownTopicOrPartition)}
	_, err = l.of(t.Context(), place{"t", 0})
	assert.ErrorIs(t, err, protocol.ErrNoTopic)
}

func TestLeaders_are_compared_before_a_request_and_behind_it(t *testing.T) {
	partitions := []metadata.ResponsePartition{{LeaderID: 1, LeaderEpoch: 5}}
	l := tells(&metadata.Response{Topics: []metadata.ResponseTopic{{Name: "t", Partitions: partitions}}})
	asked := 0
	ask := func(epoch int32) error {
		return l.ask(t.Context(), "t", 0, 1, func() error {
			asked++
			partitions[0].LeaderEpoch = epoch
			return nil
		})
	}
	require.NoError(t, ask(5))
	require.ErrorIs(t, ask(4), errOutdated, "it became older meanwhile")
	require.ErrorIs(t, ask(5), errOutdated, "it is older before")
	assert.Equal(t, 2, asked, "requests")
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
