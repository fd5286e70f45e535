// SPDX-License-Identifier: Apache-2.0

// Package resync lets a person ask a bridge that runs to publish everything that exists again, over the bridge's HTTP
// server.
//
// POST /resync asks for it, GET /resync only tells. Both answer an [Answer], or a [Refusal], as JSON.
package resync
