// SPDX-License-Identifier: Apache-2.0

// Package recovery compares a checkpoint with the log, before anything is read from the API server. The rules are those
// of sequence.Found.Decide: the pipeline resumes, or the checkpoint is lost, or the log is.
//
// The store keeps nothing of a stream whose deletions are in the log. If the log loses them, it has the objects as
// existing. Recovery makes a stored stream of these, which nothing serves or nothing selects, and the plan retires it
// like any other.
package recovery
