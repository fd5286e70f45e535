// SPDX-License-Identifier: Apache-2.0

// Package replicawrite tests what a real API server answers to the writes of a replica, and what internal/replica/write
// makes of that. With -update the test records the answers for the tests of that package.
package replicawrite
