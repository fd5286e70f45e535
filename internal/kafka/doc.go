// SPDX-License-Identifier: Apache-2.0

// Package kafka is a connection to a Kafka cluster, as the sink and the checkpoint need it: idempotent produce requests
// of whole batches, plain fetch requests, and the few questions and settings of topics. It keeps what kafka-go's client
// leaves to its caller: deadlines for every exchange, a connection pool without dead connections after a failure,
// leaders that are not older than those it has heard of, and errors that say what to look at.
//
// It has no producer's state machine and no consumer groups.
package kafka
