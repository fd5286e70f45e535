// SPDX-License-Identifier: Apache-2.0

// Package refused records the objects of a stream of which the broker took neither the last event nor a rejection in
// its place, and says when each is tried again.
package refused
