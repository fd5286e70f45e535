// SPDX-License-Identifier: Apache-2.0

// Package resyncs knows which resyncs of a stream were asked for, run, and have ended. It publishes nothing.
package resyncs
