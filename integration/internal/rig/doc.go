// SPDX-License-Identifier: Apache-2.0

// Package rig builds and runs the program, and what tests put around it.
//
//   - [Program], [Build]: the bridge, built once for a tree and its flags.
//   - [Bridge]: a process of it in a test. Where no test runs, package child has processes.
//   - [NATS]: a NATS server in this process. Packages controlplane and kafkabroker have the other servers.
//   - [NATSLog], [KafkaLog]: the log, read incrementally.
//   - [Record], [Truth]: what really happened, and the oracle's judgement of a log.
//   - [Poll], [Must]: waiting with one deadline, and failing.
//   - [Tier]: which make target a test runs with.
package rig
