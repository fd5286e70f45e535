// SPDX-License-Identifier: Apache-2.0

// Package replica keeps objects of a target cluster in the state that a log of another cluster describes.
//
// It is a level-triggered reconciler. What is desired is the newest event of each key; what is actual is read from the
// target by label. A key whose two sides may differ is in a queue, and one worker at a time reconciles it: it asks
// package plan what to do, and does it.
//
// Nothing is written before the log was read up to the end that it had at the start, and the target's objects of the
// key's resource are listed. Nothing is remembered on disk: what was applied stands in the annotations of the target's
// objects, and what a person has released in a ConfigMap (see State).
//
// Locks: the keys' table, the guards, the parked keys and the outstanding keys each have one of their own. None of them
// is held while another one is taken, or across a request.
package replica
