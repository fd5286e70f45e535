// SPDX-License-Identifier: Apache-2.0

// Package sharing lets readers of streams share watches (see [Watches]).
//
// What streams share is a connection, not an informer: the frames of one watch, copied and read once. Each stream
// keeps its own position, list and gap, and the stubs of its own informer.
//
// A stream reads a watch of its own if it takes nothing for a second while others do, or if it comes with an older
// position. It changes over to the shared watch when that still has everything since the stream's position.
package sharing
