// SPDX-License-Identifier: Apache-2.0

// Package source reads Kubernetes resources and hands over every change it sees, in the order in which
// the API server sent them.
//
// An object travels as the bytes that came off the wire: they are copied once, and only the identity
// (namespace, name, uid, resourceVersion) is read out of them. The informer's cache holds identities, never bodies.
//
// A watch that ends, fails or is refused is resumed where it stopped. Only when the API server no longer has the
// history that is needed (410 Gone) does a stream list again, and it says so (see [Progress]).
package source
