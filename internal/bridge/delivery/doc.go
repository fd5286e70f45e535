// SPDX-License-Identifier: Apache-2.0

// Package delivery is what brings changes to the broker in order and within bounds: how much is read ahead, what is
// under way, and up to which offsets of the log all is acknowledged.
package delivery
