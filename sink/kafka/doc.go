// SPDX-License-Identifier: Apache-2.0

// Package kafka publishes to Kafka, in the CloudEvents binding for it.
//
// A message's partition is the one that Java's clients choose for its key. Each partition has one batch under way at
// most, and the sink has an idempotent producer's identity: a batch that failed without an answer is sent again with
// the same bytes under the same sequence, and the broker recognises it. So nothing is in a partition twice and nothing
// out of order, whatever fails between the sink and the broker.
//
// One process at a time publishes for a pipeline: the identity is that of a transactional id, although no transaction
// is ever begun. Whoever begins to publish takes its next epoch and writes a first record, the barrier, to each
// partition; from then on brokers refuse batches of older epochs. What a partition has before the barrier is all that
// an earlier process will ever have written.
package kafka
