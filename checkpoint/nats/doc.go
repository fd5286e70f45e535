// SPDX-License-Identifier: Apache-2.0

// Package nats keeps checkpoints in a key-value bucket of NATS JetStream, so that a bridge needs no disk.
//
// One bucket is for all pipelines, of all clusters. A checkpoint's keys begin with its name; others are left alone.
// Each key is written once: the checkpoint is a log of messages, and what it holds is what they say in their order.
//
//   - A commit that fits one message is one message. A larger one is cut into several, of which the last one makes the
//     others count.
//   - Every message is refused by the server unless the one before it, of whatever key of the checkpoint, is the last
//     one that the writer knows of. So nothing of two writers is ever mixed, nothing that was thought lost arrives
//     behind what came after it, and who was replaced cannot write any more.
//   - Now and then all that holds is written once more, as a commit that replaces what was there (a base), and what is
//     older is purged. So the bucket has about twice what holds at most.
//
// One process at a time uses a checkpoint. Opening it takes the next epoch with a message of its own; from then on an
// older process gets a [*checkpoint.TakenError]. A process that writes to its checkpoint is not replaced: see [Open].
package nats
