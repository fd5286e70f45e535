// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"errors"

	kafkago "github.com/segmentio/kafka-go"
)

// Fenced reports whether a broker refused a producer because a newer one has come.
func Fenced(err error) bool {
	return errors.Is(err, kafkago.InvalidProducerEpoch) || errors.Is(err, kafkago.ProducerFenced)
}

// Confused reports whether a broker does not know where a producer is in its sequence: what was sent last may be in the
// log or not, and sending it again may put it there twice.
func Confused(err error) bool {
	return errors.Is(err, kafkago.OutOfOrderSequenceNumber) || errors.Is(err, kafkago.UnknownProducerId) ||
		errors.Is(err, kafkago.InvalidProducerIDMapping)
}

// TooLarge reports whether a batch is larger than the broker or the topic takes.
func TooLarge(err error) bool {
	return errors.Is(err, kafkago.MessageSizeTooLarge) || errors.Is(err, kafkago.RecordListTooLarge)
}

// Malformed reports whether a broker will never take a batch, whatever its size.
func Malformed(err error) bool {
	return errors.Is(err, kafkago.InvalidRecord) || errors.Is(err, kafkago.InvalidTimestamp) ||
		errors.Is(err, kafkago.UnsupportedCompressionType) ||
		errors.Is(err, kafkago.UnsupportedForMessageFormat)
}

// Mistimed reports whether a broker does not take the timestamps of a batch, as those of a clock that is an hour ahead
// of its own. It has stored nothing of it. Such a batch is also [Malformed].
func Mistimed(err error) bool { return errors.Is(err, kafkago.InvalidTimestamp) }

// Repeated reports whether a broker has a batch already. Where it is then, it does not say.
func Repeated(err error) bool { return errors.Is(err, kafkago.DuplicateSequenceNumber) }

// OutOfRange reports whether a partition has nothing at an offset: it is too old, or yet to come.
func OutOfRange(err error) bool { return errors.Is(err, kafkago.OffsetOutOfRange) }

// Forbidden reports whether the permission for something is missing.
func Forbidden(err error) bool {
	return errors.Is(err, kafkago.TopicAuthorizationFailed) || errors.Is(err, kafkago.ClusterAuthorizationFailed) ||
		errors.Is(err, kafkago.TransactionalIDAuthorizationFailed)
}

// misrouted reports whether another connection, or newer knowledge of the cluster, may help: no answer came, or one of
// a broker that was not the right one.
func misrouted(err error) bool {
	var answer kafkago.Error
	if !errors.As(err, &answer) {
		return !errors.Is(err, ErrNoTopic)
	}
	switch answer {
	case kafkago.UnknownTopicOrPartition, kafkago.LeaderNotAvailable, kafkago.NotLeaderForPartition,
		kafkago.RequestTimedOut, kafkago.BrokerNotAvailable,
		kafkago.ReplicaNotAvailable, kafkago.NetworkException, kafkago.GroupCoordinatorNotAvailable,
		kafkago.NotCoordinatorForGroup, kafkago.NotController,
		kafkago.ListenerNotFound, kafkago.FencedLeaderEpoch, kafkago.UnknownLeaderEpoch, kafkago.KafkaStorageError,
		kafkago.Unknown: // what kafka-go makes of a leader that does not answer when others do
		return true
	default:
		return false
	}
}
