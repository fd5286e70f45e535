// SPDX-License-Identifier: Apache-2.0

// Package stream is one stream: what of its changes is published (novelty), what it reads in lists (list) and tells of
// them (markers), its epochs, what was before a change (before), and what is looked at again (refusals, resync). What
// all of these read is its state. A stream is the far side of a reader, and the near side of a delivery. It knows its
// session as an interface.
package stream
