// SPDX-License-Identifier: Apache-2.0

// Package source says how what is read of Kubernetes is handed over: a [Stream] is read by package reader, which gives
// each [Change] to a [Feed], in the order in which the API server sent them, and its progress to a [History].
//
// An object travels as the bytes that came off the wire: they are copied once, into a [Body], and only the identity
// (namespace, name, uid, resourceVersion) is read out of them.
package source
