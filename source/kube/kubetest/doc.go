// SPDX-License-Identifier: Apache-2.0

// Package kubetest has API servers for tests: a [Script] answers as the test says, a [Cluster] has a history.
package kubetest
