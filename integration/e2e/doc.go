// SPDX-License-Identifier: Apache-2.0

// Package e2e tests the bridge as its users run it: as a process, between a real kube-apiserver and a real NATS server.
package e2e
