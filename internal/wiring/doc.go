// SPDX-License-Identifier: Apache-2.0

// Package wiring makes parts of what a configuration says: streams, sinks, checkpoints, and connections to clusters and
// brokers. It runs none of them.
package wiring
