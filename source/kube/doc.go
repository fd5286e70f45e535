// SPDX-License-Identifier: Apache-2.0

// Package kube asks an API server: for pages of lists, also at an exact version, for single objects, for watches, and
// for what is allowed. Requests that fail are repeated only where a function says so; errors tell whether to ask again
// (see [Unanswerable]), and when (see [Backoff]).
package kube
