// SPDX-License-Identifier: Apache-2.0

// Package monitoring has what operators look at: Prometheus rules, a Grafana dashboard, and the reference of the
// metrics. It writes them, as the files of deploy and docs, from one source; a test compares.
package monitoring
