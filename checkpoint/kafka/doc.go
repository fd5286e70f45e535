// SPDX-License-Identifier: Apache-2.0

// Package kafka keeps checkpoints in a compacted topic of Kafka, so that a bridge needs no disk.
//
// One topic is for all pipelines, of all clusters. A pipeline's checkpoint is in one partition of it, under keys that
// begin with the checkpoint's name; other keys are left alone. A commit has been acknowledged by all replicas that are
// in sync when it returns, and is there in full or not at all, whenever the process dies, whatever compaction does
// meanwhile and however long no process comes back:
//
//   - A commit that fits one record batch is one record batch. Brokers take a batch in full or not at all.
//   - A larger one is written down first, in records of its own that compaction cannot mistake for others (chunks);
//     then one record (the head) says that they hold. From there on it is committed: the chunks are copied to where
//     they belong and removed, by whoever comes to it. Chunks of which no head speaks do not count.
//
// One process at a time uses a checkpoint. Opening it takes the next epoch of a transactional id's producer and writes
// a first record under it, the barrier; from then on the broker refuses what an older process sends, however late that
// arrives, and that process gets a [*checkpoint.TakenError]. No transaction is ever begun. A process that writes to its
// checkpoint is not replaced: see [Open].
package kafka
