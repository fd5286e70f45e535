// SPDX-License-Identifier: Apache-2.0

// Package natsclient connects to NATS servers, and says what is wrong with a connection, for all that uses one: the
// sink, the checkpoint and tail. It has the rules of subjects, and what JetStream says by numbers.
package natsclient
