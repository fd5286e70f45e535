// SPDX-License-Identifier: Apache-2.0

// Package campaign breaks a world again and again while objects change in it, and has the oracle judge the log.
//
// A campaign consists of rounds. Each has a world, a driver and a recorder of its own, whose seed follows from the
// campaign's: it injects some faults, lets everything come to rest, reads the whole log, and compares it with what etcd
// says has happened. Logs that faults took away were read before, and are compared up to there. A bridge that ends by
// itself, does not come to rest or uses a damaged checkpoint ends its round, which counts as broken.
//
// Results are kept in a file, one line a round, so that a campaign that was cut short, even by a kill, goes on where it
// was. What fails around the bridge is tried once more, and then ends the campaign.
package campaign
