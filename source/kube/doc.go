// SPDX-License-Identifier: Apache-2.0

// Package kube asks an API server: for pages of lists, also at an exact version, for single objects, for watches, and
// for what is allowed. Requests that fail are repeated only where a function says so; errors tell whether to ask again
// (see [Unanswerable]), and when (see [Backoff]).
//
// Four lists and reads of a resource are under way at a time. A slow request counts only among those of its resource,
// and a list that its reader does not take does not count. Otherwise an API server that hangs, or a pipeline that
// stalls, would hold up all others. If reads of single objects hang, a check that waits behind others gives up after a
// second, because a watch is worth more.
package kube
