// SPDX-License-Identifier: Apache-2.0

package kafkasecurity

import (
	"context"
	"fmt"
	"testing"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kube-eventbridge/kube-eventbridge/integration/internal/rig"
	"github.com/kube-eventbridge/kube-eventbridge/integration/kafkabroker"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event"
	"github.com/kube-eventbridge/kube-eventbridge/internal/event/kafkalog"
	"github.com/kube-eventbridge/kube-eventbridge/internal/kafka"
	"github.com/kube-eventbridge/kube-eventbridge/internal/must"
)

// A replica needs Read on its topic and on its group. Each is named where it is missing.
func TestReplica_needs_two_permissions(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	works(t, client(t, c, "SASL_PLAINTEXT", kafka.Config{Auth: auth(t, c, kafka.ScramSHA256, "alice", "wonderland")}))
	group := kafkabroker.UniqueTopic(t)
	var log *kafkalog.Log
	var last event.Message
	marks := event.Marks{}
	read := func(user, password string) error {
		log = must.Get(kafkalog.New(kafkalog.Config{
			Brokers: c.AddressesOf("SASL_PLAINTEXT"), Topic: topic, Group: group,
			Auth: auth(t, c, kafka.ScramSHA256, user, password),
		}))(t)
		t.Cleanup(log.Close)
		return log.Read(t.Context(), event.Reading{
			Span:   event.Span{Start: event.Start{Newest: true}},
			Counts: func(event.Message) bool { return true },
			Each:   func(_ context.Context, m event.Message) error { last = m; marks.Take(&m); return nil },
		})
	}
	assert.ErrorContains(t, read("bob", "builder"), "the user's ACLs do not allow operation Read on Topic secured")

	require.NoError(t, c.Allow(t.Context(), "carol", kafkago.ResourceTypeTopic, topic, kafkago.ACLOperationTypeRead))
	require.NoError(t, read("carol", "reader"))
	assert.NoError(t, must.Err(log.At(t.Context(), last.Position)), "a body is read again")
	assert.NoError(t, must.Err(log.Behind(t.Context(), marks)))
	assert.ErrorContains(t, log.Acknowledge(t.Context(), marks),
		"the user's ACLs do not allow operation Read on Group "+group)

	require.NoError(t, c.Allow(t.Context(), "carol", kafkago.ResourceTypeGroup, group, kafkago.ACLOperationTypeRead))
	rig.Poll(t, "the group has a coordinator, and takes the offsets", func() (bool, string) {
		err := log.Acknowledge(t.Context(), marks)
		return err == nil, fmt.Sprint(err)
	})
}
