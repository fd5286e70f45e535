// SPDX-License-Identifier: Apache-2.0

// Package status tells how a bridge is doing, and what to do where it does not do well: to programs as JSON at [Path],
// to people as a page that keeps itself up to date, and as text.
//
// A [Report] is a contract: fields are added to it, and none is renamed, removed or given another meaning. It holds no
// values of Secrets, and no credentials.
package status
