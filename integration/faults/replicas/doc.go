// SPDX-License-Identifier: Apache-2.0

// Package replicas breaks what a replica needs, on real parts, and judges what it has written.
//
// A world has a source with a bridge, a broker, and a target with a replicator. While a driver changes the source and
// people interfere in the target, faults are injected. When all is quiet both clusters are compared. Each write in the
// target's audit log is judged by the history of its etcd.
package replicas
