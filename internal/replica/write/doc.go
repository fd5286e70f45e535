// SPDX-License-Identifier: Apache-2.0

// Package write makes one request to the API server that a replica writes to, and says what its answer means.
//
// An answer is told by its structure: the code, whether the body is a Status, and of the Status the reason, the details
// and their causes. The text of a message is for people; it differs between versions and plugins. The table of
// situations and outcomes is the test in integration/replicawrite, which asks a real API server. What it answered is
// in testdata.
package write
